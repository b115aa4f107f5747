"""The database of the search index: sessions, their redacted text, and an FTS5 table over it.

Texts are stored compressed in blocks of several events. The FTS5 table stores neither texts nor
positions (`content=''`, `detail=none`): that makes it a third of the usual size. It answers which
events contain all words of a query; phrases are then checked in the texts.

Everything here can be rebuilt from the sessions, so a database of another version, or one that is
damaged, is replaced.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from open_token.errors import InputError, OutputError
from open_token.storage.files import make_folder, remove_file

FILE_NAME = "index.sqlite"
SCHEMA_VERSION = 2

# Another process may be writing a large session.
_BUSY_SECONDS = 30.0
_SUFFIXES = ("", "-wal", "-shm")

_SCHEMA = """
CREATE TABLE session (
    id INTEGER PRIMARY KEY,
    path TEXT NOT NULL,
    conversation TEXT NOT NULL,
    reader TEXT NOT NULL,
    session_id TEXT NOT NULL,
    title TEXT NOT NULL,
    cwd TEXT NOT NULL,
    branch TEXT NOT NULL,
    started REAL,
    modified REAL NOT NULL,
    bytes INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    related TEXT NOT NULL,
    related_stamp TEXT NOT NULL,
    options TEXT NOT NULL,
    events INTEGER NOT NULL,
    prompts INTEGER NOT NULL,
    calls INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    added INTEGER NOT NULL,
    removed INTEGER NOT NULL,
    masked INTEGER NOT NULL,
    origin TEXT NOT NULL,
    characters INTEGER NOT NULL,
    error TEXT NOT NULL,
    UNIQUE (path, conversation)
);
CREATE TABLE block (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    number INTEGER NOT NULL,
    first_event INTEGER NOT NULL,
    events INTEGER NOT NULL,
    digest BLOB NOT NULL,
    text BLOB NOT NULL,
    UNIQUE (session, number)
);
CREATE TABLE event (
    id INTEGER PRIMARY KEY,
    block INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    event_id TEXT,
    role INTEGER NOT NULL,
    tool TEXT,
    path TEXT,
    ts REAL,
    start INTEGER NOT NULL,
    length INTEGER NOT NULL
);
CREATE TABLE usage (
    session INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    ts REAL,
    model TEXT NOT NULL,
    input INTEGER NOT NULL,
    cache_read INTEGER NOT NULL,
    cache_write INTEGER NOT NULL,
    output INTEGER NOT NULL,
    reasoning INTEGER NOT NULL,
    PRIMARY KEY (session, seq)
) WITHOUT ROWID;
CREATE TABLE call (
    session INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    ts REAL,
    tool TEXT NOT NULL,
    has_failed INTEGER NOT NULL,
    PRIMARY KEY (session, seq)
) WITHOUT ROWID;
CREATE VIRTUAL TABLE word USING fts5 (
    text, content = '', detail = none, columnsize = 0,
    tokenize = "unicode61 remove_diacritics 0"
);
"""


def open_database(folder: Path) -> sqlite3.Connection:
    """Open the index in a cache folder for reading and writing; create or replace it if needed."""
    path = folder / FILE_NAME
    if not make_folder(folder):
        raise OutputError(
            "the folder of the search index cannot be written",
            where=str(folder),
            help="check its permissions, or set OPEN_TOKEN_HOME to another folder",
        )
    for attempt in range(2):
        database = None
        try:
            database = _connect(path)
            if _prepare(database):
                return database
        except sqlite3.OperationalError as problem:
            # Locked, read-only or a full disk: the database itself may be fine.
            if database is not None:
                database.close()
            raise _cannot_use(path, problem) from None
        except sqlite3.DatabaseError:
            pass  # damaged, or not a database at all
        if database is not None:
            database.close()
        if attempt == 0:
            remove_database(folder)
    raise OutputError(
        "the search index cannot be created",
        where=str(path),
        help="remove the file, and check that Python's SQLite has FTS5",
    )


def _connect(path: Path) -> sqlite3.Connection:
    # Created here with its mode, because SQLite would let others read it.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    database = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
    # Write-ahead log: readers never wait for a writer. Synchronous NORMAL: a power cut may lose the
    # last sessions that were indexed, never the consistency of the file.
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = NORMAL")
    database.execute("PRAGMA mmap_size = 268435456")
    return database


def _prepare(database: sqlite3.Connection) -> bool:
    """Create the tables of an empty database; return False for one of another version."""
    version = int(database.execute("PRAGMA user_version").fetchone()[0])
    if version == SCHEMA_VERSION:
        return True
    if version != 0:
        return False
    with transaction(database):
        # Another process may have created them since.
        if int(database.execute("PRAGMA user_version").fetchone()[0]) == 0:
            for statement in _SCHEMA.strip().split(";\n"):
                database.execute(statement)
            database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    return True


def remove_database(folder: Path) -> bool:
    """Remove the index; return whether there was one."""
    existed = (folder / FILE_NAME).exists()
    for suffix in _SUFFIXES:
        remove_file(folder / (FILE_NAME + suffix))
    return existed


def measure_database(folder: Path) -> int:
    """Return the size of the index in bytes."""
    size = 0
    for suffix in _SUFFIXES:
        with contextlib.suppress(OSError):
            size += (folder / (FILE_NAME + suffix)).stat().st_size
    return size


@contextlib.contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[None]:
    """Write everything in the block, or nothing."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        database.execute("ROLLBACK")
        raise
    database.execute("COMMIT")


def _cannot_use(path: Path, problem: sqlite3.Error) -> InputError:
    return InputError(
        f"the search index cannot be used: {problem}",
        where=str(path),
        help="try again; `open-token index --remove` deletes it",
        code="index.unusable",
    )
