"""The store in a folder of this machine: SQLite and files, no other service."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from open_token.errors import StoreError
from open_token.server.store import (
    _blobs,
    _log,
    _memories,
    _people,
    _runs,
    _schedules,
    _sessions,
    _shares,
    tokens,
)
from open_token.server.store import backup as copies
from open_token.server.store._database import BLOBS, Database
from open_token.server.store._faults import Missing
from open_token.server.store._readers import Reading
from open_token.server.store.interface import Store
from open_token.server.store.rows import (
    Appended,
    Blob,
    Caller,
    Firing,
    KeyRow,
    Scope,
    Share,
    Step,
    TaskRun,
)

P = ParamSpec("P")
T = TypeVar("T")
Method = Callable[Concatenate["SqliteStore", P], Coroutine[Any, Any, T]]


def _writing(function: Callable[Concatenate[sqlite3.Connection, P], T]) -> Method[P, T]:
    """A function over the database as a method that returns after the commit."""

    async def method(self: "SqliteStore", /, *args: P.args, **kwargs: P.kwargs) -> T:
        result: T = await self.database.writer.submit(lambda db: function(db, *args, **kwargs))
        return result

    return method


def _reading(function: Callable[Concatenate[sqlite3.Connection, P], T]) -> Method[P, T]:
    """A function over the database as a method that sees one view of it."""

    async def method(self: "SqliteStore", /, *args: P.args, **kwargs: P.kwargs) -> T:
        result: T = await self.database.readers.submit(lambda db: function(db, *args, **kwargs))
        return result

    return method


def _looking_up(function: Callable[Concatenate[sqlite3.Connection, P], T]) -> Method[P, T]:
    """A function that finds a row by its key as a method; it seldom waits."""

    async def method(self: "SqliteStore", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.looked_up(function, *args, **kwargs)

    return method


def _recalling(function: Callable[Concatenate[sqlite3.Connection, P], T]) -> Method[P, T]:
    """The same for a small answer that is asked for again and again."""

    async def method(self: "SqliteStore", /, *args: P.args, **_: P.kwargs) -> T:
        result: T = await self.recalled(function, *args)
        return result

    return method


class SqliteStore:
    """The interface over a data folder."""

    def __init__(self, folder: Path) -> None:
        self.database = Database(folder)
        self.blobs = folder / BLOBS

    read_log = _reading(_log.read_log)
    session = _looking_up(_sessions.session)
    progress = _recalling(_sessions.progress)
    heads = _reading(_sessions.heads)
    sessions = _reading(_sessions.sessions)
    delete_session = _writing(_sessions.delete_session)
    turns = _reading(_sessions.turns)
    checkpoints = _reading(_sessions.checkpoints)

    add_user = _writing(_people.add_user)
    users = _reading(_people.users)
    user = _reading(_people.user)
    disable_user = _writing(_people.disable_user)
    delete_user = _writing(_people.delete_user)
    keys = _reading(_people.keys)
    rename_key = _writing(_people.rename_key)
    revoke_key = _writing(_people.revoke_key)

    add_memory = _writing(_memories.add_memory)
    memory = _reading(_memories.memory)
    memories = _reading(_memories.memories)
    change_memory = _writing(_memories.change_memory)
    delete_memories = _writing(_memories.delete_memories)
    disable_memories = _writing(_memories.disable_memories)
    relevant_memories = _reading(_memories.relevant_memories)
    hit_memories = _writing(_memories.hit_memories)

    claim_run = _writing(_runs.claim_run)
    renew_lease = _writing(_runs.renew_lease)
    give_up_runs = _writing(_runs.give_up_runs)
    runs = _reading(_runs.runs)

    add_task = _writing(_schedules.add_task)
    tasks = _reading(_schedules.tasks)
    task = _reading(_schedules.task)
    change_task = _writing(_schedules.change_task)
    delete_task = _writing(_schedules.delete_task)
    due_tasks = _reading(_schedules.due_tasks)
    nearest_fire = _reading(_schedules.nearest_fire)
    task_runs = _reading(_schedules.task_runs)

    setting = _looking_up(_shares.setting)
    set_setting = _writing(_shares.set_setting)
    take_setting = _writing(_shares.take_setting)

    async def time(self, now: str) -> str:
        """That of the one server that has this folder."""
        return now

    async def looked_up(
        self,
        function: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """What a function finds by a key."""
        found: Any = self.database.readers.look_up(lambda db: function(db, *args, **kwargs))
        result: T = await found if isinstance(found, asyncio.Future) else found
        return result

    async def recalled(self, function: Callable[..., Any], *args: Any) -> Any:
        """What a function finds by a key, or found since anything was last written."""
        found = self.database.readers.look_up(Reading.recall, function, *args)
        return await found if isinstance(found, asyncio.Future) else found

    async def append(self, step: Step) -> Appended:
        """Write a step; raises Conflict, Missing or Fenced, and then nothing is written."""
        for sha256 in step.blobs:
            path = _blobs.place(self.blobs, sha256)
            if path is None or not path.exists():
                raise Missing("blob")
        result: Appended = await self.database.writer.submit(_log.append, _log.prepared(step))
        return result

    async def fire_task(self, firing: Firing) -> TaskRun | None:
        """Take a slot: its run, its session and the task's next slot, all or nothing; None when
        another node did."""
        step = None if firing.step is None else _log.prepared(firing.step)
        run: TaskRun | None = await self.database.writer.submit(_schedules.fire_task, firing, step)
        return run

    async def put_blob(self, data: bytes, media_type: str) -> Blob:
        """Keep bytes that are too big for the log; the step that refers to them names their
        hash."""
        return await asyncio.to_thread(_blobs.put, self.blobs, data, media_type)

    async def read_blob(
        self, owner: str, session_id: str, sha256: str, start: int = 0, length: int | None = None
    ) -> bytes | None:
        """A part of a blob, or all of it; None when the session does not refer to it."""
        if not await self.database.readers.submit(_blobs.is_referred, owner, session_id, sha256):
            return None
        return await asyncio.to_thread(_blobs.read, self.blobs, sha256, start, length)

    async def sweep_blobs(self, before: float) -> int:
        """Take away blobs that no session has and that were put before a time (in seconds since
        1970)."""
        count: int = await self.database.readers.submit(_blobs.sweep, self.blobs, before)
        return count

    async def add_key(self, user_id: str, name: str, scope: Scope, at: str) -> tuple[KeyRow, str]:
        """Make a key; its plain text is told here and never again."""
        key, plaintext = _people.new_key(user_id, name, scope, at)
        await self.database.writer.submit(
            _people.add_key, key, tokens.digest(self.database.pepper, plaintext)
        )
        return key, plaintext

    async def check_key(self, plaintext: str, at: str) -> Caller | None:
        """Whose key that is, if it is one and may be used; notes its use once a minute."""
        key_id = tokens.key_id(plaintext)
        if key_id is None:
            return None
        digest = tokens.digest(self.database.pepper, plaintext)
        caller: Caller | None = await self.recalled(_people.find_key, key_id, digest)
        if caller is not None and _people.is_worth_a_note(caller.key, at):
            with contextlib.suppress(StoreError):  # a full disk does not keep anybody from reading
                await self.database.writer.submit(_people.touch_key, key_id, at)
        return caller

    async def add_share(
        self,
        owner: str,
        session_id: str,
        at: str,
        expires_at: str | None = None,
        body: bytes = b"{}",
    ) -> str:
        """Open a session for reading; gives the token, here and never again."""
        token = tokens.new_share()
        share = Share(
            session_id=session_id, owner=owner, created_at=at, expires_at=expires_at, body=body
        )
        await self.database.writer.submit(
            _shares.add_share, share, tokens.digest(self.database.pepper, token)
        )
        return token

    async def share(self, token: str, now: str) -> Share | None:
        """What a token opens, unless its time is over."""
        digest = tokens.digest(self.database.pepper, token)
        share: Share | None = await self.looked_up(_shares.share, digest, now)
        return share

    async def revoke_share(self, owner: str, session_id: str, token: str | None = None) -> int:
        """Close a session to a token, or to all of them; tells how many there were."""
        digest = None if token is None else tokens.digest(self.database.pepper, token)
        count: int = await self.database.writer.submit(
            _shares.revoke_share, owner, session_id, digest
        )
        return count

    async def check(self, is_deep: bool = False) -> list[str]:
        """What is wrong with the data, in words; deep also reads every blob."""
        return await asyncio.to_thread(copies.check, self.database.folder, is_deep=is_deep)

    async def backup(self, target: Path) -> None:
        """Copy all data as they are at one moment into a new folder, while others go on."""
        await asyncio.to_thread(copies.backup, self.database.folder, target)

    async def close(self) -> None:
        """Write what waits, and let go."""
        await asyncio.to_thread(self.database.close)


def open_sqlite(folder: Path) -> Store:
    """The store of a data folder, which is made when it is not there."""
    return SqliteStore(folder)
