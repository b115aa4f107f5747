"""Tells those who watch a session what happens to it: each of them everything once and in order,
from the log on.

Whoever watches hears the bus; the bus only points. What it left out is read from the log, and so is
the past of one who comes late, until there is nothing between what they have and what the others
have: from then on they are one of them."""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import Protocol

from open_token.errors import StoreError
from open_token.model.log_events import LogEntry
from open_token.server.bus.interface import LogAppended
from open_token.server.faults import log_fault
from open_token.server.frames import RENDERS, Dialect, Frame, needs_state
from open_token.server.journal import STREAMED
from open_token.server.refusals import Refused, missing, refusal_of
from open_token.server.services import Services
from open_token.server.store.interface import NotFoundError

WINDOW: dict[Dialect, float] = {"raw": 0.03, "legacy": 0.05}
"""Words are told at most this often, in seconds; anything else at once, with the words before
it."""
_PAGE = 100
_MOST_HEARD = 1000
_AGAIN = 1.0
_LOOK_EVERY = 10.0
_log = logging.getLogger(__name__)


class Sink(Protocol):
    """Where a subscriber's events go."""

    def take(self, frame: Frame) -> None:
        """Pass it on; must not wait."""

    async def room(self) -> None:
        """Wait until there is room for more of the past."""

    def ended(self, problem: Refused) -> None:
        """Nothing more will come, and why."""


class Subscription:
    """One who watches a session."""

    def __init__(self, lane: "_Lane", seq: int, sink: Sink) -> None:
        self.seq = seq
        """The last entry that was told, as long as the past is told; later it is the lane's."""
        self.sink = sink
        self.is_open = True
        self.task: asyncio.Task[None] | None = None
        self._lane = lane

    def close(self) -> None:
        """Watch no longer."""
        if self.is_open:
            self.is_open = False
            if self.task is not None:
                self.task.cancel()
            self._lane.leave(self)

    def end(self, problem: Refused) -> None:
        """Close, and say why."""
        if self.is_open:
            self.close()
            self.sink.ended(problem)


class Feed:
    """The sessions that somebody watches on this node."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self._lanes: dict[tuple[str, Dialect], _Lane] = {}
        self._looking: asyncio.Task[None] | None = None

    async def subscribe(
        self, owner: str, session_id: str, dialect: Dialect, after: int | None, sink: Sink
    ) -> Subscription:
        """Watch a session from an entry on, or from now on (None); Refused when the user has no
        such session."""
        lane = self._lane(owner, session_id, dialect)
        try:
            stored = await self.services.store.session(owner, session_id)
            if stored is None:
                raise missing()
        except BaseException:
            lane.leave(None)
            raise
        here = stored.stream_sequence
        lane.begin(here)
        return lane.join(here if after is None else min(after, here), sink)

    async def close(self) -> None:
        """Everybody is told that nothing more will come."""
        if self._looking is not None:
            self._looking.cancel()
        for lane in tuple(self._lanes.values()):
            lane.end(Refused(503, "the server stops", "stopping"))
        await asyncio.sleep(0)

    def _lane(self, owner: str, session_id: str, dialect: Dialect) -> "_Lane":
        """The lane of a session and a dialect, which hears the bus from here on, so that nothing
        falls between."""
        key = (session_id, dialect)
        lane = self._lanes.get(key)
        if lane is None or lane.owner != owner:
            lane = _Lane(self, owner, session_id, dialect)
            self._lanes.setdefault(key, lane)
        lane.users += 1
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._keep_looking())
        return lane

    def forget(self, lane: "_Lane") -> None:
        """Nobody watches there any more."""
        key = (lane.session_id, lane.dialect)
        if self._lanes.get(key) is lane:
            del self._lanes[key]

    async def look(self) -> None:
        """See for oneself: a bus may lose a word, and of a deleted session it says nothing."""
        for lane in tuple(self._lanes.values()):
            with contextlib.suppress(StoreError):
                stored = await self.services.store.session(lane.owner, lane.session_id)
                if stored is None:
                    lane.end(missing())
                else:
                    lane.aim(stored.stream_sequence)

    async def _keep_looking(self) -> None:
        while self._lanes:
            await asyncio.sleep(_LOOK_EVERY)
            await self.look()


class _Lane:
    """Those who watch one session in one dialect."""

    def __init__(self, feed: Feed, owner: str, session_id: str, dialect: Dialect) -> None:
        self.owner, self.session_id, self.dialect = owner, session_id, dialect
        self.users = 0
        """How many watch, or are about to."""
        self.seq = 0
        """The last entry that those who are up to date were told."""
        self._feed = feed
        self._target = 0
        self._heard: list[LogAppended] = []
        self._live: dict[Subscription, None] = {}
        self._past: set[Subscription] = set()
        self._wake = asyncio.Event()
        self._moved = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._flushed = 0.0
        self._task: asyncio.Task[None] | None = None
        self._deafen = feed.services.bus.listen(session_id, self.hear)

    def begin(self, seq: int) -> None:
        """Start telling what comes after an entry."""
        if self._task is None:
            self.seq = seq
            self._task = asyncio.get_running_loop().create_task(self._run())

    def join(self, seq: int, sink: Sink) -> Subscription:
        """Take in one who has everything up to an entry."""
        subscription = Subscription(self, seq, sink)
        if seq == self.seq:
            self._live[subscription] = None
        else:
            self._past.add(subscription)
            subscription.task = asyncio.get_running_loop().create_task(self._catch_up(subscription))
        return subscription

    def leave(self, subscription: Subscription | None) -> None:
        """One less watches; the last one puts out the light."""
        if subscription is not None:
            self._live.pop(subscription, None)
            self._past.discard(subscription)
        self.users -= 1
        if self.users == 0:
            self._deafen()
            self._feed.forget(self)
            if self._timer is not None:
                self._timer.cancel()
            if self._task is not None:
                self._task.cancel()

    def end(self, problem: Refused) -> None:
        """Send everybody away."""
        for subscription in (*self._live, *self._past):
            subscription.end(problem)

    def hear(self, grown: LogAppended) -> None:
        """The bus says that the session has grown."""
        self._target = max(self._target, grown.last)
        if len(self._heard) < _MOST_HEARD:
            self._heard.append(grown)
        if not grown.entries or any(entry.kind not in STREAMED for entry in grown.entries):
            self._wake.set()
        elif self._timer is None:
            self._wake_at(self._flushed + WINDOW[self.dialect])

    def aim(self, seq: int) -> None:
        """Tell everything up to an entry, soon."""
        if seq > self.seq:
            self._target = max(self._target, seq)
            self._wake.set()

    def _wake_at(self, when: float) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(max(when, loop.time()), self._wake.set)

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._flushed = asyncio.get_running_loop().time()
            try:
                await self._flush()
            except NotFoundError:
                self.end(missing())
            except StoreError:
                _log.warning("the log of a session that is watched cannot be read; trying again")
                self._wake_at(self._flushed + _AGAIN)
            except Exception as problem:
                log_fault(_log, "a session that is watched cannot be told of", problem)
                self.end(Refused(500, "the server cannot tell of this session", "internal"))

    async def _flush(self) -> None:
        heard, self._heard = self._heard, []
        if entries := self._following(heard):
            await self._tell(entries)
        while self.seq < self._target:
            page = await self._read(self.seq)
            if not page:
                self._wake_at(self._flushed + _AGAIN)
                return
            await self._tell(page)

    def _following(self, heard: list[LogAppended]) -> list[LogEntry]:
        """The entries that go on from the last one told without a gap; the rest is read from the
        log."""
        found: list[LogEntry] = []
        seq = self.seq
        for grown in heard:
            for entry in grown.entries:
                if entry.seq == seq + 1:
                    found.append(entry)
                    seq += 1
        return found

    async def _tell(self, entries: Sequence[LogEntry]) -> None:
        frames = await self._frames(entries)
        for subscription in tuple(self._live):
            for frame in frames:
                if subscription.is_open:
                    subscription.sink.take(frame)
        self.seq = entries[-1].seq
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    async def _frames(self, entries: Sequence[LogEntry]) -> list[Frame]:
        state = None
        if needs_state(self.dialect, entries):
            state = await self._feed.services.journal.state(self.owner, self.session_id)
        return RENDERS[self.dialect](entries, state)

    async def _read(self, after: int) -> list[LogEntry]:
        return await self._feed.services.store.read_log(self.owner, self.session_id, after, _PAGE)

    async def _catch_up(self, subscription: Subscription) -> None:
        """Tell the past, page by page, until there is nothing between this one and the others."""
        try:
            while subscription.seq != self.seq:
                if subscription.seq > self.seq:
                    moved = self._moved
                    self.aim(subscription.seq)
                    await moved.wait()
                else:
                    await self._tell_past(subscription)
        except StoreError as problem:
            subscription.end(
                missing() if isinstance(problem, NotFoundError) else refusal_of(problem)
            )
        except Exception as problem:
            log_fault(_log, "the past of a session that is watched cannot be told", problem)
            subscription.end(Refused(500, "the server cannot tell of this session", "internal"))
        else:
            self._past.discard(subscription)
            self._live[subscription] = None

    async def _tell_past(self, subscription: Subscription) -> None:
        await subscription.sink.room()
        page = [entry for entry in await self._read(subscription.seq) if entry.seq <= self.seq]
        if not page:
            subscription.seq = self.seq
            return
        for frame in await self._frames(page):
            subscription.sink.take(frame)
        subscription.seq = page[-1].seq
