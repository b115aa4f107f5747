"""The store in PostgreSQL: the same interface for servers of many nodes, which share one
database."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import asyncpg

from open_token.errors import StoreError
from open_token.server.store import (
    _people,
    _pg_blobs,
    _pg_log,
    _pg_memories,
    _pg_people,
    _pg_runs,
    _pg_schedules,
    _pg_schema,
    _pg_sessions,
    moving,
    tokens,
)
from open_token.server.store._database import PEPPER
from open_token.server.store._pg_faults import AGAIN, away, explained, not_connected
from open_token.server.store.interface import Store
from open_token.server.store.rows import Appended, Caller, KeyRow, Scope, Share, Step
from open_token.storage.files import make_folder, read_optional

P = ParamSpec("P")
T = TypeVar("T")
Method = Callable[Concatenate["PostgresStore", P], Coroutine[Any, Any, T]]

CONNECTIONS = 8
_TRIES = 5
_SECONDS = 60.0
"""For one command; a long blob or a new index may need them."""
_ALIVE = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 20_000}
"""A machine that is gone answers nothing, not even that it is there: then a connection is given up
after 20 seconds."""
# A node that is paused or cut off in the middle of a step must not hold its session and run for
# ever.
_SETTINGS = {"application_name": "open-token", "idle_in_transaction_session_timeout": "10s"}


def _writing(function: Callable[Concatenate[asyncpg.Connection, P], Awaitable[T]]) -> Method[P, T]:
    """A function over a connection as a method that returns after the commit."""

    async def method(self: "PostgresStore", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.write(lambda db: function(db, *args, **kwargs))

    return method


def _reading(function: Callable[Concatenate[asyncpg.Connection, P], Awaitable[T]]) -> Method[P, T]:
    """A function of one question."""

    async def method(self: "PostgresStore", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.read(lambda db: function(db, *args, **kwargs))

    return method


def _viewing(function: Callable[Concatenate[asyncpg.Connection, P], Awaitable[T]]) -> Method[P, T]:
    """A function of several questions, which see one view of the data."""

    async def method(self: "PostgresStore", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.view(lambda db: function(db, *args, **kwargs))

    return method


class _Connection(asyncpg.Connection):  # type: ignore[misc]
    """A connection on which nothing is left behind that must be reset: that saves a way to the
    database and back."""

    def __init__(self, protocol: Any, transport: Any, *rest: Any) -> None:
        super().__init__(protocol, transport, *rest)
        if (link := transport.get_extra_info("socket")) is not None:
            notice_death(link)

    def get_reset_query(self) -> str:
        """What is run when it goes back to the pool."""
        return ""


class PostgresStore:
    """The interface over a database; it connects when it is first asked."""

    def __init__(self, url: str, folder: Path, connections: int = CONNECTIONS) -> None:
        self._url, self._folder, self._connections = url, folder, connections
        self._pool: asyncpg.Pool | None = None
        self._opening = asyncio.Lock()
        self._pepper = b""
        self._is_closed = False

    read_log = _reading(_pg_log.read_log)
    session = _reading(_pg_sessions.session)
    progress = _reading(_pg_sessions.progress)
    heads = _reading(_pg_sessions.heads)
    sessions = _viewing(_pg_sessions.sessions)
    delete_session = _writing(_pg_sessions.delete_session)
    turns = _viewing(_pg_sessions.turns)
    checkpoints = _reading(_pg_sessions.checkpoints)
    put_blob = _writing(_pg_blobs.put)
    read_blob = _reading(_pg_blobs.read)
    sweep_blobs = _writing(_pg_blobs.sweep)

    add_user = _writing(_pg_people.add_user)
    users = _reading(_pg_people.users)
    user = _reading(_pg_people.user)
    disable_user = _writing(_pg_people.disable_user)
    delete_user = _writing(_pg_people.delete_user)
    keys = _reading(_pg_people.keys)
    rename_key = _writing(_pg_people.rename_key)
    revoke_key = _writing(_pg_people.revoke_key)

    add_memory = _writing(_pg_memories.add_memory)
    memory = _reading(_pg_memories.memory)
    memories = _viewing(_pg_memories.memories)
    change_memory = _writing(_pg_memories.change_memory)
    delete_memories = _writing(_pg_memories.delete_memories)
    disable_memories = _writing(_pg_memories.disable_memories)
    relevant_memories = _reading(_pg_memories.relevant_memories)
    hit_memories = _writing(_pg_memories.hit_memories)

    time = _reading(_pg_runs.time)
    claim_run = _writing(_pg_runs.claim_run)
    renew_lease = _writing(_pg_runs.renew_lease)
    give_up_runs = _writing(_pg_runs.give_up_runs)
    runs = _reading(_pg_runs.runs)

    add_task = _writing(_pg_schedules.add_task)
    tasks = _reading(_pg_schedules.tasks)
    task = _reading(_pg_schedules.task)
    change_task = _writing(_pg_schedules.change_task)
    delete_task = _writing(_pg_schedules.delete_task)
    due_tasks = _reading(_pg_schedules.due_tasks)
    nearest_fire = _reading(_pg_schedules.nearest_fire)
    fire_task = _writing(_pg_schedules.fire_task)
    task_runs = _viewing(_pg_schedules.task_runs)

    setting = _reading(_pg_people.setting)
    set_setting = _writing(_pg_people.set_setting)
    take_setting = _writing(_pg_people.take_setting)
    check = _viewing(_pg_blobs.check)

    async def append(self, step: Step) -> Appended:
        """Write a step; raises Conflict, Missing or Fenced, and then nothing is written."""
        if _pg_log.is_plain(step):
            appended = await self.write(lambda db: _pg_log.append_plain(db, step), is_one=True)
            if appended is not None:
                return appended
        return await self.write(lambda db: _pg_log.append(db, step))

    async def write(
        self, work: Callable[[asyncpg.Connection], Awaitable[T]], *, is_one: bool = False
    ) -> T:
        """Do something in a transaction; once more when others were in its way. One statement is
        one by itself."""
        for left in reversed(range(_TRIES)):
            try:
                async with self._connection() as db:
                    if is_one:
                        return await work(db)
                    async with db.transaction():
                        return await work(db)
            except AGAIN as problem:
                if not left:
                    raise explained(problem) from None
            except Exception as problem:
                raise explained(problem) from None
        raise AssertionError

    async def read(self, work: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
        """Ask one question."""
        try:
            async with self._connection() as db:
                return await work(db)
        except Exception as problem:
            raise explained(problem) from None

    async def view(self, work: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
        """Ask several questions of one view of the data."""
        try:
            async with (
                self._connection() as db,
                db.transaction(isolation="repeatable_read", readonly=True),
            ):
                return await work(db)
        except Exception as problem:
            raise explained(problem) from None

    async def add_key(self, user_id: str, name: str, scope: Scope, at: str) -> tuple[KeyRow, str]:
        """Make a key; its plain text is told here and never again."""
        key, plaintext = _people.new_key(user_id, name, scope, at)
        await self.write(
            lambda db: _pg_people.add_key(db, key, tokens.digest(self._pepper, plaintext))
        )
        return key, plaintext

    async def check_key(self, plaintext: str, at: str) -> Caller | None:
        """Whose key that is, if it is one and may be used; notes its use once a minute."""
        key_id = tokens.key_id(plaintext)
        if key_id is None:
            return None
        caller = await self.read(
            lambda db: _pg_people.find_key(db, key_id, tokens.digest(self._pepper, plaintext))
        )
        if caller is not None and _people.is_worth_a_note(caller.key, at):
            with contextlib.suppress(StoreError):  # a full disk does not keep anybody from reading
                await self.write(lambda db: _pg_people.touch_key(db, key_id, at))
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
        await self.write(
            lambda db: _pg_people.add_share(db, share, tokens.digest(self._pepper, token))
        )
        return token

    async def share(self, token: str, now: str) -> Share | None:
        """What a token opens, unless its time is over."""
        return await self.read(
            lambda db: _pg_people.share(db, tokens.digest(self._pepper, token), now)
        )

    async def revoke_share(self, owner: str, session_id: str, token: str | None = None) -> int:
        """Close a session to a token, or to all of them; tells how many there were."""

        def digest() -> bytes | None:
            return None if token is None else tokens.digest(self._pepper, token)

        return await self.write(lambda db: _pg_people.revoke_share(db, owner, session_id, digest()))

    async def backup(self, target: Path) -> None:
        """Copy all data as they are at one moment into a new data folder, while others go on."""
        copied = moving.to_folder(self._url, target, self._folder / PEPPER)
        await asyncio.to_thread(
            asyncio.run, copied
        )  # a loop of its own: the copy is written to a disk of this node

    async def open(self) -> None:
        """Connect, and bring the tables to the newest version."""
        async with self._opening:
            if self._is_closed:
                raise StoreError("the store is closed", code="store.closed")
            if self._pool is not None:
                return
            try:
                pool = await asyncpg.create_pool(
                    self._url,
                    min_size=1,
                    max_size=self._connections,
                    command_timeout=_SECONDS,
                    timeout=10.0,
                    connection_class=_Connection,
                    server_settings=_SETTINGS,
                )
            except Exception as problem:
                raise _not_opened(problem) from None
            try:
                async with pool.acquire() as db:
                    await _pg_schema.migrate(db)
                    self._pepper = await _pepper(db, self._folder)
            except BaseException as problem:
                await pool.close()
                raise (explained(problem) if isinstance(problem, Exception) else problem) from None
            self._pool = pool

    async def close(self) -> None:
        """Write what waits, and let go."""
        async with self._opening:
            self._is_closed = True
            if self._pool is not None:
                await self._pool.close()

    @contextlib.asynccontextmanager
    async def _connection(self) -> Any:
        if self._pool is None or self._is_closed:
            await self.open()
        assert self._pool is not None
        try:
            db = await self._pool.acquire()
        except Exception as problem:
            raise not_connected(problem) from None
        try:
            yield db
        finally:
            await self._pool.release(db)


def notice_death(link: Any) -> None:
    """Have the system look whether the other side of a connection is there while nothing comes from
    it."""
    with contextlib.suppress(
        OSError
    ):  # a socket of this machine has no such settings, and needs none
        link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _ALIVE.items():
            if (
                option := getattr(socket, name, None)
            ) is not None:  # not every system has all of them
                link.setsockopt(socket.IPPROTO_TCP, option, value)


def open_postgres(url: str, folder: Path) -> Store:
    """The store of a database; the data folder holds the secret under which digests are made."""
    return PostgresStore(url, folder)


def _not_opened(problem: Exception) -> Exception:
    """Why there is no connection; an address that cannot be read is told as such, and never
    shown."""
    if isinstance(problem, ValueError) and not isinstance(problem, asyncpg.exceptions.DataError):
        return StoreError(
            "the address of the database cannot be read",
            help="it reads as in postgresql://user@host:5432/name",
            code="store.open",
        )
    told = not_connected(problem)
    return told if isinstance(told, StoreError) else away()


async def _pepper(db: asyncpg.Connection, folder: Path) -> bytes:
    """The secret under which digests are made: the same file on every node, and not in the
    database."""
    path = folder / PEPPER
    async with db.transaction():
        await db.execute("LOCK TABLE settings IN EXCLUSIVE MODE")
        known, pepper = await _pg_people.setting(db, "store.pepper"), read_optional(path)
        if known is None:
            pepper = pepper or _new_pepper(path)
            await _pg_people.set_setting(db, "store.pepper", tokens.fingerprint(pepper))
        elif pepper is None or tokens.fingerprint(pepper) != known:
            raise StoreError(
                f"the file {PEPPER} of this database is not in the data folder: no key could be checked",
                where=str(folder),
                help=f"copy the file {PEPPER} from the data folder of the first node",
                code="store.pepper",
            )
    return pepper


def _new_pepper(path: Path) -> bytes:
    if not make_folder(path.parent):
        raise StoreError(
            "the data folder cannot be made or written",
            where=str(path.parent),
            help="name another one, or give this user the right to write there",
            code="store.read-only",
        )
    pepper = os.urandom(32)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        out.write(pepper)
        out.flush()
        os.fsync(out.fileno())
    return pepper
