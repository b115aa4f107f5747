"""The store in a data folder: SQLite and files, without any other service."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from open_token.errors import StoreError
from open_token.server.store import backup as folder_backup
from open_token.server.store import tokens
from open_token.server.store.errors import NotFoundError
from open_token.server.store.interface import Store
from open_token.server.store.rows import (
    Appended,
    Blob,
    Caller,
    Firing,
    KeyRow,
    Scope,
    SessionWrite,
    Share,
    TaskRun,
)
from open_token.server.store.sqlite import blobs, log
from open_token.server.store.sqlite import memories as memory_queries
from open_token.server.store.sqlite import runs as run_queries
from open_token.server.store.sqlite import schedules as schedule_queries
from open_token.server.store.sqlite import sessions as session_queries
from open_token.server.store.sqlite import shares as share_queries
from open_token.server.store.sqlite import users as user_queries
from open_token.server.store.sqlite.database import BLOBS, Database
from open_token.server.store.sqlite.readers import ReadConnection

P = ParamSpec("P")
T = TypeVar("T")
Method = Callable[Concatenate["SqliteStore", P], Coroutine[Any, Any, T]]


def _write_method(function: Callable[Concatenate[sqlite3.Connection, P], T]) -> Method[P, T]:
    """Make a method of a query function that writes; it returns after the commit."""

    async def method(self: "SqliteStore", /, *args: P.args, **kwargs: P.kwargs) -> T:
        result: T = await self.database.writer.submit(lambda db: function(db, *args, **kwargs))
        return result

    return method


def _read_method(function: Callable[Concatenate[sqlite3.Connection, P], T]) -> Method[P, T]:
    """Make a method of a query function that reads from one snapshot of the database."""

    async def method(self: "SqliteStore", /, *args: P.args, **kwargs: P.kwargs) -> T:
        result: T = await self.database.readers.submit(lambda db: function(db, *args, **kwargs))
        return result

    return method


def _lookup_method(function: Callable[Concatenate[sqlite3.Connection, P], T]) -> Method[P, T]:
    """Make a method of a query function that finds a row by its key; it rarely waits."""

    async def method(self: "SqliteStore", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.look_up(function, *args, **kwargs)

    return method


def _cached_method(function: Callable[Concatenate[sqlite3.Connection, P], T]) -> Method[P, T]:
    """Make a method of a lookup that is repeated often; its small result is cached."""

    async def method(self: "SqliteStore", /, *args: P.args, **_: P.kwargs) -> T:
        result: T = await self.look_up_cached(function, *args)
        return result

    return method


class SqliteStore:
    """The store of a data folder."""

    def __init__(self, folder: Path) -> None:
        self.database = Database(folder)
        self.blobs = folder / BLOBS

    read_log = _read_method(log.read_log)
    session = _lookup_method(session_queries.get_session)
    progress = _cached_method(session_queries.get_progress)
    get_heads = _read_method(session_queries.get_heads)
    sessions = _read_method(session_queries.list_sessions)
    delete_session = _write_method(session_queries.delete_session)
    turns = _read_method(session_queries.list_turns)
    checkpoints = _read_method(session_queries.list_checkpoints)

    add_user = _write_method(user_queries.add_user)
    users = _read_method(user_queries.list_users)
    user = _read_method(user_queries.get_user)
    disable_user = _write_method(user_queries.disable_user)
    delete_user = _write_method(user_queries.delete_user)
    keys = _read_method(user_queries.list_keys)
    rename_key = _write_method(user_queries.rename_key)
    revoke_key = _write_method(user_queries.revoke_key)

    add_memory = _write_method(memory_queries.add_memory)
    memory = _read_method(memory_queries.get_memory)
    memories = _read_method(memory_queries.list_memories)
    change_memory = _write_method(memory_queries.change_memory)
    delete_memories = _write_method(memory_queries.delete_memories)
    disable_memories = _write_method(memory_queries.disable_memories)
    find_relevant_memories = _read_method(memory_queries.find_relevant_memories)
    record_memory_hits = _write_method(memory_queries.record_hits)

    claim_run = _write_method(run_queries.claim_run)
    renew_lease = _write_method(run_queries.renew_lease)
    expire_leases = _write_method(run_queries.expire_leases)
    give_up_runs = _write_method(run_queries.give_up_runs)
    runs = _read_method(run_queries.list_runs)

    add_task = _write_method(schedule_queries.add_task)
    tasks = _read_method(schedule_queries.list_tasks)
    task = _read_method(schedule_queries.get_task)
    change_task = _write_method(schedule_queries.change_task)
    delete_task = _write_method(schedule_queries.delete_task)
    list_due_tasks = _read_method(schedule_queries.list_due_tasks)
    get_next_fire = _read_method(schedule_queries.get_next_fire)
    list_task_runs = _read_method(schedule_queries.list_task_runs)

    setting = _lookup_method(share_queries.get_setting)
    set_setting = _write_method(share_queries.set_setting)
    replace_setting = _write_method(share_queries.replace_setting)
    list_settings = _read_method(share_queries.list_settings)
    take_setting = _write_method(share_queries.take_setting)

    async def time(self, now: str) -> str:
        """Return the time of the one server that has this folder."""
        return now

    async def look_up(
        self,
        function: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Return the result of a function that finds a row by its key."""
        answer: Any = self.database.readers.look_up(lambda db: function(db, *args, **kwargs))
        if isinstance(answer, asyncio.Future):
            answer = await answer
        result: T = answer
        return result

    async def look_up_cached(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return the result of a lookup, cached until anything is written."""
        answer = self.database.readers.look_up(ReadConnection.recall, function, *args)
        if isinstance(answer, asyncio.Future):
            return await answer
        return answer

    async def append(self, write: SessionWrite) -> Appended:
        """Write to a session; raise ConflictError, NotFoundError or FencedError otherwise."""
        for sha256 in write.blobs:
            path = blobs.get_blob_path(self.blobs, sha256)
            if path is None or not path.exists():
                raise NotFoundError("blob")
        prepared = log.prepare_write(write)
        result: Appended = await self.database.writer.submit(log.append_write, prepared)
        return result

    async def fire_task(self, firing: Firing) -> TaskRun | None:
        """Take a slot of a task; None when another node has taken it."""
        write = None if firing.step is None else log.prepare_write(firing.step)
        run: TaskRun | None = await self.database.writer.submit(
            schedule_queries.fire_task, firing, write
        )
        return run

    async def put_blob(self, data: bytes, media_type: str) -> Blob:
        """Store bytes that are too big for the log; the write that refers to them names them."""
        return await asyncio.to_thread(blobs.write_blob, self.blobs, data, media_type)

    async def read_blob(
        self, owner: str, session_id: str, sha256: str, start: int = 0, length: int | None = None
    ) -> bytes | None:
        """Return a part of a blob, or all of it; None when the session does not refer to it."""
        if not await self.database.readers.submit(blobs.is_referenced, owner, session_id, sha256):
            return None
        return await asyncio.to_thread(blobs.read_blob, self.blobs, sha256, start, length)

    async def count_bytes(self, owner: str) -> int:
        """Return the size of a user's logs and of the blobs that they refer to."""
        size: int = await self.database.readers.submit(blobs.count_bytes, self.blobs, owner)
        return size

    async def sweep_blobs(self, before: float) -> int:
        """Delete unreferenced blobs older than a time (seconds since 1970); return the count."""
        count: int = await self.database.readers.submit(blobs.sweep_blobs, self.blobs, before)
        return count

    async def add_key(self, user_id: str, name: str, scope: Scope, at: str) -> tuple[KeyRow, str]:
        """Create a key; its plain text is only returned here."""
        key, plaintext = user_queries.build_key(user_id, name, scope, at)
        digest = self._hash(plaintext)
        await self.database.writer.submit(user_queries.add_key, key, digest)
        return key, plaintext

    async def check_key(self, plaintext: str, at: str) -> Caller | None:
        """Return the owner of a valid key; record its use once a minute."""
        key_id = tokens.parse_key_id(plaintext)
        if key_id is None:
            return None
        digest = self._hash(plaintext)
        caller: Caller | None = await self.look_up_cached(user_queries.find_key, key_id, digest)
        if caller is not None and user_queries.should_record_use(caller.key, at):
            # A full disk must not keep anybody from reading.
            with contextlib.suppress(StoreError):
                await self.database.writer.submit(user_queries.record_key_use, key_id, at)
        return caller

    async def sign(self, text: str) -> bytes:
        """Return a signature of a text by the pepper."""
        return self._hash(text)

    async def add_share(
        self,
        owner: str,
        session_id: str,
        at: str,
        expires_at: str | None = None,
        body: bytes = b"{}",
    ) -> str:
        """Share a session for reading; the token is only returned here."""
        token = tokens.generate_share_token()
        share = Share(
            session_id=session_id, owner=owner, created_at=at, expires_at=expires_at, body=body
        )
        await self.database.writer.submit(share_queries.add_share, share, self._hash(token))
        return token

    async def share(self, token: str, now: str) -> Share | None:
        """Return the share of a token unless it has expired."""
        share: Share | None = await self.look_up(share_queries.find_share, self._hash(token), now)
        return share

    async def revoke_share(self, owner: str, session_id: str, token: str | None = None) -> int:
        """Revoke one share of a session, or all of them; return the count."""
        digest = None if token is None else self._hash(token)
        count: int = await self.database.writer.submit(
            share_queries.revoke_share, owner, session_id, digest
        )
        return count

    def _hash(self, secret: str) -> bytes:
        return tokens.hash_secret(self.database.pepper, secret)

    async def check(self, is_deep: bool = False) -> list[str]:
        """Return descriptions of damage; a deep check also reads every blob."""
        return await asyncio.to_thread(folder_backup.check, self.database.folder, is_deep=is_deep)

    async def backup(self, target: Path) -> None:
        """Copy a consistent snapshot of all data into a new folder, during operation."""
        await asyncio.to_thread(folder_backup.backup, self.database.folder, target)

    async def close(self) -> None:
        """Finish pending writes and close."""
        await asyncio.to_thread(self.database.close)


def open_sqlite(folder: Path) -> Store:
    """Open the store of a data folder, which is created if necessary."""
    return SqliteStore(folder)
