"""Copies of a data folder: made while a server runs, checked, and put back."""

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from open_token.errors import StoreError
from open_token.server.store import _blobs
from open_token.server.store._database import BLOBS, DATABASE, PEPPER, connect_to_read
from open_token.server.store._faults import damaged, explained
from open_token.storage.files import whole_folder

FOLDERS = ("workspaces", "tasks", "recordings")
"""The files of sessions, what is written down of commands in the background, and what recorded
models play."""
_GAPS = """
    SELECT count(*) FROM sessions LEFT JOIN (
        SELECT session, count(*) AS held, min(seq) AS first, max(seq) AS last FROM log GROUP BY session
    ) ON session = number
    WHERE stream_sequence <> ifnull(held, 0) OR stream_sequence <> ifnull(last, 0) OR ifnull(first, 1) <> 1
"""
_MISCOUNTED = """
    SELECT 1 FROM users WHERE sessions_held <> (SELECT count(*) FROM sessions WHERE owner = users.id) LIMIT 1
"""


def backup(folder: Path, target: Path) -> None:
    """Copy a data folder as it is at one moment, while a server may be writing to it; the copy
    appears whole.

    It is for this user only, as the data are: the files of agents lie in it as open as agents made
    them."""
    _must_be_data(folder)
    with whole_folder(target, is_private=True) as made, _explaining(folder):
        with contextlib.closing(connect_to_read(folder)) as db:
            _copy_database(db, made / DATABASE)
        with contextlib.closing(connect_to_read(made)) as copy:
            needed = _blobs.needed(copy)
        for sha256 in needed:
            _copy_blob(folder / BLOBS, made / BLOBS, sha256)
        _copy_private(folder / PEPPER, made / PEPPER)
        for name in FOLDERS:
            _copy_files(folder / name, made / name)
        _refuse_damage(made)


def restore(source: Path, folder: Path) -> None:
    """Make a data folder of a backup, which must be sound; the folder must not be there yet, or be
    empty."""
    _must_be_data(source)
    _refuse_damage(source)
    backup(source, folder)


def check(folder: Path, *, is_deep: bool = False) -> list[str]:
    """What is wrong in a data folder, in words; deep also reads every blob. Nothing is changed."""
    _must_be_data(folder)
    try:
        with contextlib.closing(connect_to_read(folder)) as db:
            return check_database(db, folder, is_deep=is_deep)
    except sqlite3.Error as problem:
        return [str(getattr(explained(problem, folder), "what", problem))]


def check_database(db: sqlite3.Connection, folder: Path, *, is_deep: bool = False) -> list[str]:
    """The same over an open connection."""
    found = [
        f"database: {row[0]}" for row in db.execute("PRAGMA integrity_check(20)") if row[0] != "ok"
    ]
    if found:
        return found
    found += [
        f"a row of {row[0]} refers to nothing"
        for row in db.execute("PRAGMA foreign_key_check").fetchmany(20)
    ]
    if gaps := db.execute(_GAPS).fetchone()[0]:
        found.append(f"the logs of {gaps} sessions have gaps")
    if db.execute(_MISCOUNTED).fetchone():
        found.append("the number of a user's sessions is not right")
    for sha256 in _blobs.needed(db):
        found += _blob_faults(folder / BLOBS, sha256, is_deep)
    return found


def _blob_faults(blobs: Path, sha256: str, is_deep: bool) -> list[str]:
    try:
        _blobs.read(blobs, sha256, 0, None if is_deep else 1)
    except StoreError as problem:
        return [problem.what]
    return []


def _must_be_data(folder: Path) -> None:
    if not (folder / DATABASE).is_file():
        raise StoreError(
            "there are no data of a server",
            where=str(folder),
            help="check the path",
            code="store.none",
        )


def _refuse_damage(folder: Path) -> None:
    if found := check(folder, is_deep=True):
        raise damaged(f"the copy is not sound: {found[0]}", folder)


def _copy_database(db: sqlite3.Connection, target: Path) -> None:
    """All pages in one step: one view of the data, and no writer waits for it."""
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    with contextlib.closing(sqlite3.connect(target, isolation_level=None)) as copy:
        db.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")  # one file, which needs no other beside it
    _sync(target)


def _copy_blob(source: Path, target: Path, sha256: str) -> None:
    there = _blobs.place(target, sha256)
    here = _blobs.place(source, sha256)
    if here is None or there is None or not here.is_file():
        return  # the check that follows says so
    there.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    shutil.copyfile(here, there)
    _sync(there)


def _copy_files(source: Path, target: Path) -> None:
    """The files of sessions; agents may be at work, so one that goes away meanwhile is left out.
    Links stay links."""
    if source.is_dir():
        with contextlib.suppress(shutil.Error):
            shutil.copytree(source, target, symlinks=True)


def _copy_private(source: Path, target: Path) -> None:
    with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        out.write(source.read_bytes())
        out.flush()
        os.fsync(out.fileno())


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _explaining(folder: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as problem:
        raise explained(problem, folder) from None
