"""A whole server without sockets, called as clients call it, from tests that have no event loop of
their own."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import httpx2

from open_token.model.log_events import LogEntry
from open_token.server.clock import Clock
from open_token.server.config import Limits, ServerConfig
from open_token.server.http.app import build_app
from open_token.server.lifecycle import create_first_key, run_services
from open_token.server.store.rows import Scope, User
from open_token.session import SessionState
from open_token.session.actions import build_text_blocks, send_user_message

T = TypeVar("T")
PLENTY = Limits(requests_per_minute=10_000_000)


class RestServer:
    """A server in a folder, its owner's key, and a second person with keys of every kind."""

    def __init__(self, folder: Path, clock: Clock | None = None, **config: Any) -> None:
        self.loop = asyncio.new_event_loop()
        env = config.pop("env", {})
        self._running = run_services(
            ServerConfig(**{"data": folder, "limits": PLENTY, **config}), env, clock
        )
        self.services = self.run(self._running.__aenter__())
        self.key = self.run(create_first_key(self.services)) or ""
        self.app = build_app(self.services)
        self.client = httpx2.AsyncClient(
            transport=httpx2.ASGITransport(self.app, client=("127.0.0.1", 1)),
            base_url="http://server.test",
        )

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    @property
    def owner(self) -> str:
        return self.run(self.services.store.users())[0].id

    def call(
        self, method: str, path: str, json: Any = None, key: str | None = "", **more: Any
    ) -> httpx2.Response:
        """A request; with the owner's key unless another is named, None is none."""
        headers = more.pop("headers", {})
        if key is not None:
            headers = {"Authorization": f"Bearer {key or self.key}", **headers}
        body = {} if json is None else {"json": json}
        return self.run(self.client.request(method, path, headers=headers, **body, **more))

    def get(self, path: str, **more: Any) -> Any:
        """What a GET answers, which must go well."""
        return self._well(self.call("GET", path, **more))

    def post(self, path: str, json: Any = None, **more: Any) -> Any:
        return self._well(self.call("POST", path, {} if json is None else json, **more))

    def put(self, path: str, json: Any, **more: Any) -> Any:
        return self._well(self.call("PUT", path, json, **more))

    def patch(self, path: str, json: Any, **more: Any) -> Any:
        return self._well(self.call("PATCH", path, json, **more))

    def delete(self, path: str, **more: Any) -> Any:
        return self._well(self.call("DELETE", path, **more))

    def _well(self, answer: httpx2.Response) -> Any:
        assert answer.status_code < 300, (answer.status_code, answer.text)
        return answer.json() if answer.content else None

    def refused(self, method: str, path: str, json: Any = None, **more: Any) -> int:
        """The status of an answer that must be a refusal in our form."""
        answer = self.call(method, path, json, **more)
        assert 400 <= answer.status_code < 600, answer.text
        assert answer.json().keys() == {"detail", "code"}, answer.text
        return answer.status_code

    def session(self, **given: Any) -> str:
        """A new session of the owner's."""
        return str(self.post("/api/sessions", {"intent": "Mend the build", **given})["session_id"])

    def person(self, name: str = "ben", scope: Scope = "full") -> str:
        """A key of another person."""
        now = self.services.clock.now()
        user = User(id=f"user_{name}", name=name, role="user", created_at=now)
        self.run(self.services.store.add_user(user))
        return self.run(self.services.store.add_key(user.id, "theirs", scope, now))[1]

    def say(self, session_id: str, *texts: str) -> list[str]:
        """Turns of the person's, each with a checkpoint before it; gives the checkpoints."""
        made = []
        for text in texts:
            name = self.services.clock.name("turn")
            steps = send_user_message(name, build_text_blocks(text), checkpoint_id=f"cp_{name}")
            self.write(session_id, steps)
            made.append(f"cp_{name}")
        return made

    def write(self, session_id: str, steps: list[tuple[str, dict[str, Any]]], **more: Any) -> None:
        self.run(self.services.journal.write(self.owner, session_id, lambda state: steps, **more))

    def state(self, session_id: str) -> SessionState:
        return self.run(self.services.journal.state(self.owner, session_id))

    def entries(self, session_id: str) -> list[LogEntry]:
        """The log of a session of the owner's."""
        return self.run(self.services.store.read_log(self.owner, session_id, limit=10_000))

    def close(self) -> None:
        self.run(self.client.aclose())
        self.run(self._running.__aexit__(None, None, None))
        self.run(self.loop.shutdown_default_executor())
        self.loop.close()
