"""The store in PostgreSQL, for servers of several nodes that share one database."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import asyncpg

from open_token.errors import StoreError
from open_token.server.store import migration, tokens
from open_token.server.store.interface import Store
from open_token.server.store.postgres import blobs, log, schema
from open_token.server.store.postgres import memories as memory_queries
from open_token.server.store.postgres import runs as run_queries
from open_token.server.store.postgres import schedules as schedule_queries
from open_token.server.store.postgres import sessions as session_queries
from open_token.server.store.postgres import users as user_queries
from open_token.server.store.postgres.errors import (
    RETRYABLE,
    connection_error,
    translate_error,
    unavailable_error,
)
from open_token.server.store.rows import Appended, Caller, KeyRow, Scope, SessionWrite, Share
from open_token.server.store.sqlite.database import PEPPER
from open_token.server.store.sqlite.users import build_key, should_record_use
from open_token.storage.files import load_or_create_secret, make_folder, read_optional

P = ParamSpec("P")
T = TypeVar("T")
Method = Callable[Concatenate["PostgresStore", P], Coroutine[Any, Any, T]]

CONNECTIONS = 8
_MAX_ATTEMPTS = 5
_COMMAND_TIMEOUT = 60.0
"""The timeout of one command; a large blob or a new index may need this long."""
_KEEPALIVE = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 20_000}
"""Keepalive settings: a connection to a vanished machine is given up after 20 seconds."""
# A node that is paused or cut off during a write must not hold the locks of its session forever.
_SETTINGS = {"application_name": "open-token", "idle_in_transaction_session_timeout": "10s"}


def _write_method(
    function: Callable[Concatenate[asyncpg.Connection, P], Awaitable[T]],
) -> Method[P, T]:
    """Make a method of a query function that writes; it returns after the commit."""

    async def method(self: "PostgresStore", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.write(lambda db: function(db, *args, **kwargs))

    return method


def _read_method(
    function: Callable[Concatenate[asyncpg.Connection, P], Awaitable[T]],
) -> Method[P, T]:
    """Make a method of a function of one query."""

    async def method(self: "PostgresStore", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.read(lambda db: function(db, *args, **kwargs))

    return method


def _snapshot_method(
    function: Callable[Concatenate[asyncpg.Connection, P], Awaitable[T]],
) -> Method[P, T]:
    """Make a method of a function of several queries, which see one snapshot of the data."""

    async def method(self: "PostgresStore", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.view(lambda db: function(db, *args, **kwargs))

    return method


class _Connection(asyncpg.Connection):  # type: ignore[misc]
    """A connection that needs no reset when it returns to the pool, which saves a round trip."""

    def __init__(self, protocol: Any, transport: Any, *rest: Any) -> None:
        super().__init__(protocol, transport, *rest)
        connection = transport.get_extra_info("socket")
        if connection is not None:
            enable_keepalive(connection)

    def get_reset_query(self) -> str:
        """Return the statement that is run when it returns to the pool."""
        return ""


class PostgresStore:
    """The store of a database; it connects on first use."""

    def __init__(self, url: str, folder: Path, connections: int = CONNECTIONS) -> None:
        self._url = url
        self._folder = folder
        self._connections = connections
        self._pool: asyncpg.Pool | None = None
        self._open_lock = asyncio.Lock()
        self._pepper = b""
        self._is_closed = False

    read_log = _read_method(log.read_log)
    session = _read_method(session_queries.get_session)
    progress = _read_method(session_queries.get_progress)
    get_heads = _read_method(session_queries.get_heads)
    delete_session = _write_method(session_queries.delete_session)
    turns = _snapshot_method(session_queries.list_turns)
    checkpoints = _read_method(session_queries.list_checkpoints)
    sessions = _snapshot_method(session_queries.list_sessions)
    put_blob = _write_method(blobs.write_blob)
    read_blob = _read_method(blobs.read_blob)
    count_bytes = _read_method(blobs.count_bytes)
    sweep_blobs = _write_method(blobs.sweep_blobs)

    add_user = _write_method(user_queries.add_user)
    user = _read_method(user_queries.get_user)
    disable_user = _write_method(user_queries.disable_user)
    delete_user = _write_method(user_queries.delete_user)
    keys = _read_method(user_queries.list_keys)
    rename_key = _write_method(user_queries.rename_key)
    revoke_key = _write_method(user_queries.revoke_key)

    add_memory = _write_method(memory_queries.add_memory)
    memory = _read_method(memory_queries.get_memory)
    change_memory = _write_method(memory_queries.change_memory)
    delete_memories = _write_method(memory_queries.delete_memories)
    disable_memories = _write_method(memory_queries.disable_memories)
    find_relevant_memories = _read_method(memory_queries.find_relevant_memories)
    record_memory_hits = _write_method(memory_queries.record_hits)
    memories = _snapshot_method(memory_queries.list_memories)

    time = _read_method(run_queries.get_database_time)
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
    fire_task = _write_method(schedule_queries.fire_task)
    list_task_runs = _snapshot_method(schedule_queries.list_task_runs)

    setting = _read_method(user_queries.get_setting)
    set_setting = _write_method(user_queries.set_setting)
    replace_setting = _write_method(user_queries.replace_setting)
    list_settings = _read_method(user_queries.list_settings)
    take_setting = _write_method(user_queries.take_setting)
    users = _read_method(user_queries.list_users)
    check = _snapshot_method(blobs.check_blobs)

    async def append(self, write: SessionWrite) -> Appended:
        """Write to a session atomically; raise ConflictError, NotFoundError or FencedError."""
        if log.is_single_statement(write):
            appended = await self.write(
                lambda db: log.append_in_one_statement(db, write), is_one=True
            )
            if appended is not None:
                return appended
        return await self.write(lambda db: log.append_write(db, write))

    async def write(
        self, work: Callable[[asyncpg.Connection], Awaitable[T]], *, is_one: bool = False
    ) -> T:
        """Run a function in a transaction, and retry it after a serialization failure.

        A function of one statement (`is_one`) needs no explicit transaction.
        """
        for left in reversed(range(_MAX_ATTEMPTS)):
            try:
                async with self._connection() as db:
                    if is_one:
                        return await work(db)
                    async with db.transaction():
                        return await work(db)
            except RETRYABLE as problem:
                if not left:
                    raise translate_error(problem) from None
            except Exception as problem:
                raise translate_error(problem) from None
        raise AssertionError

    async def read(self, work: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
        """Run a function of one query."""
        try:
            async with self._connection() as db:
                return await work(db)
        except Exception as problem:
            raise translate_error(problem) from None

    async def view(self, work: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
        """Run a function of several queries on one snapshot of the data."""
        try:
            async with (
                self._connection() as db,
                db.transaction(isolation="repeatable_read", readonly=True),
            ):
                return await work(db)
        except Exception as problem:
            raise translate_error(problem) from None

    async def add_key(self, user_id: str, name: str, scope: Scope, at: str) -> tuple[KeyRow, str]:
        """Create a key; its plain text is only returned here."""
        key, plaintext = build_key(user_id, name, scope, at)
        await self.write(
            lambda db: user_queries.add_key(db, key, tokens.hash_secret(self._pepper, plaintext))
        )
        return key, plaintext

    async def check_key(self, plaintext: str, at: str) -> Caller | None:
        """Return the owner of a valid key; its use is recorded once a minute."""
        key_id = tokens.parse_key_id(plaintext)
        if key_id is None:
            return None
        caller = await self.read(
            lambda db: user_queries.find_key(
                db, key_id, tokens.hash_secret(self._pepper, plaintext)
            )
        )
        if caller is not None and should_record_use(caller.key, at):
            # A full disk must not keep anybody from reading.
            with contextlib.suppress(StoreError):
                await self.write(lambda db: user_queries.record_key_use(db, key_id, at))
        return caller

    async def sign(self, text: str) -> bytes:
        """Return a signature of a text by the pepper."""
        return tokens.hash_secret(self._pepper, text)

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
        await self.write(
            lambda db: user_queries.add_share(db, share, tokens.hash_secret(self._pepper, token))
        )
        return token

    async def share(self, token: str, now: str) -> Share | None:
        """Return the share of a token unless it has expired."""
        return await self.read(
            lambda db: user_queries.find_share(db, tokens.hash_secret(self._pepper, token), now)
        )

    async def revoke_share(self, owner: str, session_id: str, token: str | None = None) -> int:
        """Revoke one share of a session, or all of them; return the count."""

        def revoke(db: asyncpg.Connection) -> Awaitable[int]:
            # The pepper is known once the store has connected.
            digest = None if token is None else tokens.hash_secret(self._pepper, token)
            return user_queries.revoke_share(db, owner, session_id, digest)

        return await self.write(revoke)

    async def backup(self, target: Path) -> None:
        """Copy a consistent snapshot of all data into a new data folder, during operation."""
        copied = migration.to_folder(self._url, target, self._folder / PEPPER)
        # A separate event loop, because the copy is written to a local disk.
        await asyncio.to_thread(asyncio.run, copied)

    async def open(self) -> None:
        """Connect, and migrate the tables to the newest version."""
        async with self._open_lock:
            if self._is_closed:
                raise StoreError("the store is closed", code="store.closed")
            if self._pool is not None:
                return
            try:
                pool = await asyncpg.create_pool(
                    self._url,
                    min_size=1,
                    max_size=self._connections,
                    command_timeout=_COMMAND_TIMEOUT,
                    timeout=10.0,
                    connection_class=_Connection,
                    server_settings=_SETTINGS,
                )
            except Exception as problem:
                raise _build_open_error(problem) from None
            # The pool is published only after the migration: nobody reads old tables.
            try:
                async with pool.acquire() as db:
                    await schema.migrate(db)
                    self._pepper = await _load_pepper(db, self._folder)
            except Exception as problem:
                await pool.close()
                raise translate_error(problem) from None
            except BaseException:
                await pool.close()
                raise
            self._pool = pool

    async def close(self) -> None:
        """Finish pending writes and close."""
        async with self._open_lock:
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
            raise connection_error(problem) from None
        try:
            yield db
        finally:
            await self._pool.release(db)


def enable_keepalive(link: Any) -> None:
    """Enable TCP keepalive, so that a vanished peer is noticed on an idle connection."""
    # A Unix socket has no such options, and does not need them.
    with contextlib.suppress(OSError):
        link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE.items():
            option = getattr(socket, name, None)  # not every system has all of them
            if option is not None:
                link.setsockopt(socket.IPPROTO_TCP, option, value)


def open_postgres(url: str, folder: Path) -> Store:
    """Open the store of a database; the data folder holds the pepper of its secrets."""
    return PostgresStore(url, folder)


def _build_open_error(problem: Exception) -> Exception:
    """Return the error of a failed connection; an invalid URL is reported but never shown."""
    if isinstance(problem, ValueError) and not isinstance(problem, asyncpg.exceptions.DataError):
        return StoreError(
            "invalid database URL",
            help="use a URL such as postgresql://user@host:5432/name",
            code="store.open",
        )
    error = connection_error(problem)
    if isinstance(error, StoreError):
        return error
    return unavailable_error()


async def _load_pepper(db: asyncpg.Connection, folder: Path) -> bytes:
    """Return the pepper of stored secrets: the same file on every node, and not in the database."""
    path = folder / PEPPER
    async with db.transaction():
        await db.execute("LOCK TABLE settings IN EXCLUSIVE MODE")
        fingerprint = await user_queries.get_setting(db, "store.pepper")
        pepper = read_optional(path)
        if fingerprint is None:
            pepper = _create_pepper(path)
            await user_queries.set_setting(db, "store.pepper", tokens.hash_pepper(pepper))
        elif not pepper or tokens.hash_pepper(pepper) != fingerprint:
            raise StoreError(
                f"the file {PEPPER} in the data folder does not belong to this database",
                where=str(folder),
                help=f"copy the file {PEPPER} from the data folder of the first node",
                code="store.pepper",
            )
    return pepper


def _create_pepper(path: Path) -> bytes:
    if not make_folder(path.parent):
        raise StoreError(
            "cannot create or write the data folder",
            where=str(path.parent),
            help="choose another folder, or give this user write permission",
            code="store.read-only",
        )
    return load_or_create_secret(path)
