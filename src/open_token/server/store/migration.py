"""Migrate all data of a server between a data folder and PostgreSQL.

A migration is atomic, and verified by hashes of both sides.
"""

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import AsyncIterator, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
from msgspec import Struct

from open_token.errors import StoreError
from open_token.server.store.backup import check
from open_token.server.store.postgres import schema
from open_token.server.store.postgres.errors import translate_error
from open_token.server.store.postgres.search_terms import to_stored_words
from open_token.server.store.sqlite import blobs
from open_token.server.store.sqlite.database import BLOBS, PEPPER, Database
from open_token.storage.files import atomic_folder

_BATCH_SIZE = 1000
_encode = msgspec.json.Encoder(order="sorted").encode


class Table(Struct, frozen=True):
    """A table that both stores have: its shared columns, its sort key, and its index in SQLite."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    words: str | None = None
    booleans: tuple[str, ...] = ()

    def with_booleans(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return a row with booleans instead of 0 and 1."""
        if not self.booleans:
            return row
        values = list(row)
        for index, name in enumerate(self.columns):
            if name in self.booleans:
                values[index] = bool(values[index])
        return tuple(values)


def _table(
    name: str, columns: str, key: str, words: str | None = None, booleans: tuple[str, ...] = ()
) -> tuple[str, Table]:
    column_names = tuple(columns.split())
    key_names = tuple(key.split())
    return name, Table(name, column_names, key_names, words, booleans)


# Tables that others refer to come first.
TABLES: dict[str, Table] = dict(
    (
        _table("settings", "key value", "key"),
        _table(
            "users",
            "number id name role created_at disabled_at sessions_held sessions_made body",
            "number",
        ),
        _table(
            "api_keys",
            "id user_id name digest last4 scope created_at last_used_at revoked_at",
            "created_at id",
        ),
        _table(
            "sessions",
            "number id owner intent status created_at updated_at is_pinned head stream_sequence "
            "next_entry projected_sequence body",
            "number",
            "intent_words",
            ("is_pinned",),
        ),
        _table("log", "session seq at kind data", "session seq"),
        _table("client_messages", "session id first last run_id", "session id"),
        _table(
            "turns", "place session id turn_id parent_id patch_sequence body", "place", "turn_words"
        ),
        _table("checkpoints", "session id turn_id parent_id label created_at seq", "session id"),
        _table("blobs", "sha256 session", "sha256 session"),
        _table("shares", "digest session created_at expires_at body", "digest"),
        _table(
            "memories",
            "id user_id type content skill_name record_type scope owner topic mem0_id "
            "superseded_by write_reason created_at updated_at hit_count last_hit_at disabled "
            "source_session",
            "id",
            "memory_words",
            ("disabled",),
        ),
        _table(
            "runs",
            "id session status body created_at started_at finished_at worker lease_until "
            "fencing_token attempts error",
            "created_at id",
        ),
        _table(
            "scheduled_tasks",
            "id owner title prompt cron timezone enabled expires_at skip_confirmations model "
            "next_fire created_at updated_at body",
            "created_at id",
            None,
            ("enabled", "skip_confirmations"),
        ),
        _table(
            "scheduled_runs",
            "id task_id fire_at session_id status error triggered_at finished_at",
            "task_id fire_at",
        ),
    )
)


class MigrationReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was migrated: the number of rows of each table, and the hash that both sides have."""

    rows: dict[str, int]
    hashes: dict[str, str]
    blobs: int


class Digest:
    """The hash of a table, over its rows in the order of their keys."""

    def __init__(self) -> None:
        self.count = 0
        self._hash = hashlib.sha256()

    def add(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Add rows."""
        for row in rows:
            self.count += 1
            values = [value.hex() if isinstance(value, bytes) else value for value in row]
            self._hash.update(_encode(values) + b"\n")

    def hex(self) -> str:
        """Return the hash of the rows so far."""
        return self._hash.hexdigest()


async def to_postgres(folder: Path, url: str) -> MigrationReport:
    """Copy a data folder, on which no server may run, into an empty database."""
    problems = check(folder, is_deep=True)
    if problems:
        raise StoreError(
            f"the data are damaged: {problems[0]}", where=str(folder), code="store.damaged"
        )
    # One transaction, compared before it is committed: a migration that fails or differs leaves
    # the database as empty as it was.
    with contextlib.closing(Database(folder)) as source:
        async with _connect(url) as db, db.transaction():
            await schema.migrate(db)
            if await db.fetchval("SELECT 1 FROM settings LIMIT 1"):
                raise _build_not_empty_error()
            blob_count = await _copy_blobs_in(db, source)
            before = {}
            counts = {}
            for name, table in TABLES.items():
                digest = Digest()
                for rows in map(_replace_nul, _read_sqlite_rows(source, table)):
                    digest.add(rows)
                    await _insert_into_postgres(db, table, source, rows)
                before[name] = digest.hex()
                counts[name] = digest.count
            await _finish_postgres(db, source)
            after = {name: await _hash_postgres_table(db, table) for name, table in TABLES.items()}
            _require_equal(before, after)
            return MigrationReport(rows=counts, hashes=before, blobs=blob_count)


async def to_folder(url: str, folder: Path, pepper: Path) -> MigrationReport:
    """Copy a consistent snapshot of a database and the pepper into a new data folder."""
    # Servers go on writing meanwhile: one transaction in repeatable read sees a single moment. The
    # folder appears under its name only after the copy was compared and checked.
    with atomic_folder(folder, is_private=True) as copy_folder:
        _copy_private(pepper, copy_folder / PEPPER)
        async with (
            _connect(url) as db,
            db.transaction(isolation="repeatable_read", readonly=True),
        ):
            before = {}
            counts = {}
            with contextlib.closing(_open_empty_folder(copy_folder)) as target:
                for name, table in TABLES.items():
                    digest = Digest()
                    async for rows in _read_postgres_rows(db, table):
                        digest.add([row[: len(table.columns)] for row in rows])
                        target.write(_insert_into_sqlite, table, rows)
                    before[name] = digest.hex()
                    counts[name] = digest.count
                blob_count = await _copy_blobs_out(db, copy_folder / BLOBS)
                after = {name: _hash_sqlite_table(target, table) for name, table in TABLES.items()}
            _require_equal(before, after)
        problems = check(copy_folder, is_deep=True)
        if problems:
            raise StoreError(
                f"the copy is damaged: {problems[0]}", where=str(folder), code="store.damaged"
            )
        return MigrationReport(rows=counts, hashes=before, blobs=blob_count)


@contextlib.asynccontextmanager
async def _connect(url: str) -> AsyncIterator[asyncpg.Connection]:
    try:
        db = await asyncpg.connect(url, timeout=10)
    except Exception as problem:
        raise translate_error(problem) from None
    try:
        yield db
    except StoreError:
        raise
    except asyncpg.PostgresError as problem:
        raise translate_error(problem) from None
    finally:
        await db.close()


def _fetch_all(
    connection: sqlite3.Connection, sql: str, parameters: tuple[Any, ...]
) -> list[tuple[Any, ...]]:
    return connection.execute(sql, parameters).fetchall()


def _read_sqlite_rows(source: Database, table: Table) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the rows of a table in the order of their keys, in batches that fit into memory."""
    keys = ", ".join(table.key)
    after: tuple[Any, ...] | None = None
    places = [table.columns.index(name) for name in table.key]
    while True:
        if after is None:
            where = ""
        else:
            where = f"WHERE ({keys}) > ({', '.join('?' * len(places))})"
        sql = f"""SELECT {", ".join(table.columns)} FROM {table.name} {where}
            ORDER BY {keys} LIMIT {_BATCH_SIZE}"""
        rows = source.read(partial(_fetch_all, sql=sql, parameters=after or ()))
        if not rows:
            return
        yield [table.with_booleans(row) for row in rows]
        after = tuple(rows[-1][place] for place in places)


async def _read_postgres_rows(
    db: asyncpg.Connection, table: Table
) -> AsyncIterator[list[tuple[Any, ...]]]:
    columns = [*table.columns, *(["words"] if table.words else [])]
    sql = f"SELECT {', '.join(columns)} FROM {table.name} ORDER BY {', '.join(table.key)}"
    batch: list[tuple[Any, ...]] = []
    async for row in db.cursor(sql, prefetch=_BATCH_SIZE):
        batch.append(tuple(row))
        if len(batch) == _BATCH_SIZE:
            yield batch
            batch = []
    yield batch


async def _insert_into_postgres(
    db: asyncpg.Connection, table: Table, source: Database, rows: list[tuple[Any, ...]]
) -> None:
    columns = list(table.columns)
    if table.words:
        words = _read_words(source, table, rows)
        rows = [(*row, text) for row, text in zip(rows, words, strict=True)]
        columns.append("words")
    # A memory may be superseded by one that is inserted later.
    if table.name == "memories":
        place = columns.index("superseded_by")
        rows = [(*row[:place], None, *row[place + 1 :]) for row in rows]
    await db.copy_records_to_table(table.name, records=rows, columns=columns)


def _replace_nul(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Replace NUL characters, which PostgreSQL texts cannot hold; logs have them as escapes."""
    cleaned: list[tuple[Any, ...]] = []
    for row in rows:
        values = list(row)
        for index, value in enumerate(values):
            if isinstance(value, str):
                values[index] = value.replace("\0", "\ufffd")
        cleaned.append(tuple(values))
    return cleaned


def _read_words(source: Database, table: Table, rows: list[tuple[Any, ...]]) -> list[str | None]:
    """Return the search words of rows, from the full-text index of SQLite."""
    # One JSON parameter instead of a list of them, whose number SQLite limits.
    place = table.columns.index(table.key[0])
    numbers = [row[place] for row in rows]
    parameter = msgspec.json.encode(numbers).decode()
    sql = f"SELECT rowid, words FROM {table.words} WHERE rowid IN (SELECT value FROM json_each(?))"
    found = source.read(lambda db: db.execute(sql, (parameter,)).fetchall())
    known: dict[int, str] = dict(found)
    missing = None if table.name == "turns" else ""
    words: list[str | None] = []
    for number in numbers:
        text = known.get(number)
        if text is None:
            words.append(missing)
        else:
            words.append(to_stored_words(text))
    return words


async def _finish_postgres(db: asyncpg.Connection, source: Database) -> None:
    """Set what cannot be copied row by row: superseded memories, and the next numbers."""
    pairs = source.read(
        lambda lite: lite.execute(
            "SELECT superseded_by, id FROM memories WHERE superseded_by IS NOT NULL"
        ).fetchall()
    )
    await db.executemany("UPDATE memories SET superseded_by = $1 WHERE id = $2", pairs)
    used = source.read(
        lambda lite: (
            lite.execute("SELECT seq FROM sqlite_sequence WHERE name = 'memories'").fetchone()
            or (0,)
        )
    )[0]
    for table, column, least in (("memories", "id", used), ("users", "number", 0)):
        last = max(least, await db.fetchval(f"SELECT coalesce(max({column}), 0) FROM {table}"))
        if last:
            await db.execute(
                f"SELECT setval(pg_get_serial_sequence('{table}', '{column}'), $1)", last
            )


def _open_empty_folder(folder: Path) -> Database:
    """Open a new data folder without its initial rows and without foreign key checks."""
    target = Database(folder)
    target.writer.write(lambda db: db.execute("DELETE FROM settings"))
    db = target.writer._db
    # Only possible outside of a transaction; `check` verifies the references at the end.
    db.execute("PRAGMA foreign_keys = OFF")
    return target


def _insert_into_sqlite(db: Any, table: Table, rows: list[tuple[Any, ...]]) -> None:
    count = len(table.columns)
    places = ", ".join("?" * count)
    bare = [row[:count] for row in rows]
    columns = ", ".join(table.columns)
    db.executemany(f"INSERT INTO {table.name} ({columns}) VALUES ({places})", bare)
    if not table.words:
        return
    # The words follow the columns; SQLite keeps them in a full-text index of their own.
    key_place = table.columns.index(table.key[0])
    known: list[tuple[Any, str]] = []
    for row in rows:
        words = row[count]
        if words is not None:
            known.append((row[key_place], words.strip()))
    db.executemany(f"INSERT INTO {table.words} (rowid, words) VALUES (?, ?)", known)


def _hash_sqlite_table(source: Database, table: Table) -> str:
    digest = Digest()
    for rows in _read_sqlite_rows(source, table):
        digest.add(rows)
    return digest.hex()


async def _hash_postgres_table(db: asyncpg.Connection, table: Table) -> str:
    digest = Digest()
    async for rows in _read_postgres_rows(db, table):
        digest.add([row[: len(table.columns)] for row in rows])
    return digest.hex()


async def _copy_blobs_in(db: asyncpg.Connection, source: Database) -> int:
    names: list[str] = source.read(blobs.list_referenced)
    for sha256 in names:
        data = blobs.read_blob(source.folder / BLOBS, sha256)
        await db.execute("INSERT INTO blob_data (sha256, data) VALUES ($1, $2)", sha256, data)
    return len(names)


async def _copy_blobs_out(db: asyncpg.Connection, folder: Path) -> int:
    names = [
        name for (name,) in await db.fetch("SELECT DISTINCT sha256 FROM blobs ORDER BY sha256")
    ]
    for sha256 in names:
        data = await db.fetchval("SELECT data FROM blob_data WHERE sha256 = $1", sha256)
        if blobs.write_blob(folder, data, "").sha256 != sha256:
            raise StoreError(
                f"the blob {sha256[:12]} does not match its hash", code="store.damaged"
            )
    return len(names)


def _copy_private(source: Path, target: Path) -> None:
    try:
        pepper = source.read_bytes()
    except OSError:
        raise StoreError(
            f"the file {PEPPER} cannot be read, so keys could not be checked",
            where=str(source),
            help="give the data folder of a node of that database",
            code="store.pepper",
        ) from None
    with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        out.write(pepper)


def _require_equal(before: dict[str, str], after: dict[str, str]) -> None:
    wrong = [name for name, value in before.items() if after[name] != value]
    if wrong:
        raise StoreError(
            f"the copy of {wrong[0]} differs from its source",
            help="nothing was written",
            code="store.damaged",
        )


def _build_not_empty_error() -> StoreError:
    return StoreError(
        "the database already contains server data",
        help="choose an empty database; nothing was written",
        code="store.used",
    )
