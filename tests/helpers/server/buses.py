"""Buses of every kind for tests: two nodes, and a store that is a dict."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from typing import Any

import pytest

from helpers.server.local_services import postgres_url, redis_url
from open_token.model.log_events import LogEntry
from open_token.server.bus.interface import Bus, LogAppended
from open_token.server.bus.local import LocalBus
from open_token.server.bus.postgres import PostgresLink
from open_token.server.bus.redis import RedisLink
from open_token.server.bus.remote import RemoteBus

REMOTE = [
    pytest.param("postgres", marks=pytest.mark.full),
    pytest.param("redis", marks=pytest.mark.full),
]
KINDS = [pytest.param("local"), *REMOTE]


class Heads(dict[str, tuple[str, int]]):
    """How far sessions are, as the store would say."""

    async def __call__(self, names: Collection[str]) -> dict[str, tuple[str, int]]:
        return {name: self[name] for name in names if name in self}


class Received:
    """What a listener heard, and a way to wait for it."""

    def __init__(self) -> None:
        self.received: list[LogAppended] = []
        self._event = asyncio.Event()

    def __call__(self, grown: LogAppended) -> None:
        self.received.append(grown)
        self._event.set()

    @property
    def last(self) -> int:
        return max((grown.last for grown in self.received), default=0)

    async def until(self, last: int) -> None:
        """Wait until somebody said that the session goes on so far."""
        async with asyncio.timeout(60):
            while self.last < last:
                self._event.clear()
                await self._event.wait()


def build_log_appended(
    last: int, session_id: str = "sess_1", first: int | None = None
) -> LogAppended:
    entry = LogEntry(session_id, last, "2026-01-31T00:00:00.000Z", "noted", {})
    return LogAppended(session_id, "user_anna", last if first is None else first, last, [entry])


def get_connection(kind: str) -> tuple[Callable[[], Any], str]:
    """What makes the link of a kind, and its address."""
    return (PostgresLink, postgres_url()) if kind == "postgres" else (RedisLink, redis_url())


@contextlib.asynccontextmanager
async def open_buses(kind: str, heads: Heads, poll: float = 30.0) -> AsyncIterator[tuple[Bus, Bus]]:
    """Two nodes that are linked; a local bus is both of them."""
    if kind == "local":
        bus = LocalBus()
        await bus.start()
        yield bus, bus
        await bus.close()
        return
    link, url = get_connection(kind)
    pair = [RemoteBus(link(url), heads, poll, 0.05) for _ in range(2)]
    for each in pair:
        await each.start()
    await wait_until_connected(*pair)
    try:
        yield pair[0], pair[1]
    finally:
        for each in pair:
            await each.close()


async def wait_until_connected(*buses: Any) -> None:
    """Wait until the links are up."""
    async with asyncio.timeout(60):
        while not all(bus.is_linked for bus in buses):
            await asyncio.sleep(0.01)


async def wait_until_followed(bus: Any, session_id: str) -> None:
    """Wait until other nodes' words about a session arrive."""
    async with asyncio.timeout(60):
        while isinstance(bus, RemoteBus) and session_id not in bus._subscribed:
            await asyncio.sleep(0.01)


def run_with_buses(kind: str, play: Callable[..., Awaitable[None]], **more: Any) -> None:
    """Run something with two nodes."""

    async def whole() -> None:
        heads = Heads()
        async with open_buses(kind, heads, **more) as (one, other):
            await play(one, other, heads)

    asyncio.run(whole())
