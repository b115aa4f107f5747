"""The one way into a session's log: made against the state, written in one transaction, told after
the commit."""

import asyncio
import random
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Struct

from open_token.errors import StoreError
from open_token.model.log_events import Json, LogEntry, NewEvent
from open_token.model.session_types import ContentBlock, TurnProjection, encode
from open_token.server.bus.interface import Bus, LogAppended
from open_token.server.clock import Clock
from open_token.server.store import rows
from open_token.server.store.interface import TRANSIENT_CODES, ConflictError, NotFoundError, Store
from open_token.session import SessionState

STREAMED = frozenset({"text.delta", "thinking.delta", "tool.arguments"})
"""Of these the stored rows follow later: a long answer is not written anew with every word."""
_encode = msgspec.json.Encoder().encode
_PAGE = 1000
_TRIES = 100
_PAUSE = 0.002
_MOST_HELD = 200
_MOST_BYTES = 256 << 20
"""Of logs whose sessions are held in memory; the one in use is held however long it is."""
_FRESH = 30.0
"""Seconds for which a write that failed says something about the next one."""


class Written(Struct, frozen=True):
    """What became of a step."""

    first: int
    last: int
    entries: Sequence[LogEntry] = ()
    run_id: str | None = None
    repeated: bool = False
    """The same client message came before; nothing was written."""


@dataclass
class _Held:
    """A session in memory, and the turns whose rows are older than their entries."""

    owner: str
    state: SessionState
    behind: set[str] = field(default_factory=set)
    size: int = 0
    """Bytes of the log that was folded, about what it takes up."""
    counted: int = 0
    """As many of them as are counted among all that are held."""


class Journal:
    """Folds logs, keeps the sessions in use in memory, and writes what happens to them."""

    def __init__(
        self,
        store: Store,
        bus: Bus,
        clock: Clock,
        most_held: int = _MOST_HELD,
        *,
        most_bytes: int = _MOST_BYTES,
        is_alone: bool = False,
    ) -> None:
        self._store = store
        self._bus = bus
        self._clock = clock
        self._most_held, self._most_bytes = most_held, most_bytes
        self._is_alone = is_alone
        """No other process writes to the store, so what is in memory is what the log says."""
        self._held: OrderedDict[str, _Held] = OrderedDict()
        self._size = 0
        self._locks: dict[str, asyncio.Lock] = {}
        self._waiting: dict[str, int] = {}
        self._failed: tuple[float, str] | None = None

    @property
    def trouble(self) -> str | None:
        """Why the last write could not be done, if that was just now; a smaller one might be done
        all the same."""
        if self._failed is None or asyncio.get_running_loop().time() - self._failed[0] > _FRESH:
            return None
        return self._failed[1]

    async def state(self, owner: str, session_id: str) -> SessionState:
        """The session as its log says by now, also what another node wrote; Missing when there is
        none.

        It is shared and goes on changing: look, do not keep."""
        async with self._alone(session_id):
            return (await self._caught_up(owner, session_id, trusts=self._is_alone)).state

    async def create(
        self,
        owner: str,
        session: Json,
        make: Callable[[SessionState], Iterable[NewEvent]] | None = None,
        **more: Any,
    ) -> Written:
        """Begin a session: its first entry, and what else `make` says at once."""
        session_id = session.get("id") or self._clock.name("sess")
        held = _Held(owner, SessionState(session_id))
        first = _beginning(owner, {**session, "id": session_id}, make)

        async def alone() -> Written:
            async with self._alone(session_id):
                return await self._write(owner, held, first, expected=0, **more)

        return await _whatever_happens(alone())

    def draft(
        self,
        owner: str,
        session: Json,
        make: Callable[[SessionState], Iterable[NewEvent]] | None = None,
        **more: Any,
    ) -> tuple[rows.SessionWrite, LogAppended]:
        """What `create` would write, for one who puts it into a larger transaction; and what to
        `tell` after it."""
        session_id = session.get("id") or self._clock.name("sess")
        held, now = _Held(owner, SessionState(session_id)), self._clock.now()
        first = _beginning(owner, {**session, "id": session_id}, make)
        entries = [held.state.add(kind, data, now) for kind, data in first(held.state)]
        step = self._step(owner, held, entries, 0, more)
        return step, LogAppended(session_id, owner, 1, len(entries), entries)

    def tell(self, grown: LogAppended) -> None:
        """Say that a drafted session is written."""
        self._bus.publish(grown)

    async def write(
        self,
        owner: str,
        session_id: str,
        make: Callable[[SessionState], Iterable[NewEvent]],
        **more: Any,
    ) -> Written:
        """Write what `make` says to the state as it is; it may be asked again when somebody else
        wrote first.

        `make` may be a generator: each step that it gives is folded before it is asked for the
        next. Nothing is written when it raises. Further words go with the transaction:
        client_message_id, fence, run, run_end, blobs."""

        async def alone() -> Written:
            async with self._alone(session_id):
                for tried in range(_TRIES):
                    # A state that is behind the log is refused by the store, and then it is read
                    # anew.
                    held = await self._caught_up(owner, session_id, trusts=tried == 0)
                    try:
                        return await self._write(owner, held, make, expected=held.state.seq, **more)
                    except (
                        ConflictError
                    ):  # of another node; by chance one of both comes first next time
                        await asyncio.sleep(random.uniform(0, _PAUSE * min(tried, 10)))
                raise ConflictError("others write to this session all the time")

        return await _whatever_happens(alone())

    def forget(self, session_id: str) -> None:
        """Let go of a session, as when it was deleted."""
        if (held := self._held.pop(session_id, None)) is not None:
            self._size -= held.counted

    async def _write(
        self,
        owner: str,
        held: _Held,
        make: Callable[[SessionState], Iterable[NewEvent]],
        *,
        expected: int,
        **more: Any,
    ) -> Written:
        state, session_id = held.state, held.state.session_id
        self.forget(session_id)  # whatever goes wrong, nobody sees a state that is not in the log
        now = self._clock.now()
        entries = [state.add(kind, data, now) for kind, data in make(state)]
        if not entries and not more:
            self._hold(held)
            return Written(state.seq, state.seq)
        step = self._step(owner, held, entries, expected, more)
        try:
            appended = await self._store.append(step)
        except StoreError as problem:
            if problem.code in TRANSIENT_CODES:
                self._failed = (asyncio.get_running_loop().time(), problem.what)
            raise
        self._failed = None
        if appended.repeated:
            return Written(appended.first, appended.last, (), appended.run_id, True)
        if step.is_projected:
            held.behind.clear()
        held.size += _size(entries)
        self._hold(held)
        if entries:
            self._bus.publish(
                LogAppended(session_id, owner, appended.first, appended.last, entries)
            )
        return Written(appended.first, appended.last, entries, appended.run_id)

    def _step(
        self, owner: str, held: _Held, entries: list[LogEntry], expected: int, more: dict[str, Any]
    ) -> rows.SessionWrite:
        state = held.state
        held.behind |= _touched(entries)
        projects = not entries or not all(entry.kind in STREAMED for entry in entries)
        turns = (
            [state.turns[name] for name in held.behind if name in state.turns] if projects else []
        )
        return rows.SessionWrite(
            owner=owner,
            session_id=state.session_id,
            entries=[
                rows.NewEntry(kind=entry.kind, data=entry.data, at=entry.at) for entry in entries
            ],
            expected=expected,
            session=session_row(state) if projects else None,
            turns=[turn_row(turn.snapshot(), turn.parent_id, turn.patches) for turn in turns],
            is_projected=projects,
            checkpoints=[
                _checkpoint(entry) for entry in entries if entry.kind == "checkpoint.made"
            ],
            **more,
        )

    async def _caught_up(self, owner: str, session_id: str, *, trusts: bool) -> _Held:
        held = self._held.get(session_id)
        if trusts and held is not None and held.owner == owner:
            return held
        stored = await self._store.session(owner, session_id)
        if stored is None:
            raise NotFoundError("session")
        if held is None or held.state.seq > stored.stream_sequence:
            held = _Held(owner, SessionState(session_id))
        while held.state.seq < stored.stream_sequence:
            page = await self._store.read_log(owner, session_id, held.state.seq, _PAGE)
            if not page:
                break
            for entry in page:
                held.state.apply(entry)
            held.size += _size(page)
            held.behind |= _touched(
                [entry for entry in page if entry.seq > stored.projected_sequence]
            )
        self._hold(held)
        return held

    def _hold(self, held: _Held) -> None:
        name = held.state.session_id
        self.forget(name)
        self._held[name] = held
        held.counted = held.size
        self._size += held.counted
        while len(self._held) > self._most_held or (
            self._size > self._most_bytes and len(self._held) > 1
        ):
            self.forget(next(iter(self._held)))

    def _alone(self, session_id: str) -> "_Alone":
        return _Alone(self._locks, self._waiting, session_id)


def _beginning(
    owner: str, session: Json, make: Callable[[SessionState], Iterable[NewEvent]] | None
) -> Callable[[SessionState], Iterable[NewEvent]]:
    """The entries of a session that begins."""

    def first(state: SessionState) -> Iterable[NewEvent]:
        yield "session.created", {"session": {**session, "user_id": owner}}
        yield from make(state) if make else ()

    return first


async def _whatever_happens(writing: Coroutine[Any, Any, Written]) -> Written:
    """Carry a write through and tell of it, even when the one who asked for it was cancelled
    meanwhile."""
    task = asyncio.ensure_future(writing)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return await asyncio.shield(task)


class _Alone:
    """One at a time for each session; a lock that nobody wants is let go."""

    def __init__(self, locks: dict[str, asyncio.Lock], waiting: dict[str, int], name: str) -> None:
        self._locks, self._waiting, self._name = locks, waiting, name

    async def __aenter__(self) -> None:
        self._waiting[self._name] = self._waiting.get(self._name, 0) + 1
        try:
            await self._locks.setdefault(self._name, asyncio.Lock()).acquire()
        except BaseException:
            self._leave()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._locks[self._name].release()
        self._leave()

    def _leave(self) -> None:
        self._waiting[self._name] -= 1
        if not self._waiting[self._name]:
            del self._waiting[self._name]
            self._locks.pop(self._name, None)


def session_row(state: SessionState) -> rows.SessionRow:
    """The session as it is listed."""
    session = state.session
    return rows.SessionRow(
        intent=session.intent,
        status=session.status,
        created_at=session.created_at or "",
        updated_at=session.updated_at or "",
        is_pinned=session.is_pinned,
        head=state.head,
        body=encode(session),
    )


def turn_row(turn: TurnProjection, parent_id: str | None, patches: int) -> rows.TurnRow:
    """A turn as it is stored, with the words by which it is found."""
    return rows.TurnRow(
        id=turn.id,
        turn_id=turn.turn_id,
        sequence=turn.sequence,
        parent_id=parent_id,
        patch_sequence=patches,
        body=encode(turn),
        text=None if turn.status == "streaming" else words_of(turn.blocks),
    )


def words_of(blocks: Iterable[ContentBlock]) -> str:
    """What was said in a turn."""
    found: list[str] = []
    for block in blocks:
        if block.type == "text":
            parts = block.content if isinstance(block.content, list) else [{"text": block.content}]
            found += [
                part["text"]
                for part in parts
                if isinstance(part, dict) and isinstance(part.get("text"), str)
            ]
    return "\n".join(found)


def _size(entries: Iterable[LogEntry]) -> int:
    return sum(len(_encode(entry.data)) for entry in entries)


def _touched(entries: Iterable[LogEntry]) -> set[str]:
    """The turns that entries are about."""
    found = set()
    for entry in entries:
        place = entry.data.get("turn") if entry.kind == "turn.opened" else entry.data
        if isinstance(place, dict) and isinstance(name := place.get("turn_id"), str) and name:
            found.add(name)
    return found


def _checkpoint(entry: LogEntry) -> rows.Checkpoint:
    data = entry.data
    return rows.Checkpoint(
        id=data["checkpoint_id"],
        turn_id=data.get("turn_id"),
        parent_id=data.get("parent_id"),
        label=data.get("label"),
        created_at=entry.at,
    )
