"""For tests of what is sent: a server without sockets, its users, sessions that go on, and who
watches them."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import msgspec

from helpers.server.reference_client import ReferenceClient
from open_token.model.log_events import Json, LogEntry, NewEvent
from open_token.model.session_types import TurnProjection, from_builtins, to_builtins
from open_token.server.config import Limits, ServerConfig
from open_token.server.core.services import Services
from open_token.server.errors import ApiError
from open_token.server.lifecycle import run_services
from open_token.server.store.rows import User
from open_token.server.ws.frames import BATCH_EVENT, Frame

AT = "2026-01-31T08:00:00.000Z"
ANNA, BEN = "user_anna", "user_ben"


def run(coroutine: Coroutine[Any, Any, None], seconds: float = 60) -> None:
    """Run a test to its end; one that hangs fails."""
    asyncio.run(asyncio.wait_for(coroutine, seconds))


@contextlib.asynccontextmanager
async def run_services_in(folder: Path, **limits: Any) -> AsyncIterator[Services]:
    """The services of a server with two users."""
    config = ServerConfig(data=folder, port=0, limits=Limits(**limits))
    async with run_services(config, {}) as services:
        await create_users(services)
        yield services


async def create_users(services: Services) -> None:
    for name, role in ((ANNA, "owner"), (BEN, "user")):
        await services.store.add_user(User(id=name, name=name, role=role, created_at=AT))


async def create_key(services: Services, user: str = ANNA, scope: Any = "full") -> str:
    _, plaintext = await services.store.add_key(user, "test", scope, AT)
    return plaintext


async def create_session(services: Services, session_id: str = "sess_1", owner: str = ANNA) -> str:
    await services.journal.create(owner, {"id": session_id, "intent": "Test"})
    return session_id


async def append_events(
    services: Services, *steps: NewEvent, session_id: str = "sess_1", owner: str = ANNA
) -> None:
    await services.journal.write(owner, session_id, lambda state: steps)


async def read_copy(
    services: Services, entries: Sequence[LogEntry], owner: str = ANNA, size: int = 7
) -> None:
    """Write the entries of a log again, some at a time, as if they happened now; the first one
    makes the session."""
    first = entries[0]
    await services.journal.create(owner, {**first.data["session"], "id": first.session_id})
    for start in range(1, len(entries), size):
        made = [(entry.kind, again(entry)) for entry in entries[start : start + size]]
        await services.journal.write(owner, first.session_id, lambda state, made=made: made)


def again(entry: LogEntry) -> Json:
    """The data of an entry without what the log fills in."""
    filled = ("patch", "loop_id") if entry.kind != "turn.opened" else ()
    return {name: value for name, value in entry.data.items() if name not in filled}


def opened(turn_id: str = "turn_1", **more: Any) -> NewEvent:
    return "turn.opened", {"turn": {"turn_id": turn_id, **more}}


def word(text: str, turn_id: str = "turn_1") -> NewEvent:
    return "text.delta", {"turn_id": turn_id, "text": text}


def ended(turn_id: str = "turn_1") -> NewEvent:
    return "turn.ended", {"turn_id": turn_id}


class RecordingClient:
    """A sink that keeps what it takes, and what a client makes of it."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.problem: ApiError | None = None
        self.mirror = ReferenceClient()
        self.numbers: list[int] = []
        self.rooms = 0
        self._news = asyncio.Event()

    def send(self, frame: Frame) -> None:
        self.frames.append(frame)
        apply_event(self.mirror, self.numbers, frame.name, encode_for_wire(frame.payload))
        self._news.set()

    async def wait_for_capacity(self) -> None:
        self.rooms += 1

    def on_end(self, problem: ApiError) -> None:
        self.problem = problem
        self._news.set()

    async def until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            self._news.clear()
            await self._news.wait()

    def names(self) -> list[str]:
        return [frame.name for frame in self.frames]

    def items(self) -> list[Json]:
        return [item for frame in self.frames for item in frame.items]


def apply_event(mirror: ReferenceClient, numbers: list[int], name: str, payload: Json) -> None:
    """What a client does with an event of either dialect; the numbers are those of the stream, as
    they came."""
    if name == BATCH_EVENT:
        for item in payload["events"]:
            numbers.append(item["stream_sequence"])
            mirror.hear_raw(item)
    elif payload.get("stream_sequence", 0) > mirror.seen:
        numbers.append(payload["stream_sequence"])
        mirror.seen = payload["stream_sequence"]
        mirror.hear(name, payload)


def encode_for_wire(value: Any) -> Any:
    """As it arrives at the other end."""
    return json.loads(msgspec.json.encode(value))


def summarize_turns(turns: list[Json]) -> list[Any]:
    """Turns of a client, without what only the stream carries."""
    beside = ("session_id", "parent_id", "stream_sequence", "solution_id", "template_id")
    bare = [{name: item for name, item in turn.items() if name not in beside} for turn in turns]
    return [encode_for_wire(to_builtins(from_builtins(turn, TurnProjection))) for turn in bare]


async def read_stored_turns(
    services: Services, session_id: str = "sess_1", owner: str = ANNA
) -> list[Any]:
    """The turns of the current branch as the store has them."""
    rows = await services.store.turns(owner, session_id)
    return [
        encode_for_wire(to_builtins(from_builtins(msgspec.json.decode(row.body), TurnProjection)))
        for row in rows
    ]


async def fold_turns(
    services: Services, session_id: str = "sess_1", owner: str = ANNA
) -> list[Any]:
    """The same from the log."""
    return encode_for_wire(to_builtins((await services.journal.state(owner, session_id)).branch()))
