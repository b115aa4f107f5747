"""A whole server in memory for tests of files and tools: an owner, another user, a session, and how
to ask."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

import httpx2
import msgspec
from fastapi import FastAPI

from open_token.server.agent.tools.interface import ToolContext
from open_token.server.config import ServerConfig
from open_token.server.core.services import Services
from open_token.server.core.workspace import Workspace
from open_token.server.http.app import build_app
from open_token.server.lifecycle import create_first_key, run_services
from open_token.server.store.rows import User

T = TypeVar("T")


@dataclass
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return msgspec.json.decode(self.body)


@dataclass
class ToolServer:
    """A server, who asks, and the session that it is about."""

    services: Services
    app: FastAPI
    client: httpx2.AsyncClient
    owner: str
    session_id: str
    keys: dict[str, str]

    @property
    def workspace(self) -> Workspace:
        return self.services.workspaces.get(self.session_id)

    def place(self, call: str = "call_1", **env: str) -> ToolContext:
        """Where a tool is called."""
        return ToolContext(
            self.services, self.owner, self.session_id, "turn_1", call, "root", self.workspace, env
        )

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        who: str = "owner",
        content_type: str = "application/json",
    ) -> Answer:
        """A request with just this path, as a server would get it; `path` goes on behind that of
        the session."""
        whole = path if path.startswith("/api/") else f"/api/sessions/{self.session_id}/{path}"
        data = (
            body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
        )
        return await call_asgi(self.app, method, whole, data, self.keys.get(who), content_type)

    async def signals(self, event: str) -> list[dict[str, Any]]:
        """What clients that watch the session received."""
        log = await self.services.store.read_log(self.owner, self.session_id, 0, 10_000)
        return [
            entry.data["payload"]
            for entry in log
            if entry.kind == "signal.sent" and entry.data["event"] == event
        ]


async def call_asgi(
    app: FastAPI,
    method: str,
    path: str,
    body: bytes,
    key: str | None,
    content_type: str = "application/json",
) -> Answer:
    """One request without a client that would tidy the path up."""
    headers = [(b"host", b"server"), (b"content-type", content_type.encode())]
    if key:
        headers.append((b"authorization", f"Bearer {key}".encode()))
    route, _, query = path.partition("?")
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
        "path": unquote(route), "raw_path": route.encode(), "query_string": query.encode(), "root_path": "",
        "headers": headers, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
    }  # fmt: skip
    waiting = [{"type": "http.request", "body": body, "more_body": False}]
    sent: list[dict[str, Any]] = []
    forever = asyncio.Event()

    async def receive() -> dict[str, Any]:
        if waiting:
            return waiting.pop()
        await forever.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    start = sent[0]
    return Answer(
        start["status"],
        {name.decode(): value.decode() for name, value in start["headers"]},
        b"".join(message.get("body", b"") for message in sent[1:]),
    )


@contextlib.asynccontextmanager
async def open_tool_server(
    folder: Path, env: Mapping[str, str] | None = None, **config: Any
) -> AsyncIterator[ToolServer]:
    """Open a server on a folder, with a session of the owner's in it."""
    async with run_services(ServerConfig(data=folder / "data", **config), env or {}) as services:
        key = await create_first_key(services)
        users = await services.store.users()
        now = services.clock.now()
        other = await services.store.add_user(
            User(id="user_other", name="other", role="user", created_at=now)
        )
        _, outsider = await services.store.add_key(other.id, "theirs", "full", now)
        _, reading = await services.store.add_key(users[0].id, "reading", "read", now)
        await services.journal.create(
            users[0].id, {"id": "sess_1", "intent": "to work", "created_at": now}
        )
        app = build_app(services)
        keys = {"owner": key or "", "other": outsider, "reader": reading}
        transport = httpx2.ASGITransport(app)
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx2.AsyncClient(
            transport=transport, base_url="http://server", headers=headers
        ) as client:
            yield ToolServer(services, app, client, users[0].id, "sess_1", keys)


def run_with_tools(folder: Path, do: Callable[[ToolServer], Awaitable[T]], **config: Any) -> T:
    """Run one thing in a workshop of its own."""

    async def all_of_it() -> T:
        async with open_tool_server(folder, **config) as shop:
            return await do(shop)

    return asyncio.run(all_of_it())
