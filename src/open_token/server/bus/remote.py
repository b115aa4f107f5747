"""A bus between nodes: pointers over a link that may break; what it loses is found again in the
store.

Whoever listens here hears at once what this node writes, and soon what others write: one channel
for each session that is listened to. After every start of the link, and now and then, the store is
asked how far those sessions are."""

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Protocol

import msgspec
from msgspec import Struct

from open_token.errors import StoreError
from open_token.server.bus.interface import Grown, Listener
from open_token.server.bus.local import LocalBus
from open_token.server.stopping import stopped

Heads = Callable[[Collection[str]], Awaitable[Mapping[str, tuple[str, int]]]]
"""The owner and the last sequence of sessions; those that are gone are left out."""

POLL = 5.0
POLL_AWAY = 0.5
AGAIN = 1.0
_MOST_WAITING = 10_000
_TOGETHER = 500


class Pointer(Struct, frozen=True):
    """What goes over the link."""

    node: str
    session_id: str
    owner: str
    first: int
    last: int


_decode = msgspec.json.Decoder(Pointer).decode


class Link(Protocol):
    """A connection over which short messages go to whoever follows a channel."""

    lost: asyncio.Event
    """Set when the connection broke by itself."""

    async def open(self, hear: Callable[[bytes | str], None]) -> None:
        """Connect; raises whatever its driver does."""

    async def close(self) -> None:
        """Let go, also of what is broken already; never fails."""

    async def send(self, messages: Collection[tuple[str, bytes]]) -> None:
        """Send messages, each to the followers of a session."""

    async def follow(self, sessions: Collection[str], dropped: Collection[str]) -> None:
        """Hear of sessions, and of others no longer."""


class RemoteBus:
    """The bus of one node of several."""

    def __init__(
        self, link: Link, heads: Heads, poll: float = POLL, poll_away: float = POLL_AWAY
    ) -> None:
        self._link, self._heads = link, heads
        self._poll, self._poll_away = poll, poll_away
        self._node = secrets.token_hex(8)
        self._local = LocalBus()
        self._listening: dict[str, int] = {}
        self._followed: set[str] = set()
        self._seen: dict[str, int] = {}
        self._waiting: dict[str, Pointer] = {}
        self._stirred = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.is_linked = False

    async def start(self) -> None:
        """Begin to connect; a link that is away does not keep the server from starting."""
        await self._local.start()
        self._task = asyncio.create_task(self._work(), name="open-token-bus")

    async def close(self) -> None:
        """Send what waits if the link is there, and let go."""
        if self._task is not None:
            await stopped(self._task)
            self._task = None
            if self.is_linked and self._waiting:
                with contextlib.suppress(Exception):
                    async with asyncio.timeout(1.0):
                        await self._send()
        await self._link.close()
        await self._local.close()

    def publish(self, grown: Grown) -> None:
        """Say that a session has grown, here at once and to the other nodes soon."""
        self._deliver(grown)
        known = self._waiting.pop(grown.session_id, None)
        first = grown.first if known is None else min(known.first, grown.first)
        pointer = Pointer(self._node, grown.session_id, grown.owner, first, grown.last)
        self._waiting[grown.session_id] = pointer
        if (
            len(self._waiting) > _MOST_WAITING
        ):  # the link is away for long; the others look into the store
            self._waiting.pop(next(iter(self._waiting)))
        self._stirred.set()

    def listen(self, session_id: str, listener: Listener) -> Callable[[], None]:
        """Hear of a session until the returned function is called."""
        stop = self._local.listen(session_id, listener)
        self._listening[session_id] = self._listening.get(session_id, 0) + 1
        self._stirred.set()
        is_over = False

        def over() -> None:
            nonlocal is_over
            if is_over:
                return
            is_over = True
            stop()
            self._listening[session_id] -= 1
            if not self._listening[session_id]:
                del self._listening[session_id]
                self._seen.pop(session_id, None)
                self._stirred.set()

        return over

    def _deliver(self, grown: Grown) -> None:
        if grown.session_id in self._listening:
            self._seen[grown.session_id] = max(grown.last, self._seen.get(grown.session_id, 0))
        self._local.publish(grown)

    def _hear(self, message: bytes | str) -> None:
        """A message of the link; what is none of ours is let be."""
        try:
            told = _decode(message)
        except (msgspec.DecodeError, UnicodeError):
            return
        seen = self._seen.get(told.session_id, 0)
        if told.node != self._node and (
            told.last > seen or not told.last
        ):  # 0: a call, no place in a log
            self._deliver(Grown(told.session_id, told.owner, max(told.first, seen + 1), told.last))

    async def _work(self) -> None:
        while True:
            try:
                self._link.lost.clear()
                await self._link.open(self._hear)
                self.is_linked, self._followed = True, set()
                await self._linked()
            except asyncio.CancelledError:
                raise
            except (
                Exception
            ):  # whatever the driver raises means the same: go on without it, and try again
                self.is_linked = False
                await self._link.close()
                await self._away()

    async def _linked(self) -> None:
        loop = asyncio.get_running_loop()
        next_look = loop.time()
        while not self._link.lost.is_set():
            self._stirred.clear()
            new = await self._follow()
            await self._send()
            if loop.time() >= next_look:
                await self._heal(self._listening)
                next_look = loop.time() + self._poll
            elif new:
                await self._heal(
                    new
                )  # what was written between their last look and the first message
            if not self._waiting:
                await _first_of(self._stirred, self._link.lost, next_look - loop.time())
        raise ConnectionError

    async def _away(self) -> None:
        """Without the link: slower, but nothing is lost."""
        for _ in range(max(1, round(AGAIN / self._poll_away))):
            await self._heal(self._listening)
            await asyncio.sleep(self._poll_away)

    async def _follow(self) -> set[str]:
        wanted = set(self._listening)
        new, old = wanted - self._followed, self._followed - wanted
        if new or old:
            await self._link.follow(new, old)
            self._followed = wanted
        return new

    async def _send(self) -> None:
        while self._waiting:
            names = list(self._waiting)[:_TOGETHER]
            pointers = [self._waiting[name] for name in names]
            await self._link.send(
                [(pointer.session_id, msgspec.json.encode(pointer)) for pointer in pointers]
            )
            for name, pointer in zip(names, pointers, strict=True):
                if self._waiting.get(name) is pointer:
                    del self._waiting[name]

    async def _heal(self, sessions: Collection[str]) -> None:
        """Ask the store how far sessions are, and tell of those that went on unheard."""
        names = list(sessions)
        for start in range(0, len(names), _TOGETHER):
            try:
                heads = await self._heads(names[start : start + _TOGETHER])
            except StoreError:
                return
            for session_id, (owner, last) in heads.items():
                seen = self._seen.get(session_id)
                if session_id in self._listening and (seen is None or last > seen):
                    self._deliver(
                        Grown(session_id, owner, last if seen is None else seen + 1, last)
                    )


async def _first_of(stirred: asyncio.Event, lost: asyncio.Event, seconds: float) -> None:
    """Wait until one of them is set, or the time is over."""
    waits = [asyncio.ensure_future(event.wait()) for event in (stirred, lost)]
    try:
        await asyncio.wait(waits, timeout=max(seconds, 0.0), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
