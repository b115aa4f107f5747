"""For tests with real sockets: a server that listens, a chat that only writes, and clients of both
dialects."""

import asyncio
import base64
import contextlib
import json
import os
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import socketio

from helpers.server.live_events import apply_event, create_users
from helpers.server.reference_client import ReferenceClient
from open_token.model.log_events import Json, NewEvent
from open_token.server import lifecycle, listener
from open_token.server.config import Limits, ServerConfig
from open_token.server.core.services import Services
from open_token.server.errors import bad_request
from open_token.server.store.rows import Caller
from open_token.session import SessionState, actions

EVENTS = (
    "chat:start",
    "turn:start",
    "turn:patch",
    "turn:end",
    "chat:end",
    "session:updated",
    "workspace:files_changed",
    "memory:inject:done",
    "task:updated",
    "skills:changed",
    "system:error",
    "system:notification",
    "replay:input_mismatch",
    "turn:events",
)


class WritingChat:
    """A chat without an agent: it repeats what it receives."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.heard: list[tuple[str, str, Any]] = []

    async def send(self, caller: Caller, payload: Json) -> Json:
        self.heard.append(("send", caller.user.id, payload))
        message = payload.get("message")
        if not isinstance(message, str):
            raise bad_request("message is a text")
        if message == "boom":
            raise ValueError("something that must not be sent")
        session_id, count = payload["session_id"], len(self.heard)
        names = {name: f"{name}_{count}" for name in ("user", "turn", "run")}
        written = await self._services.journal.write(
            caller.user.id, session_id, lambda state: exchange(state, names, message.split())
        )
        assert written.entries
        return {
            "status": "ok",
            "session_id": session_id,
            "turn_id": names["turn"],
            "chat_run_id": names["run"],
            "queued": False,
        }

    async def stop(self, caller: Caller, session_id: str) -> Json:
        self.heard.append(("stop", caller.user.id, session_id))
        return {"status": "ok", "stopped": False}

    async def compact(self, caller: Caller, session_id: str) -> Json:
        self.heard.append(("compact", caller.user.id, session_id))
        return {"status": "ok", "message": "nothing to do", "code": "too_short"}


def exchange(state: SessionState, names: dict[str, str], words: list[str]) -> list[NewEvent]:
    """What an exchange comes to: the person's turn, an answer in words, the end."""
    said = actions.send_user_message(names["user"], actions.build_text_blocks(" ".join(words)))
    answer: list[NewEvent] = [
        ("text.delta", {"turn_id": names["turn"], "text": f"{word} "}) for word in words
    ]
    return [
        ("run.started", {"run_id": names["run"]}),
        *said,
        ("turn.opened", {"turn": {"turn_id": names["turn"], "model": "demo"}}),
        *answer,
        ("turn.ended", {"turn_id": names["turn"]}),
        ("run.ended", {"run_id": names["run"], "output": " ".join(words)}),
    ]


@contextlib.asynccontextmanager
async def listening(
    folder: Path, *, has_agents: bool = False, **limits: Any
) -> AsyncIterator[listener.RunningServer]:
    """A server on a port of its own, with two users, and with agents only where a test asks."""
    config = ServerConfig(data=folder, port=0, limits=Limits(**limits))
    env = {"OPEN_TOKEN_DEMO_DELAY": "0.001"}
    chat = lifecycle.Chat
    if not has_agents:
        lifecycle.Chat = WritingChat  # type: ignore[misc,assignment]
    try:
        async with lifecycle.run_services(config, env) as services:
            await create_users(services)
        async with listener.run_server(config, env) as server:
            yield server
    finally:
        lifecycle.Chat = chat  # type: ignore[misc]


class Client:
    """A live client: keeps what comes, and what a mirror makes of it."""

    def __init__(self, address: str, token: Any, transports: list[str] | None = None) -> None:
        self.io = socketio.AsyncClient(reconnection=False)
        self.mirror = ReferenceClient()
        self.numbers: list[int] = []
        self.events: list[tuple[str, Any]] = []
        self._address, self._token = address, token
        self._transports = transports or ["websocket"]
        self._news = asyncio.Event()
        for name in EVENTS:
            self.io.on(name, self._taking(name))
        for name in ("disconnect", "connect_error"):
            self.io.on(name, self._taking(name))

    def _taking(self, name: str) -> Callable[..., None]:
        def take(payload: Any = None, *_: Any) -> None:
            self.events.append((name, payload))
            if name == "turn:events" or (
                isinstance(payload, dict) and "stream_sequence" in payload
            ):
                apply_event(self.mirror, self.numbers, name, payload)
            self._news.set()

        return take

    async def __aenter__(self) -> "Client":
        await self.io.connect(
            self._address, auth={"token": self._token}, transports=self._transports
        )
        return self

    async def refusal(self) -> Json:
        """What is said to one who may not connect."""
        try:
            async with self:
                raise AssertionError("the server let it in")
        except socketio.exceptions.ConnectionError:
            result: Json = dict(self.events)["connect_error"]
            return result

    async def __aexit__(self, *_: object) -> None:
        await self.io.disconnect()

    async def subscribe(self, session_id: str = "sess_1", **more: Any) -> None:
        await self.io.emit("session:subscribe", {"session_id": session_id, **more})

    async def until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            self._news.clear()
            await self._news.wait()

    async def first(self, name: str) -> Any:
        """The first event of a name."""
        await self.until(lambda: any(known == name for known, _ in self.events))
        return next(payload for known, payload in self.events if known == name)

    def names(self) -> list[str]:
        return [name for name, _ in self.events]

    def items(self) -> list[Json]:
        return [
            item
            for name, payload in self.events
            if name == "turn:events"
            for item in payload["events"]
        ]


class Sleeper:
    """A client that says what it wants and never reads what comes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self._writer = reader, writer

    @classmethod
    async def wake(cls, address: str, token: str) -> "Sleeper":
        """Connect."""
        host, _, port = address.removeprefix("http://").rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        key = base64.b64encode(os.urandom(16)).decode()
        writer.write(
            f"GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        await reader.readuntil(b"\r\n\r\n")
        sleeper = cls(reader, writer)
        sleeper.send("40" + json.dumps({"token": token}))
        return sleeper

    def send(self, text: str) -> None:
        """A text frame, masked with zeros."""
        data = text.encode()
        length = (
            bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + len(data).to_bytes(2, "big")
        )
        self._writer.write(b"\x81" + length + bytes(4) + data)

    def emit(self, name: str, payload: Json) -> None:
        """Send an event."""
        self.send("42" + json.dumps([name, payload]))

    async def close(self) -> None:
        """Go."""
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()
