"""Moves all data of a server between a data folder and PostgreSQL: all or nothing, checked by
hashes on both sides."""

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

from open_token.errors import StoreError
from open_token.server.store import _blobs, _pg_schema
from open_token.server.store._database import BLOBS, PEPPER, Database
from open_token.server.store._pg_faults import explained
from open_token.server.store._tables import TABLES, Table
from open_token.server.store._terms import stored
from open_token.server.store.backup import check
from open_token.storage.files import whole_folder

_TOGETHER = 1000
_encode = msgspec.json.Encoder(order="sorted").encode


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """What was moved: how many rows of each table, and the hash that both sides have."""

    rows: dict[str, int]
    hashes: dict[str, str]
    blobs: int


class Digest:
    """The hash of a table: of its rows in the order of their keys, so that of the logs covers each
    of them whole."""

    def __init__(self) -> None:
        self.count = 0
        self._whole = hashlib.sha256()

    def add(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Go on with more rows."""
        for row in rows:
            self.count += 1
            self._whole.update(
                _encode([value.hex() if isinstance(value, bytes) else value for value in row])
                + b"\n"
            )

    def hex(self) -> str:
        """The hash so far."""
        return self._whole.hexdigest()


async def to_postgres(folder: Path, url: str) -> Moved:
    """Copy a data folder into an empty database; the folder stays as it is, and no server may run
    on it."""
    if found := check(folder, is_deep=True):
        raise StoreError(
            f"the data are not sound: {found[0]}", where=str(folder), code="store.damaged"
        )
    with contextlib.closing(Database(folder)) as source:
        async with _connected(url) as db, db.transaction():
            await _pg_schema.migrate(db)
            if await db.fetchval("SELECT 1 FROM settings LIMIT 1"):
                raise _not_empty()
            blobs = await _copy_blobs_in(db, source)
            before, counts = {}, {}
            for name, table in TABLES.items():
                digest = Digest()
                for rows in map(_without_zeros, _sqlite_rows(source, table)):
                    digest.add(rows)
                    await _insert(db, table, source, rows)
                before[name], counts[name] = digest.hex(), digest.count
            await _settle(db, source)
            after = {name: await _postgres_hash(db, table) for name, table in TABLES.items()}
            _must_equal(before, after)
            return Moved(rows=counts, hashes=before, blobs=blobs)


async def to_folder(url: str, folder: Path, pepper: Path) -> Moved:
    """Copy a database as it is at one moment into a new data folder; the file with the pepper comes
    along."""
    with whole_folder(folder, is_private=True) as made:
        _copy_private(pepper, made / PEPPER)
        async with (
            _connected(url) as db,
            db.transaction(isolation="repeatable_read", readonly=True),
        ):
            before, counts = {}, {}
            with contextlib.closing(_emptied(made)) as target:
                for name, table in TABLES.items():
                    digest = Digest()
                    async for rows in _postgres_rows(db, table):
                        digest.add([row[: len(table.columns)] for row in rows])
                        target.write(_enter, table, rows)
                    before[name], counts[name] = digest.hex(), digest.count
                blobs = await _copy_blobs_out(db, made / BLOBS)
                after = {name: _sqlite_hash(target, table) for name, table in TABLES.items()}
            _must_equal(before, after)
        if found := check(made, is_deep=True):
            raise StoreError(
                f"the copy is not sound: {found[0]}", where=str(folder), code="store.damaged"
            )
        return Moved(rows=counts, hashes=before, blobs=blobs)


@contextlib.asynccontextmanager
async def _connected(url: str) -> AsyncIterator[asyncpg.Connection]:
    try:
        db = await asyncpg.connect(url, timeout=10)
    except Exception as problem:
        raise explained(problem) from None
    try:
        yield db
    except StoreError:
        raise
    except asyncpg.PostgresError as problem:
        raise explained(problem) from None
    finally:
        await db.close()


def _fetch_all(
    connection: sqlite3.Connection, sql: str, parameters: tuple[Any, ...]
) -> list[tuple[Any, ...]]:
    return connection.execute(sql, parameters).fetchall()


def _sqlite_rows(source: Database, table: Table) -> Iterator[list[tuple[Any, ...]]]:
    """The rows of a table in the order of their keys, in pieces that fit into memory."""
    keys = ", ".join(table.key)
    after: tuple[Any, ...] | None = None
    places = [table.columns.index(name) for name in table.key]
    while True:
        where = "" if after is None else f"WHERE ({keys}) > ({', '.join('?' * len(places))})"
        sql = f"SELECT {', '.join(table.columns)} FROM {table.name} {where} ORDER BY {keys} LIMIT {_TOGETHER}"
        rows = source.read(partial(_fetch_all, sql=sql, parameters=after or ()))
        if not rows:
            return
        yield [table.with_booleans(row) for row in rows]
        after = tuple(rows[-1][place] for place in places)


async def _postgres_rows(
    db: asyncpg.Connection, table: Table
) -> AsyncIterator[list[tuple[Any, ...]]]:
    columns = [*table.columns, *(["words"] if table.words else [])]
    sql = f"SELECT {', '.join(columns)} FROM {table.name} ORDER BY {', '.join(table.key)}"
    held: list[tuple[Any, ...]] = []
    async for row in db.cursor(sql, prefetch=_TOGETHER):
        held.append(tuple(row))
        if len(held) == _TOGETHER:
            yield held
            held = []
    yield held


async def _insert(
    db: asyncpg.Connection, table: Table, source: Database, rows: list[tuple[Any, ...]]
) -> None:
    columns = list(table.columns)
    if table.words:
        rows = [
            (*row, words) for row, words in zip(rows, _words_of(source, table, rows), strict=True)
        ]
        columns.append("words")
    if table.name == "memories":  # one may be superseded by one that comes later
        place = columns.index("superseded_by")
        rows = [(*row[:place], None, *row[place + 1 :]) for row in rows]
    await db.copy_records_to_table(table.name, records=rows, columns=columns)


def _without_zeros(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """PostgreSQL has no text with a zero character: a title with one gets a sign for it; logs have
    it as an escape."""
    return [
        tuple(value.replace("\0", "\ufffd") if isinstance(value, str) else value for value in row)
        for row in rows
    ]


def _words_of(source: Database, table: Table, rows: list[tuple[Any, ...]]) -> list[str | None]:
    """The words by which rows are found, from the index that SQLite keeps of them."""
    place = table.columns.index(table.key[0])
    numbers = msgspec.json.encode([row[place] for row in rows]).decode()
    sql = f"SELECT rowid, words FROM {table.words} WHERE rowid IN (SELECT value FROM json_each(?))"
    known: dict[int, str] = dict(source.read(lambda db: db.execute(sql, (numbers,)).fetchall()))
    words = [known.get(row[place]) for row in rows]
    return [
        stored(text) if text is not None else (None if table.name == "turns" else "")
        for text in words
    ]


async def _settle(db: asyncpg.Connection, source: Database) -> None:
    """What could not be said row by row: who is superseded, and which numbers are next."""
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


def _emptied(folder: Path) -> Database:
    """A new data folder without the rows that it begins with, and whose rows may come in any
    order."""
    target = Database(folder)
    target.writer.write(lambda db: db.execute("DELETE FROM settings"))
    db = target.writer._db
    db.execute(
        "PRAGMA foreign_keys = OFF"
    )  # outside of a transaction; `check` looks at them at the end
    return target


def _enter(db: Any, table: Table, rows: list[tuple[Any, ...]]) -> None:
    count = len(table.columns)
    places = ", ".join("?" * count)
    bare = [row[:count] for row in rows]
    db.executemany(f"INSERT INTO {table.name} ({', '.join(table.columns)}) VALUES ({places})", bare)
    if table.words:
        place = table.columns.index(table.key[0])
        known = [(row[place], row[count].strip()) for row in rows if row[count] is not None]
        db.executemany(f"INSERT INTO {table.words} (rowid, words) VALUES (?, ?)", known)


def _sqlite_hash(source: Database, table: Table) -> str:
    digest = Digest()
    for rows in _sqlite_rows(source, table):
        digest.add(rows)
    return digest.hex()


async def _postgres_hash(db: asyncpg.Connection, table: Table) -> str:
    digest = Digest()
    async for rows in _postgres_rows(db, table):
        digest.add([row[: len(table.columns)] for row in rows])
    return digest.hex()


async def _copy_blobs_in(db: asyncpg.Connection, source: Database) -> int:
    names: list[str] = source.read(_blobs.needed)
    for sha256 in names:
        data = _blobs.read(source.folder / BLOBS, sha256)
        await db.execute("INSERT INTO blob_data (sha256, data) VALUES ($1, $2)", sha256, data)
    return len(names)


async def _copy_blobs_out(db: asyncpg.Connection, folder: Path) -> int:
    names = [
        name for (name,) in await db.fetch("SELECT DISTINCT sha256 FROM blobs ORDER BY sha256")
    ]
    for sha256 in names:
        data = await db.fetchval("SELECT data FROM blob_data WHERE sha256 = $1", sha256)
        if _blobs.put(folder, data, "").sha256 != sha256:
            raise StoreError(f"the blob {sha256[:12]} is not what it was", code="store.damaged")
    return len(names)


def _copy_private(source: Path, target: Path) -> None:
    try:
        pepper = source.read_bytes()
    except OSError:
        raise StoreError(
            f"the file {PEPPER} cannot be read: no key could be checked",
            where=str(source),
            help="name the data folder of a node of that database",
            code="store.pepper",
        ) from None
    with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        out.write(pepper)


def _must_equal(before: dict[str, str], after: dict[str, str]) -> None:
    wrong = [name for name, value in before.items() if after[name] != value]
    if wrong:
        raise StoreError(
            f"the copy of {wrong[0]} is not what it was copied from",
            help="nothing was written",
            code="store.damaged",
        )


def _not_empty() -> StoreError:
    return StoreError(
        "the database holds data of a server already",
        help="name an empty one; nothing was written",
        code="store.used",
    )
