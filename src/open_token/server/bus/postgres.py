"""The bus over LISTEN and NOTIFY of PostgreSQL, for nodes that share nothing but a database."""

import asyncio
import contextlib
import hashlib
from collections.abc import Callable, Collection
from typing import Any

import asyncpg

from open_token.server.bus.remote import Heads, RemoteBus

_MAX_BYTES = 7900
"""PostgreSQL refuses longer messages; the other nodes then find the change by polling."""
_NOTIFY = """
    SELECT pg_notify(channel, message)
    FROM unnest($1::text[], $2::text[]) AS notification (channel, message)
"""


class PostgresLink:
    """One connection that listens and notifies."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._db: asyncpg.Connection | None = None
        self._receive: Callable[[bytes | str], None] = lambda _: None
        self.lost = asyncio.Event()

    async def open(self, hear: Callable[[bytes | str], None]) -> None:
        """Connect."""
        self._receive = hear
        self._db = await asyncpg.connect(self._url, timeout=10, command_timeout=10)
        self._db.add_termination_listener(lambda _: self.lost.set())

    async def close(self) -> None:
        """Disconnect."""
        db = self._db
        self._db = None
        if db is not None:
            with contextlib.suppress(Exception):
                db.terminate()

    async def send(self, messages: Collection[tuple[str, bytes]]) -> None:
        """Notify the listeners of sessions."""
        channels = []
        payloads = []
        for session_id, message in messages:
            if len(message) <= _MAX_BYTES:
                channels.append(channel_name(session_id))
                payloads.append(message.decode())
        await self._get_connection().execute(_NOTIFY, channels, payloads)

    async def follow(self, sessions: Collection[str], dropped: Collection[str]) -> None:
        """Listen to the channels of sessions, and stop listening to others."""
        for session_id in dropped:
            await self._get_connection().remove_listener(channel_name(session_id), self._notified)
        for session_id in sessions:
            await self._get_connection().add_listener(channel_name(session_id), self._notified)

    def _notified(self, connection: Any, process: int, channel: str, message: str) -> None:
        self._receive(message)

    def _get_connection(self) -> asyncpg.Connection:
        if self._db is None:
            raise ConnectionError
        return self._db


def channel_name(session_id: str) -> str:
    """Return the channel of a session: a valid identifier, whatever the session is called."""
    return "ot_" + hashlib.sha256(session_id.encode("utf-8", "replace")).hexdigest()[:40]


def open_bus(url: str, heads: Heads) -> RemoteBus:
    """Open the bus of nodes that share a database."""
    return RemoteBus(PostgresLink(url), heads)
