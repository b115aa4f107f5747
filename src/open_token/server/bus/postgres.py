"""The bus over PostgreSQL's NOTIFY, for nodes that share a database and nothing else."""

import asyncio
import contextlib
import hashlib
from collections.abc import Callable, Collection
from typing import Any

import asyncpg

from open_token.server.bus.remote import Heads, RemoteBus

_MOST_BYTES = 7900
"""PostgreSQL refuses a longer message; the store is looked into for such a session."""


class PostgresLink:
    """One connection that listens and notifies."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._db: asyncpg.Connection | None = None
        self._hear: Callable[[bytes | str], None] = lambda _: None
        self.lost = asyncio.Event()

    async def open(self, hear: Callable[[bytes | str], None]) -> None:
        """Connect."""
        self._hear = hear
        self._db = await asyncpg.connect(self._url, timeout=10, command_timeout=10)
        self._db.add_termination_listener(lambda _: self.lost.set())

    async def close(self) -> None:
        """Let go."""
        db, self._db = self._db, None
        if db is not None:
            with contextlib.suppress(Exception):
                db.terminate()

    async def send(self, messages: Collection[tuple[str, bytes]]) -> None:
        """Notify whoever listens."""
        told = [
            (channel(name), message.decode())
            for name, message in messages
            if len(message) <= _MOST_BYTES
        ]
        sql = "SELECT pg_notify(channel, message) FROM unnest($1::text[], $2::text[]) AS told (channel, message)"
        await self._connected().execute(
            sql, [name for name, _ in told], [message for _, message in told]
        )

    async def follow(self, sessions: Collection[str], dropped: Collection[str]) -> None:
        """Listen to the channels of sessions."""
        for name in dropped:
            await self._connected().remove_listener(channel(name), self._told)
        for name in sessions:
            await self._connected().add_listener(channel(name), self._told)

    def _told(self, connection: Any, process: int, where: str, message: str) -> None:
        self._hear(message)

    def _connected(self) -> asyncpg.Connection:
        if self._db is None:
            raise ConnectionError
        return self._db


def channel(session_id: str) -> str:
    """The channel of a session: a name that PostgreSQL takes, however the session is called."""
    return "ot_" + hashlib.sha256(session_id.encode("utf-8", "replace")).hexdigest()[:40]


def open_bus(url: str, heads: Heads) -> RemoteBus:
    """The bus of the nodes that share a database."""
    return RemoteBus(PostgresLink(url), heads)
