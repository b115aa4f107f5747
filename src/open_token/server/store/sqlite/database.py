"""The data folder and its SQLite database.

One process opens it at a time, one thread writes, several read.
"""

import contextlib
import os
import sqlite3
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from open_token.errors import OpenTokenError, StoreError
from open_token.server.store import tokens
from open_token.server.store.errors import damaged_error, translate_error
from open_token.server.store.sqlite import shares
from open_token.server.store.sqlite.readers import ReadConnection, Readers
from open_token.server.store.sqlite.schema import migrate
from open_token.server.store.sqlite.writer import Writer
from open_token.storage.files import (
    load_or_create_secret,
    make_folder,
    read_optional,
    remove_leftovers,
    try_lock,
)

P = ParamSpec("P")
T = TypeVar("T")

DATABASE = "server.db"
LOCK = "lock"
PEPPER = "pepper"
BLOBS = "blobs"
_MIN_SQLITE = (3, 37)
_BUSY_TIMEOUT = 10.0
_READERS = 4


class Database:
    """The synchronous core of the store, with the threads that read and write."""

    def __init__(self, folder: Path) -> None:
        _check_sqlite()
        self.folder = folder
        with contextlib.ExitStack() as opened:
            if not (make_folder(folder) and make_folder(folder / BLOBS)):
                raise StoreError(
                    "cannot create or write the data folder",
                    where=str(folder),
                    help="choose another folder, or give this user write permission",
                    code="store.read-only",
                )
            _take_lock(folder, opened)
            try:
                db = opened.enter_context(contextlib.closing(_open_to_write(folder)))
                self.pepper = _load_pepper(db, folder)
            except (sqlite3.Error, OSError) as problem:
                raise translate_error(problem, folder) from None
            remove_leftovers(folder / BLOBS, ".")
            self.writer = Writer(db, folder)
            opened.callback(self._tidy_up, db)
            opened.callback(self.writer.close)
            self.readers = Readers(lambda: connect_to_read(folder), folder, _READERS)
            opened.callback(self.readers.close)
            self._opened = opened.pop_all()

    def write(
        self,
        function: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run a function that writes, and wait for the commit."""
        result: T = self.writer.write(lambda db: function(db, *args, **kwargs))
        return result

    def read(
        self,
        function: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run a function that reads, on one snapshot of the database."""
        result: T = self.readers.read(lambda db: function(db, *args, **kwargs))
        return result

    def close(self) -> None:
        """Finish pending writes and release the folder; closing twice is harmless."""
        self._opened.close()

    def _tidy_up(self, db: sqlite3.Connection) -> None:
        # If this fails, the write-ahead log is read at the next start.
        with contextlib.suppress(sqlite3.Error):
            db.execute("PRAGMA optimize")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def connect_to_read(folder: Path) -> ReadConnection:
    """Open a read-only connection."""
    path = urllib.parse.quote(str((folder / DATABASE).absolute()))
    db = sqlite3.connect(
        f"file:{path}?mode=ro",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        factory=ReadConnection,
    )
    db.execute(f"PRAGMA busy_timeout = {int(_BUSY_TIMEOUT * 1000)}")
    db.execute("PRAGMA query_only = ON")
    db.execute("PRAGMA cache_size = -16384")
    return db


def _open_to_write(folder: Path) -> sqlite3.Connection:
    path = folder / DATABASE
    # Create the file with a private mode, which SQLite uses for its journal files too.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    db = sqlite3.connect(
        path,
        timeout=_BUSY_TIMEOUT,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )
    try:
        if db.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
            raise StoreError(
                "the file system does not support SQLite's write-ahead log",
                where=str(folder),
                help="choose a data folder on a local disk",
                code="store.open",
            )
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("PRAGMA cache_size = -65536")
        # Rare checkpoints: a page that changes often is copied back less often.
        db.execute("PRAGMA wal_autocheckpoint = 8000")
        db.execute("PRAGMA journal_size_limit = 67108864")
        migrate(db)
    except BaseException:
        db.close()
        raise
    return db


def _check_sqlite() -> None:
    if sqlite3.sqlite_version_info < _MIN_SQLITE:
        required = ".".join(map(str, _MIN_SQLITE))
        raise StoreError(
            f"SQLite {sqlite3.sqlite_version} is too old",
            help=f"use a Python with SQLite {required} or newer",
            code="store.sqlite",
        )


def _take_lock(folder: Path, opened: contextlib.ExitStack) -> None:
    path = folder / LOCK
    try:
        has_lock = opened.enter_context(try_lock(path))
    except OpenTokenError as problem:
        raise StoreError(
            problem.what, where=str(path), help=problem.help, code="store.read-only"
        ) from None
    if not has_lock:
        holder = (read_optional(path) or b"").decode(errors="replace").strip()
        process = f" (process {holder})" if holder.isdigit() else ""
        raise StoreError(
            f"another server uses this data folder{process}",
            where=str(folder),
            help="stop it first, or choose another folder",
            code="store.locked",
        )
    with contextlib.suppress(OSError), path.open("wb") as out:
        out.write(b"%d\n" % os.getpid())


def _load_pepper(db: sqlite3.Connection, folder: Path) -> bytes:
    """Return the pepper of stored secrets.

    It is kept outside the database, so that a copy of the database alone is useless.
    """
    path = folder / PEPPER
    fingerprint = shares.get_setting(db, "store.pepper")
    if fingerprint is None:
        pepper = load_or_create_secret(path)
        shares.set_setting(db, "store.pepper", tokens.hash_pepper(pepper))
        return pepper
    stored = read_optional(path)
    if not stored or tokens.hash_pepper(stored) != fingerprint:
        raise damaged_error(
            f"the file {PEPPER} is missing or was replaced, so keys cannot be checked", folder
        )
    return stored
