"""The journal: the only way to append to a session's log.

A session is event-sourced. Its log is append-only, and its state is the fold of the log. A write is
built against the current state and appended in one transaction with optimistic concurrency: the
store rejects it when the log has grown meanwhile, and then it is built again. After the commit the
new entries are published on the bus."""

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

StepBuilder = Callable[[SessionState], Iterable[NewEvent]]

STREAMED_KINDS = frozenset({"text.delta", "thinking.delta", "tool.arguments"})
"""Entries after which the stored projection is not updated at once: rewriting a long turn for each
piece of streamed text would be quadratic."""
_PAGE_SIZE = 1000
_MAX_RETRIES = 100
_RETRY_PAUSE = 0.002
_MAX_CACHED_SESSIONS = 200
_MAX_CACHED_BYTES = 256 << 20
_FAILURE_TTL = 30.0
"""Seconds for which a failed write is reported as a problem of the store."""
_encode = msgspec.json.Encoder().encode


class AppendResult(Struct, frozen=True):
    """The outcome of a write."""

    first: int
    last: int
    entries: Sequence[LogEntry] = ()
    run_id: str | None = None
    repeated: bool = False
    """The client message id was seen before; nothing was written."""


@dataclass
class _CachedSession:
    """A session in memory."""

    owner: str
    state: SessionState
    stale_turns: set[str] = field(default_factory=set)
    """Turns whose stored projection is older than their entries."""
    size: int = 0
    """Bytes of the folded log, an estimate of the memory used."""
    counted_size: int = 0
    """The part of `size` that is included in the total of the cache."""


class Journal:
    """Folds logs into states, caches the states in use, and appends to logs."""

    def __init__(
        self,
        store: Store,
        bus: Bus,
        clock: Clock,
        max_sessions: int = _MAX_CACHED_SESSIONS,
        *,
        max_bytes: int = _MAX_CACHED_BYTES,
        is_only_writer: bool = False,
    ) -> None:
        self._store = store
        self._bus = bus
        self._clock = clock
        self._max_sessions = max_sessions
        self._max_bytes = max_bytes
        self._is_only_writer = is_only_writer
        """No other process writes to the store, so a cached state is always current."""
        self._cache: OrderedDict[str, _CachedSession] = OrderedDict()
        self._cached_bytes = 0
        self._locks: dict[str, asyncio.Lock] = {}
        self._waiters: dict[str, int] = {}
        self._last_failure: tuple[float, str] | None = None

    @property
    def recent_failure(self) -> str | None:
        """Why the last write failed, if that was within the last 30 seconds."""
        if self._last_failure is None:
            return None
        failed_at, reason = self._last_failure
        if asyncio.get_running_loop().time() - failed_at > _FAILURE_TTL:
            return None
        return reason

    async def state(self, owner: str, session_id: str) -> SessionState:
        """Return the current state, including entries of other nodes.

        The state is shared and keeps changing: read it, do not keep it. Raises Missing when the
        owner has no such session."""
        async with self._session_lock(session_id):
            cached = await self._load_latest(owner, session_id, trust_cache=self._is_only_writer)
            return cached.state

    async def create(
        self,
        owner: str,
        session: Json,
        make: StepBuilder | None = None,
        **transaction: Any,
    ) -> AppendResult:
        """Create a session: its first entry, followed by what `make` returns."""
        session_id = session.get("id") or self._clock.name("sess")
        cached = _CachedSession(owner, SessionState(session_id))
        build = _with_creation_step(owner, {**session, "id": session_id}, make)

        async def write_locked() -> AppendResult:
            async with self._session_lock(session_id):
                return await self._append(owner, cached, build, expected=0, **transaction)

        return await _shielded(write_locked())

    def prepare(
        self,
        owner: str,
        session: Json,
        make: StepBuilder | None = None,
        **transaction: Any,
    ) -> tuple[rows.SessionWrite, LogAppended]:
        """Return what `create` would write, for callers with a larger transaction.

        Pass the second value to `publish` after the commit."""
        session_id = session.get("id") or self._clock.name("sess")
        cached = _CachedSession(owner, SessionState(session_id))
        now = self._clock.now()
        build = _with_creation_step(owner, {**session, "id": session_id}, make)
        entries: list[LogEntry] = []
        for kind, data in build(cached.state):
            entries.append(cached.state.add(kind, data, now))
        step = self._build_transaction(owner, cached, entries, 0, transaction)
        return step, LogAppended(session_id, owner, 1, len(entries), entries)

    def publish(self, grown: LogAppended) -> None:
        """Announce a prepared session after its commit."""
        self._bus.publish(grown)

    async def write(
        self,
        owner: str,
        session_id: str,
        make: StepBuilder,
        **transaction: Any,
    ) -> AppendResult:
        """Append the steps that `make` builds from the current state.

        `make` is called again after a write conflict. It may be a generator: each step is folded
        before the next one is requested. Nothing is written when it raises. The keyword arguments
        are part of the transaction: client_message_id, fence, run, run_end, blobs."""

        async def write_locked() -> AppendResult:
            async with self._session_lock(session_id):
                return await self._append_with_retries(owner, session_id, make, transaction)

        return await _shielded(write_locked())

    async def append_foreign(self, write: rows.SessionWrite) -> None:
        """Append to a session whose state is elsewhere, and announce the entries.

        Its state is not cached here, so that a large session takes no memory before it is opened."""
        self.evict(write.session_id)
        appended = await self._store.append(write)
        entries = [
            LogEntry(write.session_id, seq, entry.at, entry.kind, entry.data)
            for seq, entry in enumerate(write.entries, appended.first)
        ]
        self._bus.publish(
            LogAppended(write.session_id, write.owner, appended.first, appended.last, entries)
        )

    def evict(self, session_id: str) -> None:
        """Drop a session from the cache."""
        cached = self._cache.pop(session_id, None)
        if cached is not None:
            self._cached_bytes -= cached.counted_size

    async def _append_with_retries(
        self, owner: str, session_id: str, make: StepBuilder, transaction: dict[str, Any]
    ) -> AppendResult:
        for attempt in range(_MAX_RETRIES):
            # The first attempt trusts the cache: if it is outdated, the store rejects the write.
            cached = await self._load_latest(owner, session_id, trust_cache=attempt == 0)
            try:
                return await self._append(
                    owner, cached, make, expected=cached.state.seq, **transaction
                )
            except ConflictError:
                # Another node was faster. A random pause lets one of the two win next time.
                await asyncio.sleep(random.uniform(0, _RETRY_PAUSE * min(attempt, 10)))
        raise ConflictError(f"write conflict: gave up after {_MAX_RETRIES} retries")

    async def _append(
        self,
        owner: str,
        cached: _CachedSession,
        make: StepBuilder,
        *,
        expected: int,
        **transaction: Any,
    ) -> AppendResult:
        state = cached.state
        # `make` changes the shared state. If anything below fails, nobody may see a state that is
        # not in the log.
        self.evict(state.session_id)
        now = self._clock.now()
        entries = [state.add(kind, data, now) for kind, data in make(state)]
        if not entries and not transaction:
            self._put_in_cache(cached)
            return AppendResult(state.seq, state.seq)

        step = self._build_transaction(owner, cached, entries, expected, transaction)
        try:
            appended = await self._store.append(step)
        except StoreError as problem:
            if problem.code in TRANSIENT_CODES:
                self._last_failure = (asyncio.get_running_loop().time(), problem.what)
            raise
        self._last_failure = None
        if appended.repeated:
            return AppendResult(appended.first, appended.last, (), appended.run_id, True)

        if step.is_projected:
            cached.stale_turns.clear()
        cached.size += _count_bytes(entries)
        self._put_in_cache(cached)
        if entries:
            grown = LogAppended(state.session_id, owner, appended.first, appended.last, entries)
            self._bus.publish(grown)
        return AppendResult(appended.first, appended.last, entries, appended.run_id)

    def _build_transaction(
        self,
        owner: str,
        cached: _CachedSession,
        entries: list[LogEntry],
        expected: int,
        transaction: dict[str, Any],
    ) -> rows.SessionWrite:
        return build_write(
            owner, cached.state, entries, expected, cached.stale_turns, **transaction
        )

    async def _load_latest(
        self, owner: str, session_id: str, *, trust_cache: bool
    ) -> _CachedSession:
        cached = self._cache.get(session_id)
        if trust_cache and cached is not None and cached.owner == owner:
            return cached
        stored = await self._store.session(owner, session_id)
        if stored is None:
            raise NotFoundError("session")
        # A cached state ahead of the log belongs to a deleted session of the same id.
        if cached is None or cached.state.seq > stored.stream_sequence:
            cached = _CachedSession(owner, SessionState(session_id))
        while cached.state.seq < stored.stream_sequence:
            page = await self._store.read_log(owner, session_id, cached.state.seq, _PAGE_SIZE)
            if not page:
                break
            for entry in page:
                cached.state.apply(entry)
            cached.size += _count_bytes(page)
            unprojected = [entry for entry in page if entry.seq > stored.projected_sequence]
            cached.stale_turns |= _find_touched_turns(unprojected)
        self._put_in_cache(cached)
        return cached

    def _put_in_cache(self, cached: _CachedSession) -> None:
        """Add a session as the most recently used one, and evict the oldest ones.

        The session just added stays, however large it is."""
        session_id = cached.state.session_id
        self.evict(session_id)
        self._cache[session_id] = cached
        cached.counted_size = cached.size
        self._cached_bytes += cached.counted_size
        while self._is_cache_full():
            self.evict(next(iter(self._cache)))

    def _is_cache_full(self) -> bool:
        if len(self._cache) > self._max_sessions:
            return True
        return self._cached_bytes > self._max_bytes and len(self._cache) > 1

    def _session_lock(self, session_id: str) -> "_SessionLock":
        return _SessionLock(self._locks, self._waiters, session_id)


def _with_creation_step(owner: str, session: Json, make: StepBuilder | None) -> StepBuilder:
    def build(state: SessionState) -> Iterable[NewEvent]:
        yield "session.created", {"session": {**session, "user_id": owner}}
        if make is not None:
            yield from make(state)

    return build


async def _shielded(writing: Coroutine[Any, Any, AppendResult]) -> AppendResult:
    """Finish a write and publish it even when the caller is cancelled meanwhile."""
    task = asyncio.ensure_future(writing)
    # Retrieve the exception, or asyncio would log it when nobody waits any more.
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return await asyncio.shield(task)


class _SessionLock:
    """A lock per session; locks without waiters are removed."""

    def __init__(
        self, locks: dict[str, asyncio.Lock], waiters: dict[str, int], session_id: str
    ) -> None:
        self._locks = locks
        self._waiters = waiters
        self._session_id = session_id

    async def __aenter__(self) -> None:
        self._waiters[self._session_id] = self._waiters.get(self._session_id, 0) + 1
        try:
            await self._locks.setdefault(self._session_id, asyncio.Lock()).acquire()
        except BaseException:
            self._leave()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._locks[self._session_id].release()
        self._leave()

    def _leave(self) -> None:
        self._waiters[self._session_id] -= 1
        if not self._waiters[self._session_id]:
            del self._waiters[self._session_id]
            self._locks.pop(self._session_id, None)


def build_write(
    owner: str,
    state: SessionState,
    entries: Sequence[LogEntry],
    expected: int,
    stale_turns: set[str],
    **transaction: Any,
) -> rows.SessionWrite:
    """Build the write of entries that a state includes already, with the rows that follow.

    `stale_turns` are the turns whose rows are older than their entries; those that the entries touch
    are added."""
    # A delta changes a few characters of a turn. Its row is written again only with the next entry
    # that is no delta; until then readers of rows see the turn as it was.
    stale_turns |= _find_touched_turns(entries)
    is_projected = not entries or any(entry.kind not in STREAMED_KINDS for entry in entries)
    session_row = None
    turn_rows = []
    if is_projected:
        session_row = build_session_row(state)
        for turn_id in stale_turns:
            turn = state.turns.get(turn_id)
            if turn is not None:
                row = build_turn_row(turn.snapshot(), turn.parent_id, turn.patches)
                turn_rows.append(row)
    new_entries = []
    checkpoints = []
    for entry in entries:
        new_entries.append(rows.NewEntry(kind=entry.kind, data=entry.data, at=entry.at))
        if entry.kind == "checkpoint.made":
            checkpoints.append(_build_checkpoint(entry))
    return rows.SessionWrite(
        owner=owner,
        session_id=state.session_id,
        entries=new_entries,
        expected=expected,
        session=session_row,
        turns=turn_rows,
        is_projected=is_projected,
        checkpoints=checkpoints,
        **transaction,
    )


def build_session_row(state: SessionState) -> rows.SessionRow:
    """Build the projection of a session for listings."""
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


def build_turn_row(turn: TurnProjection, parent_id: str | None, patches: int) -> rows.TurnRow:
    """Build the stored projection of a turn, with its text for full-text search."""
    text = None if turn.status == "streaming" else extract_text(turn.blocks)
    return rows.TurnRow(
        id=turn.id,
        turn_id=turn.turn_id,
        sequence=turn.sequence,
        parent_id=parent_id,
        patch_sequence=patches,
        body=encode(turn),
        text=text,
    )


def extract_text(blocks: Iterable[ContentBlock]) -> str:
    """Return the message text of a turn."""
    texts: list[str] = []
    for block in blocks:
        if block.type != "text":
            continue
        if isinstance(block.content, list):
            parts = block.content
        else:
            parts = [{"text": block.content}]
        for part in parts:
            if isinstance(part, dict) and isinstance(part.get("text"), str):
                texts.append(part["text"])
    return "\n".join(texts)


def _count_bytes(entries: Iterable[LogEntry]) -> int:
    return sum(len(_encode(entry.data)) for entry in entries)


def _find_touched_turns(entries: Iterable[LogEntry]) -> set[str]:
    turn_ids = set()
    for entry in entries:
        data = entry.data.get("turn") if entry.kind == "turn.opened" else entry.data
        turn_id = data.get("turn_id") if isinstance(data, dict) else None
        if isinstance(turn_id, str) and turn_id:
            turn_ids.add(turn_id)
    return turn_ids


def _build_checkpoint(entry: LogEntry) -> rows.Checkpoint:
    data = entry.data
    return rows.Checkpoint(
        id=data["checkpoint_id"],
        turn_id=data.get("turn_id"),
        parent_id=data.get("parent_id"),
        label=data.get("label"),
        created_at=entry.at,
    )
