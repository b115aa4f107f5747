"""A bus between nodes over a link that may break.

Only pointers into logs are sent, on one channel for each session that somebody listens to.
Listeners hear at once what their own node writes, and soon what other nodes write. Lost messages
are recovered from the store: after every connection, and periodically, it is asked how far the
sessions with listeners have advanced.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Protocol

import msgspec
from msgspec import Struct

from open_token.errors import StoreError
from open_token.server.bus.interface import Listener, LogAppended
from open_token.server.bus.local import LocalBus
from open_token.server.cancellation import cancel_and_wait

Heads = Callable[[Collection[str]], Awaitable[Mapping[str, tuple[str, int]]]]
"""Returns the owner and the last sequence of sessions; deleted sessions are left out."""

POLL = 5.0
"""Seconds between polls of the store while the link is up."""
POLL_AWAY = 0.5
"""Seconds between polls of the store while the link is down."""
AGAIN = 1.0
"""Seconds before a broken link is opened again."""
_MAX_PENDING = 10_000
_BATCH_SIZE = 500


class Pointer(Struct, frozen=True):
    """The message that is sent over the link."""

    node: str
    session_id: str
    owner: str
    first: int
    last: int


_decode = msgspec.json.Decoder(Pointer).decode


class Link(Protocol):
    """A connection that sends short messages to the subscribers of a channel."""

    lost: asyncio.Event
    """Set when the connection broke."""

    async def open(self, hear: Callable[[bytes | str], None]) -> None:
        """Connect; raises the errors of its driver."""

    async def close(self) -> None:
        """Disconnect, also after the connection broke; never fails."""

    async def send(self, messages: Collection[tuple[str, bytes]]) -> None:
        """Send messages, each to the subscribers of a session."""

    async def follow(self, sessions: Collection[str], dropped: Collection[str]) -> None:
        """Subscribe to sessions, and unsubscribe from others."""


class RemoteBus:
    """The bus of one of several nodes."""

    def __init__(
        self, link: Link, heads: Heads, poll: float = POLL, poll_away: float = POLL_AWAY
    ) -> None:
        self._link = link
        self._heads = heads
        self._poll = poll
        self._poll_away = poll_away
        self._node = secrets.token_hex(8)
        self._local = LocalBus()
        self._listening: dict[str, int] = {}
        """The number of listeners of each session."""
        self._subscribed: set[str] = set()
        self._delivered: dict[str, int] = {}
        """The last sequence that the listeners of each session have heard of."""
        self._pending: dict[str, Pointer] = {}
        """Pointers to be sent, at most one for each session."""
        self._wake_up = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.is_linked = False

    async def start(self) -> None:
        """Start to connect; a link that is down does not prevent the server from starting."""
        await self._local.start()
        self._task = asyncio.create_task(self._run(), name="open-token-bus")

    async def close(self) -> None:
        """Send pending pointers if the link is up, and disconnect."""
        if self._task is not None:
            await cancel_and_wait(self._task)
            self._task = None
            if self.is_linked and self._pending:
                with contextlib.suppress(Exception):
                    async with asyncio.timeout(1.0):
                        await self._send_pending()
        await self._link.close()
        await self._local.close()

    def publish(self, grown: LogAppended) -> None:
        """Announce that a session has advanced, locally at once and to other nodes soon."""
        self._deliver(grown)
        pending = self._pending.pop(grown.session_id, None)
        first = grown.first if pending is None else min(pending.first, grown.first)
        pointer = Pointer(self._node, grown.session_id, grown.owner, first, grown.last)
        self._pending[grown.session_id] = pointer
        if len(self._pending) > _MAX_PENDING:
            # The link has been down for long; the other nodes poll the store.
            self._pending.pop(next(iter(self._pending)))
        self._wake_up.set()

    def listen(self, session_id: str, listener: Listener) -> Callable[[], None]:
        """Call a listener for a session until the returned function is called."""
        stop_local = self._local.listen(session_id, listener)
        self._listening[session_id] = self._listening.get(session_id, 0) + 1
        self._wake_up.set()
        is_stopped = False

        def stop() -> None:
            nonlocal is_stopped
            if is_stopped:
                return
            is_stopped = True
            stop_local()
            self._listening[session_id] -= 1
            if not self._listening[session_id]:
                del self._listening[session_id]
                self._delivered.pop(session_id, None)
                self._wake_up.set()

        return stop

    def _deliver(self, grown: LogAppended) -> None:
        if grown.session_id in self._listening:
            delivered = self._delivered.get(grown.session_id, 0)
            self._delivered[grown.session_id] = max(grown.last, delivered)
        self._local.publish(grown)

    def _receive(self, message: bytes | str) -> None:
        """Deliver a message of the link; foreign messages are ignored."""
        try:
            pointer = _decode(message)
        except (msgspec.DecodeError, UnicodeError):
            return
        if pointer.node == self._node:
            return
        delivered = self._delivered.get(pointer.session_id, 0)
        # A last sequence of 0 is a signal, not a position in a log.
        if pointer.last > delivered or not pointer.last:
            first = max(pointer.first, delivered + 1)
            self._deliver(LogAppended(pointer.session_id, pointer.owner, first, pointer.last))

    async def _run(self) -> None:
        while True:
            try:
                self._link.lost.clear()
                await self._link.open(self._receive)
                self.is_linked = True
                self._subscribed = set()
                await self._run_linked()
            except asyncio.CancelledError:
                raise
            except Exception:
                # Whatever the driver raises means the same: go on without the link, and retry.
                self.is_linked = False
                await self._link.close()
                await self._run_unlinked()

    async def _run_linked(self) -> None:
        loop = asyncio.get_running_loop()
        next_poll = loop.time()
        while not self._link.lost.is_set():
            self._wake_up.clear()
            new = await self._update_subscriptions()
            await self._send_pending()
            if loop.time() >= next_poll:
                await self._catch_up(self._listening)
                next_poll = loop.time() + self._poll
            elif new:
                # Entries may have been written before the subscription took effect.
                await self._catch_up(new)
            if not self._pending:
                await _wait_for_any(self._wake_up, self._link.lost, next_poll - loop.time())
        raise ConnectionError

    async def _run_unlinked(self) -> None:
        """Poll the store until the link is opened again: slower, but nothing is lost."""
        for _ in range(max(1, round(AGAIN / self._poll_away))):
            await self._catch_up(self._listening)
            await asyncio.sleep(self._poll_away)

    async def _update_subscriptions(self) -> set[str]:
        """Subscribe to the sessions with listeners; return those that are new."""
        wanted = set(self._listening)
        new = wanted - self._subscribed
        dropped = self._subscribed - wanted
        if new or dropped:
            await self._link.follow(new, dropped)
            self._subscribed = wanted
        return new

    async def _send_pending(self) -> None:
        while self._pending:
            batch = list(self._pending.values())[:_BATCH_SIZE]
            await self._link.send(
                [(pointer.session_id, msgspec.json.encode(pointer)) for pointer in batch]
            )
            for pointer in batch:
                # A newer pointer may have replaced it meanwhile.
                if self._pending.get(pointer.session_id) is pointer:
                    del self._pending[pointer.session_id]

    async def _catch_up(self, sessions: Collection[str]) -> None:
        """Ask the store how far sessions have advanced, and deliver what was missed."""
        names = list(sessions)
        for start in range(0, len(names), _BATCH_SIZE):
            try:
                heads = await self._heads(names[start : start + _BATCH_SIZE])
            except StoreError:
                return
            for session_id, (owner, last) in heads.items():
                if session_id not in self._listening:
                    continue
                delivered = self._delivered.get(session_id)
                if delivered is None:
                    self._deliver(LogAppended(session_id, owner, last, last))
                elif last > delivered:
                    self._deliver(LogAppended(session_id, owner, delivered + 1, last))


async def _wait_for_any(first: asyncio.Event, second: asyncio.Event, seconds: float) -> None:
    """Wait until one of the events is set, or the time is over."""
    waits = [asyncio.ensure_future(event.wait()) for event in (first, second)]
    try:
        await asyncio.wait(waits, timeout=max(seconds, 0.0), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
