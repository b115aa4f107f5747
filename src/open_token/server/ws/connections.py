"""Open connections of a node: limits per user, and disconnection when a key is revoked."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from open_token.errors import StoreError
from open_token.server.core.services import Services
from open_token.server.errors import ApiError
from open_token.server.store.rows import Caller

_CHECK_SECONDS = 1.0
_RATE_WINDOW = 60.0
_log = logging.getLogger(__name__)


@dataclass(eq=False)
class Connection:
    """An open socket or event stream."""

    caller: Caller
    disconnect: Callable[[ApiError], None]
    """Closes the connection and reports why; must not block."""


@dataclass
class _EventCount:
    """The events that a user sent in the current minute."""

    since: float
    count: int = 0


class Connections:
    """The open sockets and event streams of this node."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._by_user: dict[str, set[Connection]] = {}
        self._event_counts: dict[str, _EventCount] = {}
        """Kept after a disconnect, so that reconnecting does not reset the limit."""
        self._check_now = asyncio.Event()
        self._checking: asyncio.Task[None] | None = None

    def add(self, caller: Caller, disconnect: Callable[[ApiError], None]) -> Connection:
        """Register a connection; raises ApiError when the user has too many."""
        connections = self._by_user.setdefault(caller.user.id, set())
        limit = self._services.config.limits.connections_per_user
        if len(connections) >= limit:
            raise ApiError(
                429,
                f"this user has {limit} connections open; close one first",
                "too_many_connections",
            )
        connection = Connection(caller, disconnect)
        connections.add(connection)
        if self._checking is None or self._checking.done():
            self._checking = asyncio.get_running_loop().create_task(self._check_forever())
        return connection

    def remove(self, connection: Connection) -> None:
        """Unregister a closed connection."""
        user_id = connection.caller.user.id
        connections = self._by_user.get(user_id)
        if connections is not None:
            connections.discard(connection)
            if not connections:
                del self._by_user[user_id]

    def count(self) -> int:
        """Return the number of open connections."""
        return sum(len(connections) for connections in self._by_user.values())

    def count_event(self, connection: Connection) -> None:
        """Count an event; raises ApiError above the rate limit, and disconnects at twice of it."""
        limit = self._services.config.limits.events_per_minute
        counted = self._event_counts.setdefault(connection.caller.user.id, _EventCount(0.0))
        now = asyncio.get_running_loop().time()
        if now - counted.since >= _RATE_WINDOW:
            counted.since = now
            counted.count = 0
        counted.count += 1
        if counted.count <= limit:
            return
        problem = ApiError(429, f"rate limit exceeded: {limit} events per minute", "rate_limited")
        if counted.count > limit * 2:
            connection.disconnect(problem)
        raise problem

    def recheck(self) -> None:
        """Check all keys now, because a key or a user has changed."""
        self._check_now.set()

    async def close(self) -> None:
        """Disconnect everybody."""
        if self._checking is not None:
            self._checking.cancel()
        for connections in tuple(self._by_user.values()):
            for connection in tuple(connections):
                connection.disconnect(ApiError(503, "server shutting down", "stopping"))
        await asyncio.sleep(0)

    async def _check_forever(self) -> None:
        loop = asyncio.get_running_loop()
        while self._by_user:
            timer = loop.call_later(_CHECK_SECONDS, self._check_now.set)
            await self._check_now.wait()
            timer.cancel()
            self._check_now.clear()
            for user_id in tuple(self._by_user):
                try:
                    await self._check_user(user_id)
                except StoreError:
                    _log.warning("cannot check keys; retrying")

    async def _check_user(self, user_id: str) -> None:
        """Disconnect whose key was revoked, whose token has expired, or whose user was disabled."""
        store = self._services.store
        user = await store.user(user_id)
        is_disabled = user is None or user.disabled_at is not None
        valid_keys: dict[str, set[str]] = {}
        for connection in tuple(self._by_user.get(user_id, ())):
            key = connection.caller.key
            expires_at = connection.caller.expires_at
            if key.user_id not in valid_keys:
                valid_keys[key.user_id] = {known.id for known in await store.keys(key.user_id)}
            is_revoked = bool(key.id) and key.id not in valid_keys[key.user_id]
            if is_disabled or is_revoked:
                connection.disconnect(ApiError(401, "this key was revoked", "unauthorized"))
            elif expires_at is not None and expires_at <= self._services.clock.now():
                connection.disconnect(ApiError(401, "this token has expired", "unauthorized"))
