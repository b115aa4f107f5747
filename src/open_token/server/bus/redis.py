"""The bus over Redis, for many nodes and many sockets.

Redis stores nothing and may be unavailable at any time.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection
from typing import Any

import redis.asyncio

from open_token.errors import StoreError
from open_token.server.bus.remote import Heads, RemoteBus
from open_token.server.cancellation import cancel_and_wait

_PREFIX = "open-token:session:"
_IDLE_CHANNEL = "open-token:idle"
"""Every node subscribes to it, because a pubsub connection needs at least one channel."""


class RedisLink:
    """A connection that publishes and one that subscribes."""

    def __init__(self, url: str) -> None:
        try:
            self._redis: Any = redis.asyncio.Redis.from_url(
                url, socket_timeout=10, socket_connect_timeout=5, health_check_interval=15
            )
        except ValueError:
            raise StoreError(
                "invalid Redis URL",
                help="use a URL such as redis://host:6379/0",
                code="bus.address",
            ) from None
        self._pubsub: Any = None
        self._task: asyncio.Task[None] | None = None
        self.lost = asyncio.Event()

    async def open(self, hear: Callable[[bytes | str], None]) -> None:
        """Connect, and start to receive."""
        await self._redis.ping()
        pubsub = self._redis.pubsub(ignore_subscribe_messages=True)
        self._pubsub = pubsub
        await pubsub.subscribe(_IDLE_CHANNEL)
        self._task = asyncio.create_task(self._read(pubsub, hear), name="open-token-redis")

    async def close(self) -> None:
        """Disconnect."""
        task = self._task
        self._task = None
        if task is not None:
            await cancel_and_wait(task)
        pubsub = self._pubsub
        self._pubsub = None
        with contextlib.suppress(Exception):
            if pubsub is not None:
                await pubsub.aclose()
        with contextlib.suppress(Exception):
            await self._redis.connection_pool.disconnect()

    async def send(self, messages: Collection[tuple[str, bytes]]) -> None:
        """Publish to the subscribers of sessions."""
        async with self._redis.pipeline(transaction=False) as pipe:
            for session_id, message in messages:
                pipe.publish(_PREFIX + session_id, message)
            await pipe.execute()

    async def follow(self, sessions: Collection[str], dropped: Collection[str]) -> None:
        """Subscribe to the channels of sessions, and unsubscribe from others."""
        if self._pubsub is None:
            raise ConnectionError
        if dropped:
            await self._pubsub.unsubscribe(*(_PREFIX + name for name in dropped))
        if sessions:
            await self._pubsub.subscribe(*(_PREFIX + name for name in sessions))

    async def _read(self, pubsub: Any, hear: Callable[[bytes | str], None]) -> None:
        try:
            while True:
                message = await pubsub.get_message(timeout=5.0)
                if message is not None:
                    hear(message["data"])
        except asyncio.CancelledError:
            raise
        except Exception:
            # Whatever happened, the connection is gone: the bus opens it again.
            self.lost.set()


def open_bus(url: str, heads: Heads) -> RemoteBus:
    """Open the bus of nodes that share a Redis."""
    return RemoteBus(RedisLink(url), heads)
