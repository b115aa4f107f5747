"""A whole server without sockets for tests: its services, two people with keys, and a client of its
routes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import httpx2

from open_token.model.log_events import Json, NewEvent
from open_token.server.clock import Clock
from open_token.server.config import ServerConfig
from open_token.server.core.services import Services
from open_token.server.http.app import build_app
from open_token.server.lifecycle import create_first_key, run_services
from open_token.server.store.rows import User
from open_token.session import SessionState, actions

BEN = "user_ben"


class ServerClient:
    """Services, and clients with the owner's key, another user's, one that only reads, and none."""

    def __init__(self, services: Services, keys: dict[str, str]) -> None:
        self.services = services
        self.keys = keys
        self._transport = httpx2.ASGITransport(build_app(services))

    @property
    def owner(self) -> str:
        return self.keys["id"]

    async def __call__(
        self, method: str, path: str, who: str = "owner", **more: Any
    ) -> httpx2.Response:
        headers = {"authorization": f"Bearer {self.keys[who]}"} if who in self.keys else {}
        headers |= more.pop("headers", {})
        async with httpx2.AsyncClient(
            transport=self._transport, base_url="http://server"
        ) as client:
            return await client.request(method, path, headers=headers, **more)

    async def create_session(
        self, *extra: NewEvent, intent: str = "A session", session_id: str = "sess_1"
    ) -> str:
        """A session in which something was said."""
        await self.services.journal.create(
            self.owner, {"id": session_id, "intent": intent}, lambda state: SESSION_EVENTS
        )
        if extra:
            await self.services.journal.write(self.owner, session_id, lambda state: extra)
        return session_id

    async def state(self, session_id: str) -> SessionState:
        return await self.services.journal.state(self.owner, session_id)


SESSION_EVENTS: list[NewEvent] = [
    *actions.send_user_message(
        "turn_1", actions.build_text_blocks("What is in the folder?"), checkpoint_id="cp_1"
    ),
    ("run.started", {"run_id": "run_1"}),
    ("turn.opened", {"turn": {"turn_id": "turn_2", "model": "demo"}}),
    ("thinking.delta", {"turn_id": "turn_2", "text": "Let me look."}),
    ("text.delta", {"turn_id": "turn_2", "text": "I look "}),
    ("text.delta", {"turn_id": "turn_2", "text": "into it."}),
    (
        "tool.called",
        {
            "turn_id": "turn_2",
            "call": {"id": "tc_1", "tool_name": "Glob", "arguments": '{"pattern":"*"}'},
        },
    ),
    ("tool.result", {"turn_id": "turn_2", "tool_call_id": "tc_1", "result": ["a.txt"]}),
    ("turn.ended", {"turn_id": "turn_2", "usage": {"input_tokens": 5, "output_tokens": 2}}),
    ("turn.opened", {"turn": {"turn_id": "turn_3", "model": "demo"}}),
    ("text.delta", {"turn_id": "turn_3", "text": "One file: a.txt."}),
    ("turn.ended", {"turn_id": "turn_3"}),
    ("run.ended", {"run_id": "run_1", "output": "One file: a.txt."}),
]


@contextlib.asynccontextmanager
async def open_server(
    folder: Path, clock: Clock | None = None, **config: Any
) -> AsyncIterator[ServerClient]:
    """A server over a data folder while it runs."""
    async with run_services(
        ServerConfig(data=folder, **config), {"OPEN_TOKEN_HOME": str(folder / "home")}, clock
    ) as services:
        keys: Json = {}
        if plaintext := await create_first_key(services):
            store, now = services.store, services.clock.now()
            await store.add_user(User(id=BEN, name="Ben", role="user", created_at=now))
            owner = (await store.users())[0].id
            keys = {"id": owner, "owner": plaintext}
            keys["reader"] = (await store.add_key(owner, "reads", "read", now))[1]
            keys["ben"] = (await store.add_key(BEN, "his", "full", now))[1]
        else:
            owner = (await services.store.users())[0].id
            keys = {
                "id": owner,
                "owner": (
                    await services.store.add_key(owner, "more", "full", services.clock.now())
                )[1],
            }
        yield ServerClient(services, keys)


def run_with_server(
    folder: Path,
    test: Callable[[ServerClient], Coroutine[Any, Any, Any]],
    seconds: float = 60,
    **config: Any,
) -> Any:
    """Run a test against a server of its own."""

    async def whole() -> Any:
        async with open_server(folder, **config) as ask:
            return await asyncio.wait_for(test(ask), seconds)

    return asyncio.run(whole())
