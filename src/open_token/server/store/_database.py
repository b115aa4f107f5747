"""A data folder and the database in it: opened by one process at a time, written by one thread,
read by several."""

import contextlib
import os
import sqlite3
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from open_token.errors import OpenTokenError, StoreError
from open_token.server.store import _shares, tokens
from open_token.server.store._faults import damaged, explained
from open_token.server.store._readers import Readers, Reading
from open_token.server.store._schema import migrate
from open_token.server.store._writer import Writer
from open_token.storage.files import locked, make_folder, read_optional, sweep

P = ParamSpec("P")
T = TypeVar("T")

DATABASE, LOCK, PEPPER, BLOBS = "server.db", "lock", "pepper", "blobs"
_OLDEST_SQLITE = (3, 37)
_WAIT_SECONDS = 10.0
_READERS = 4


class Database:
    """The synchronous core of the store: functions over the database run in its threads."""

    def __init__(self, folder: Path) -> None:
        _check_sqlite()
        self.folder = folder
        with contextlib.ExitStack() as opened:
            if not (make_folder(folder) and make_folder(folder / BLOBS)):
                raise StoreError(
                    "the data folder cannot be made or written",
                    where=str(folder),
                    help="name another one, or give this user the right to write there",
                    code="store.read-only",
                )
            _take_lock(folder, opened)
            try:
                db = opened.enter_context(contextlib.closing(_open_to_write(folder)))
                self.pepper = _pepper(db, folder)
            except (sqlite3.Error, OSError) as problem:
                raise explained(problem, folder) from None
            sweep(folder / BLOBS, ".")
            self.writer = Writer(db, folder)
            opened.callback(self._leave_tidy, db)
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
        """Run a function that writes, and wait until it is committed."""
        result: T = self.writer.write(lambda db: function(db, *args, **kwargs))
        return result

    def read(
        self,
        function: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run a function that reads, on one view of the database."""
        result: T = self.readers.read(lambda db: function(db, *args, **kwargs))
        return result

    def close(self) -> None:
        """Write what waits, and let go of the folder; a second time does nothing."""
        self._opened.close()

    def _leave_tidy(self, db: sqlite3.Connection) -> None:
        with contextlib.suppress(
            sqlite3.Error
        ):  # the log beside the database is read at the next start
            db.execute("PRAGMA optimize")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def connect_to_read(folder: Path) -> Reading:
    """A connection that cannot change anything."""
    path = urllib.parse.quote(str((folder / DATABASE).absolute()))
    db = sqlite3.connect(
        f"file:{path}?mode=ro",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        factory=Reading,
    )
    db.execute(f"PRAGMA busy_timeout = {int(_WAIT_SECONDS * 1000)}")
    db.execute("PRAGMA query_only = ON")
    db.execute("PRAGMA cache_size = -16384")
    return db


def _open_to_write(folder: Path) -> sqlite3.Connection:
    path = folder / DATABASE
    os.close(
        os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    )  # nobody else reads it, nor the files SQLite puts beside it
    db = sqlite3.connect(
        path,
        timeout=_WAIT_SECONDS,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )
    try:
        if db.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
            raise StoreError(
                "this disk has no shared memory for the database",
                where=str(folder),
                help="name a data folder on a disk of this machine",
                code="store.open",
            )
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("PRAGMA cache_size = -65536")
        db.execute(
            "PRAGMA wal_autocheckpoint = 8000"
        )  # a page that changes often is copied back less often
        db.execute("PRAGMA journal_size_limit = 67108864")
        migrate(db)
    except BaseException:
        db.close()
        raise
    return db


def _check_sqlite() -> None:
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        raise StoreError(
            f"this Python has SQLite {sqlite3.sqlite_version}",
            help=f"use a Python with SQLite {'.'.join(map(str, _OLDEST_SQLITE))} or newer",
            code="store.sqlite",
        )


def _take_lock(folder: Path, opened: contextlib.ExitStack) -> None:
    path = folder / LOCK
    try:
        is_ours = opened.enter_context(locked(path))
    except OpenTokenError as problem:
        raise StoreError(
            problem.what, where=str(path), help=problem.help, code="store.read-only"
        ) from None
    if not is_ours:
        holder = (read_optional(path) or b"").decode(errors="replace").strip()
        raise StoreError(
            "another server has this data folder"
            + (f" (process {holder})" if holder.isdigit() else ""),
            where=str(folder),
            help="stop it first, or name another folder",
            code="store.locked",
        )
    with contextlib.suppress(OSError), path.open("wb") as out:
        out.write(b"%d\n" % os.getpid())


def _pepper(db: sqlite3.Connection, folder: Path) -> bytes:
    """The secret under which digests are made; it lies beside the database, so that a copy of that
    alone is no use."""
    path = folder / PEPPER
    known = _shares.setting(db, "store.pepper")
    pepper = read_optional(path)
    if known is None:
        if pepper is None:
            pepper = os.urandom(32)
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
                out.write(pepper)
                out.flush()
                os.fsync(out.fileno())
        _shares.set_setting(db, "store.pepper", tokens.fingerprint(pepper))
    elif pepper is None or tokens.fingerprint(pepper) != known:
        raise damaged(
            f"the file {PEPPER} is missing or another one: no key could be checked", folder
        )
    return pepper
