"""Fan-out of session events to subscribers: every entry once and in order.

Each watched session has one channel per dialect. The bus tells a channel that the log has grown;
entries that the bus left out are read from the log. A subscriber that resumes from an earlier
sequence is sent pages of the log until it has caught up with the channel, and is live from then
on."""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import Protocol

from open_token.errors import StoreError
from open_token.model.log_events import LogEntry
from open_token.server.bus.interface import LogAppended
from open_token.server.core.journal import STREAMED_KINDS
from open_token.server.core.services import Services
from open_token.server.errors import ApiError, log_exception, not_found, to_api_error
from open_token.server.store.interface import NotFoundError
from open_token.server.ws.frames import RENDERS, Dialect, Frame, needs_state

WINDOW: dict[Dialect, float] = {"raw": 0.03, "legacy": 0.05}
"""Seconds between flushes of streamed text; other entries are flushed at once, with the text
before them."""
_PAGE_SIZE = 100
_MAX_PENDING = 1000
_RETRY_SECONDS = 1.0
_POLL_SECONDS = 10.0
_log = logging.getLogger(__name__)


class Sink(Protocol):
    """The connection of a subscriber."""

    def send(self, frame: Frame) -> None:
        """Send a frame; must not block."""

    async def wait_for_capacity(self) -> None:
        """Wait until the connection can take more of the backlog."""

    def on_end(self, problem: ApiError) -> None:
        """Handle the end of the subscription."""


class Subscription:
    """One subscriber of a session."""

    def __init__(self, channel: "_Channel", seq: int, sink: Sink) -> None:
        self.seq = seq
        """The last entry sent while catching up; a live subscriber is at the channel's `seq`."""
        self.sink = sink
        self.is_open = True
        self.task: asyncio.Task[None] | None = None
        self._channel = channel

    def close(self) -> None:
        """End the subscription."""
        if self.is_open:
            self.is_open = False
            if self.task is not None:
                self.task.cancel()
            self._channel.leave(self)

    def end(self, problem: ApiError) -> None:
        """End the subscription and report why."""
        if self.is_open:
            self.close()
            self.sink.on_end(problem)


class Feed:
    """The watched sessions of this node."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self._channels: dict[tuple[str, Dialect], _Channel] = {}
        self._polling: asyncio.Task[None] | None = None

    async def subscribe(
        self, owner: str, session_id: str, dialect: Dialect, after: int | None, sink: Sink
    ) -> Subscription:
        """Subscribe to a session after an entry of its log, or from now on (None).

        Raises ApiError when the owner has no such session."""
        channel = self._acquire_channel(owner, session_id, dialect)
        try:
            stored = await self.services.store.session(owner, session_id)
            if stored is None:
                raise not_found()
        except BaseException:
            channel.leave(None)
            raise
        current = stored.stream_sequence
        channel.start(current)
        return channel.join(current if after is None else min(after, current), sink)

    async def close(self) -> None:
        """End all subscriptions."""
        if self._polling is not None:
            self._polling.cancel()
        for channel in tuple(self._channels.values()):
            channel.end(ApiError(503, "server shutting down", "stopping"))
        await asyncio.sleep(0)

    def _acquire_channel(self, owner: str, session_id: str, dialect: Dialect) -> "_Channel":
        """Return the channel of a session; from here on it listens to the bus, so no entry is lost
        between this call and the next read of the log."""
        key = (session_id, dialect)
        channel = self._channels.get(key)
        if channel is None or channel.owner != owner:
            channel = _Channel(self, owner, session_id, dialect)
            self._channels.setdefault(key, channel)
        channel.users += 1
        if self._polling is None or self._polling.done():
            self._polling = asyncio.get_running_loop().create_task(self._poll_forever())
        return channel

    def remove(self, channel: "_Channel") -> None:
        """Remove a channel without subscribers."""
        key = (channel.session_id, channel.dialect)
        if self._channels.get(key) is channel:
            del self._channels[key]

    async def poll(self) -> None:
        """Compare the channels with the store: a bus may lose a notification, and it does not
        report deleted sessions."""
        for channel in tuple(self._channels.values()):
            with contextlib.suppress(StoreError):
                stored = await self.services.store.session(channel.owner, channel.session_id)
                if stored is None:
                    channel.end(not_found())
                else:
                    channel.advance_to(stored.stream_sequence)

    async def _poll_forever(self) -> None:
        while self._channels:
            await asyncio.sleep(_POLL_SECONDS)
            await self.poll()


class _Channel:
    """The subscribers of one session in one dialect."""

    def __init__(self, feed: Feed, owner: str, session_id: str, dialect: Dialect) -> None:
        self.owner = owner
        self.session_id = session_id
        self.dialect = dialect
        self.users = 0
        """Subscribers, including those whose subscription is being set up."""
        self.seq = 0
        """The last entry sent to live subscribers."""
        self._feed = feed
        self._target = 0
        self._pending: list[LogAppended] = []
        self._live: dict[Subscription, None] = {}
        self._catching_up: set[Subscription] = set()
        self._wake = asyncio.Event()
        self._advanced = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._flushed_at = 0.0
        self._task: asyncio.Task[None] | None = None
        self._unsubscribe = feed.services.bus.listen(session_id, self.on_growth)

    def start(self, seq: int) -> None:
        """Start to deliver the entries after `seq`."""
        if self._task is None:
            self.seq = seq
            self._task = asyncio.get_running_loop().create_task(self._run())

    def join(self, seq: int, sink: Sink) -> Subscription:
        """Add a subscriber that has received everything up to `seq`."""
        subscription = Subscription(self, seq, sink)
        if seq == self.seq:
            self._live[subscription] = None
        else:
            self._catching_up.add(subscription)
            catching_up = self._catch_up(subscription)
            subscription.task = asyncio.get_running_loop().create_task(catching_up)
        return subscription

    def leave(self, subscription: Subscription | None) -> None:
        """Remove a subscriber; the channel closes with the last one."""
        if subscription is not None:
            self._live.pop(subscription, None)
            self._catching_up.discard(subscription)
        self.users -= 1
        if self.users == 0:
            self._unsubscribe()
            self._feed.remove(self)
            if self._timer is not None:
                self._timer.cancel()
            if self._task is not None:
                self._task.cancel()

    def end(self, problem: ApiError) -> None:
        """End all subscriptions."""
        for subscription in (*self._live, *self._catching_up):
            subscription.end(problem)

    def on_growth(self, grown: LogAppended) -> None:
        """Handle a notification of the bus."""
        self._target = max(self._target, grown.last)
        # Dropped notifications are read from the log later.
        if len(self._pending) < _MAX_PENDING:
            self._pending.append(grown)
        if not grown.entries or any(entry.kind not in STREAMED_KINDS for entry in grown.entries):
            self._wake.set()
        elif self._timer is None:
            self._wake_at(self._flushed_at + WINDOW[self.dialect])

    def advance_to(self, seq: int) -> None:
        """Deliver everything up to an entry soon."""
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
            self._flushed_at = asyncio.get_running_loop().time()
            try:
                await self._flush()
            except NotFoundError:
                self.end(not_found())
            except StoreError:
                _log.warning("cannot read the log of a watched session; retrying")
                self._wake_at(self._flushed_at + _RETRY_SECONDS)
            except Exception as problem:
                log_exception(_log, "cannot deliver events of a session", problem)
                self.end(_delivery_error())

    async def _flush(self) -> None:
        pending = self._pending
        self._pending = []
        entries = self._take_contiguous(pending)
        if entries:
            await self._broadcast(entries)
        while self.seq < self._target:
            page = await self._read_page(self.seq)
            if not page:
                self._wake_at(self._flushed_at + _RETRY_SECONDS)
                return
            await self._broadcast(page)

    def _take_contiguous(self, pending: list[LogAppended]) -> list[LogEntry]:
        """Return the entries that follow the last one sent without a gap."""
        entries: list[LogEntry] = []
        seq = self.seq
        for grown in pending:
            for entry in grown.entries:
                if entry.seq == seq + 1:
                    entries.append(entry)
                    seq += 1
        return entries

    async def _broadcast(self, entries: Sequence[LogEntry]) -> None:
        frames = await self._render(entries)
        for subscription in tuple(self._live):
            for frame in frames:
                if subscription.is_open:
                    subscription.sink.send(frame)
        self.seq = entries[-1].seq
        # An event is used once: whoever waits from now on waits for the entries after these.
        self._advanced.set()
        self._advanced = asyncio.Event()

    async def _render(self, entries: Sequence[LogEntry]) -> list[Frame]:
        """Encode entries once for all subscribers of a dialect."""
        state = None
        if needs_state(self.dialect, entries):
            state = await self._feed.services.journal.state(self.owner, self.session_id)
        render = RENDERS[self.dialect]
        return render(entries, state)

    async def _read_page(self, after: int) -> list[LogEntry]:
        store = self._feed.services.store
        return await store.read_log(self.owner, self.session_id, after, _PAGE_SIZE)

    async def _catch_up(self, subscription: Subscription) -> None:
        """Send the backlog page by page until the subscriber is level with the channel."""
        try:
            while subscription.seq != self.seq:
                if subscription.seq > self.seq:
                    advanced = self._advanced
                    self.advance_to(subscription.seq)
                    await advanced.wait()
                else:
                    await self._send_backlog(subscription)
        except NotFoundError:
            subscription.end(not_found())
        except StoreError as problem:
            subscription.end(to_api_error(problem))
        except Exception as problem:
            log_exception(_log, "cannot deliver the backlog of a session", problem)
            subscription.end(_delivery_error())
        else:
            self._catching_up.discard(subscription)
            self._live[subscription] = None

    async def _send_backlog(self, subscription: Subscription) -> None:
        await subscription.sink.wait_for_capacity()
        # Entries after the channel's own position are sent by the channel.
        page = [entry for entry in await self._read_page(subscription.seq) if entry.seq <= self.seq]
        if not page:
            subscription.seq = self.seq
            return
        for frame in await self._render(page):
            subscription.sink.send(frame)
        subscription.seq = page[-1].seq


def _delivery_error() -> ApiError:
    return ApiError(500, "cannot deliver events of this session", "internal")
