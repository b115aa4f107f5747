"""A whole server without sockets for tests of agents: a session, its owner, a client that hears it,
a clock."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from helpers.server.reference_client import ReferenceClient
from open_token.model.log_events import LogEntry
from open_token.model.session_types import to_builtins
from open_token.server.agent import runner
from open_token.server.agent.model_interface import (
    CallArgumentsPiece,
    CallStart,
    Model,
    Piece,
    Request,
    TextPiece,
    ToolSpec,
    UsagePiece,
)
from open_token.server.agent.models import demo
from open_token.server.agent.tools.interface import Tool, ToolContext
from open_token.server.bus.interface import LogAppended
from open_token.server.clock import Clock
from open_token.server.config import ServerConfig
from open_token.server.core.services import Services
from open_token.server.lifecycle import create_first_key, run_services
from open_token.server.store.rows import Caller
from open_token.session import SessionState, to_stream_item

ENV = {"OPEN_TOKEN_DEMO_DELAY": "0"}
OVER = 60.0


class Time:
    """A clock that goes on by a millisecond whenever it is looked at."""

    def __init__(self) -> None:
        self.at = datetime(2026, 3, 1, 10, tzinfo=UTC)
        self.count = itertools.count(1)

    def moment(self) -> datetime:
        self.at += timedelta(milliseconds=1)
        return self.at

    def word(self, length: int) -> str:
        return f"{next(self.count):0{length}d}"

    def skip(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)

    def clock(self) -> Clock:
        return Clock(self.moment, self.word)


class FakeTool:
    """A tool that does what a test says."""

    def __init__(self, name: str, does: Callable[..., Any], **facts: Any) -> None:
        self.spec = ToolSpec(name=name, description=f"{name} of a test", display_name=f"{name}!")
        self.does = does
        self.is_idempotent = bool(facts.get("is_idempotent", True))
        self.is_read_only = bool(facts.get("is_read_only", False))
        self.timeout: float | None = facts.get("timeout")
        self.called: list[dict[str, Any]] = []

    async def run(self, arguments: dict[str, Any], place: ToolContext) -> Any:
        self.called.append(arguments)
        result = self.does(arguments)
        return await result if asyncio.iscoroutine(result) else result


class ScriptedModel:
    """A model whose answers a test has written: lists of pieces, or what is raised, one for each
    call."""

    name = "demo"

    def __init__(self, *answers: Any, context_window: int = 10_000) -> None:
        self.answers = list(answers)
        self.context_window = context_window
        self.requests: list[Request] = []

    async def stream(self, request: Request) -> AsyncIterator[Piece]:
        self.requests.append(request)
        answer = self.answers.pop(0) if self.answers else "done"
        for piece in [answer] if not isinstance(answer, list) else answer:
            if isinstance(piece, BaseException):
                raise piece
            if callable(piece):
                await piece()
            else:
                yield TextPiece(piece) if isinstance(piece, str) else piece
        yield UsagePiece({"input_tokens": 10, "output_tokens": 5})


def build_call_pieces(name: str, call_id: str = "c1", arguments: str = "{}") -> list[Piece]:
    """A model's call of a tool."""
    return [CallStart(call_id, name), CallArgumentsPiece(call_id, arguments)]


class AgentSession:
    """A session on a server, and a client that was there from the beginning."""

    def __init__(self, services: Services, caller: Caller, session_id: str, time: Time) -> None:
        self.services, self.caller, self.id, self.time = services, caller, session_id, time
        self.mirror = ReferenceClient()
        self.heard: list[tuple[str, dict[str, Any]]] = []
        self.entries: list[LogEntry] = []
        self._early: list[LogEntry] | None = []
        """What came before the log had been read."""
        self._view = SessionState(session_id)
        services.bus.listen(session_id, self._hear)

    def _hear(self, grown: LogAppended) -> None:
        if self._early is not None:
            self._early += grown.entries
            return
        for entry in grown.entries:
            self._take(entry)

    def _take(self, entry: LogEntry) -> None:
        self._view.apply(entry)
        self.entries.append(entry)
        item = to_stream_item(entry, self._view)
        if item is not None:
            self.mirror.hear_raw(item)
            self.heard.append((item["type"], item["payload"]))

    async def begin(self) -> None:
        for entry in await self.services.store.read_log(self.caller.user.id, self.id, limit=10_000):
            self._take(entry)
        early, self._early = self._early or [], None
        for entry in early:
            if entry.seq > self._view.seq:
                self._take(entry)

    async def send(self, message: Any = "", *, wait: bool = True, **more: Any) -> dict[str, Any]:
        given = {"session_id": self.id, "message": message, **more}
        ack = await self.services.chat.send(self.caller, given)
        if wait:
            await self.rest()
        return ack

    async def state(self) -> SessionState:
        return await self.services.journal.state(self.caller.user.id, self.id)

    async def rest(self) -> None:
        """Until no run is under way."""
        await self.until(lambda state: state.run is None)

    async def until(self, holds: Callable[[SessionState], bool]) -> None:
        grown = asyncio.Event()
        unlisten = self.services.bus.listen(self.id, lambda _: grown.set())
        try:
            async with asyncio.timeout(OVER):
                while True:
                    grown.clear()
                    if holds(await self.state()):
                        return
                    await grown.wait()
        finally:
            unlisten()

    def names(self) -> list[str]:
        """What the client heard, with patches by their type."""
        return [
            payload["patch_type"] if name == "turn:patch" else name for name, payload in self.heard
        ]

    def turns(self) -> list[dict[str, Any]]:
        return self.mirror.branch()

    def texts(self) -> list[str]:
        """What was said, turn by turn."""
        return [
            "".join(b["content"] for b in turn["blocks"] if b["type"] == "text")
            for turn in self.turns()
        ]

    async def check(self) -> None:
        """The client, the fold and the stored rows say the same."""
        state = await self.state()
        output = [to_builtins(turn) for turn in state.branch()]
        keys = output[0].keys() if output else ()
        assert [{k: turn.get(k) for k in keys} for turn in self.turns()] == [
            {k: t.get(k) for k in keys} for t in output
        ]
        assert self.mirror.session["status"] == state.session.status
        rows = await self.services.store.turns(self.caller.user.id, self.id)
        assert [row.turn_id for row in rows] == [turn["turn_id"] for turn in output]


@contextlib.asynccontextmanager
async def open_agent_session(
    folder: Path, time: Time | None = None, **config: Any
) -> AsyncIterator[Callable[..., Any]]:
    """A server; gives how to open a session on it."""
    time = time or Time()
    async with run_services(ServerConfig(data=folder, **config), ENV, time.clock()) as services:
        key = await create_first_key(services)
        if key is None:
            owner = (await services.store.users())[0]
            _, key = await services.store.add_key(owner.id, "again", "full", services.clock.now())
        caller = await services.store.check_key(key, services.clock.now())
        assert caller is not None

        async def opened(session_id: str | None = None, **session: Any) -> AgentSession:
            if session_id is None:
                written = await services.journal.create(caller.user.id, session)
                session_id = written.entries[0].session_id
            room = AgentSession(services, caller, session_id, time)
            await room.begin()
            return room

        yield opened


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts a model and tools in the place of those that there are."""

    def put(model: Model | None = None, *tools: FakeTool) -> None:
        async def given(*_: Any, **__: Any) -> dict[str, Tool]:
            return {tool.spec.name: tool for tool in tools}

        monkeypatch.setattr(runner, "list_session_tools", given)
        if model is not None:
            monkeypatch.setattr(demo, "open_model", lambda *_: model)

    return put


def run(test: Coroutine[Any, Any, None]) -> None:
    """Run a test that waits; it does not wait forever."""

    async def limited() -> None:
        async with asyncio.timeout(60):
            await test

    asyncio.run(limited())
