"""The bus over Redis, for many nodes and many sockets; Redis holds nothing and may go away at any
time."""

import asyncio
import contextlib
from collections.abc import Callable, Collection
from typing import Any

import redis.asyncio

from open_token.errors import StoreError
from open_token.server.bus.remote import Heads, RemoteBus
from open_token.server.stopping import stopped

_PREFIX = "open-token:session:"
_IDLE = "open-token:idle"
"""Followed by every node, so that there is always something to follow."""


class RedisLink:
    """A connection that publishes and one that follows."""

    def __init__(self, url: str) -> None:
        try:
            self._redis: Any = redis.asyncio.Redis.from_url(
                url, socket_timeout=10, socket_connect_timeout=5, health_check_interval=15
            )
        except ValueError:
            raise StoreError(
                "the address of Redis cannot be read",
                help="it reads as in redis://host:6379/0",
                code="bus.address",
            ) from None
        self._followed: Any = None
        self._task: asyncio.Task[None] | None = None
        self.lost = asyncio.Event()

    async def open(self, hear: Callable[[bytes | str], None]) -> None:
        """Connect, and begin to hear."""
        await self._redis.ping()
        followed = self._followed = self._redis.pubsub(ignore_subscribe_messages=True)
        await followed.subscribe(_IDLE)
        self._task = asyncio.create_task(self._read(followed, hear), name="open-token-redis")

    async def close(self) -> None:
        """Let go."""
        task, self._task = self._task, None
        if task is not None:
            await stopped(task)
        followed, self._followed = self._followed, None
        with contextlib.suppress(Exception):
            if followed is not None:
                await followed.aclose()
        with contextlib.suppress(Exception):
            await self._redis.connection_pool.disconnect()

    async def send(self, messages: Collection[tuple[str, bytes]]) -> None:
        """Publish to whoever follows."""
        async with self._redis.pipeline(transaction=False) as pipe:
            for name, message in messages:
                pipe.publish(_PREFIX + name, message)
            await pipe.execute()

    async def follow(self, sessions: Collection[str], dropped: Collection[str]) -> None:
        """Follow the channels of sessions."""
        if self._followed is None:
            raise ConnectionError
        if dropped:
            await self._followed.unsubscribe(*(_PREFIX + name for name in dropped))
        if sessions:
            await self._followed.subscribe(*(_PREFIX + name for name in sessions))

    async def _read(self, followed: Any, hear: Callable[[bytes | str], None]) -> None:
        try:
            while True:
                message = await followed.get_message(timeout=5.0)
                if message is not None:
                    hear(message["data"])
        except asyncio.CancelledError:
            raise
        except Exception:  # the connection is gone, in whatever way: the bus opens it again
            self.lost.set()


def open_bus(url: str, heads: Heads) -> RemoteBus:
    """The bus of the nodes that share a Redis."""
    return RemoteBus(RedisLink(url), heads)
