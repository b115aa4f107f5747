"""Back up, check and restore a data folder, also while a server runs on it."""

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from open_token.errors import StoreError
from open_token.server.store.errors import damaged_error, translate_error
from open_token.server.store.sqlite import blobs
from open_token.server.store.sqlite.database import BLOBS, DATABASE, PEPPER, connect_to_read
from open_token.storage.files import atomic_folder

FOLDERS = ("workspaces", "tasks", "recordings")
"""The workspaces of sessions, logs of background commands, and recordings for replay."""
_GAPS = """
    SELECT count(*) FROM sessions LEFT JOIN (
        SELECT session, count(*) AS held, min(seq) AS first, max(seq) AS last
        FROM log GROUP BY session
    ) ON session = number
    WHERE stream_sequence <> ifnull(held, 0)
        OR stream_sequence <> ifnull(last, 0)
        OR ifnull(first, 1) <> 1
"""
_MISCOUNTED = """
    SELECT 1 FROM users
    WHERE sessions_held <> (SELECT count(*) FROM sessions WHERE owner = users.id) LIMIT 1
"""


def backup(folder: Path, target: Path) -> None:
    """Copy a consistent snapshot of a data folder atomically, also while a server writes to it.

    The copy is private to this user, but files of agents in it keep the modes that agents gave
    them.
    """
    _require_data(folder)
    with atomic_folder(target, is_private=True) as copy_folder, _translating_errors(folder):
        with contextlib.closing(connect_to_read(folder)) as db:
            _copy_database(db, copy_folder / DATABASE)
        with contextlib.closing(connect_to_read(copy_folder)) as copy:
            hashes = blobs.list_referenced(copy)
        for sha256 in hashes:
            _copy_blob(folder / BLOBS, copy_folder / BLOBS, sha256)
        _copy_private(folder / PEPPER, copy_folder / PEPPER)
        for name in FOLDERS:
            _copy_files(folder / name, copy_folder / name)
        _require_undamaged(copy_folder)


def restore(source: Path, folder: Path) -> None:
    """Create a data folder from an undamaged backup; the folder must not exist, or be empty."""
    _require_data(source)
    _require_undamaged(source)
    backup(source, folder)


def check(folder: Path, *, is_deep: bool = False) -> list[str]:
    """Return descriptions of damage in a data folder; a deep check also reads every blob."""
    _require_data(folder)
    try:
        with contextlib.closing(connect_to_read(folder)) as db:
            return check_database(db, folder, is_deep=is_deep)
    except sqlite3.Error as problem:
        return [str(getattr(translate_error(problem, folder), "what", problem))]


def check_database(db: sqlite3.Connection, folder: Path, *, is_deep: bool = False) -> list[str]:
    """Check a data folder through an open connection."""
    problems = []
    for (message,) in db.execute("PRAGMA integrity_check(20)"):
        if message != "ok":
            problems.append(f"database: {message}")
    if problems:
        return problems
    for row in db.execute("PRAGMA foreign_key_check").fetchmany(20):
        problems.append(f"a row of {row[0]} has a dangling reference")
    gaps = db.execute(_GAPS).fetchone()[0]
    if gaps:
        problems.append(f"the logs of {gaps} sessions have gaps")
    if db.execute(_MISCOUNTED).fetchone():
        problems.append("the session count of a user is wrong")
    for sha256 in blobs.list_referenced(db):
        problems += _find_blob_damage(folder / BLOBS, sha256, is_deep)
    return problems


def _find_blob_damage(folder: Path, sha256: str, is_deep: bool) -> list[str]:
    try:
        blobs.read_blob(folder, sha256, 0, None if is_deep else 1)
    except StoreError as problem:
        return [problem.what]
    return []


def _require_data(folder: Path) -> None:
    if not (folder / DATABASE).is_file():
        raise StoreError(
            "no server data found",
            where=str(folder),
            help="check the path",
            code="store.none",
        )


def _require_undamaged(folder: Path) -> None:
    problems = check(folder, is_deep=True)
    if problems:
        raise damaged_error(f"the copy is damaged: {problems[0]}", folder)


def _copy_database(db: sqlite3.Connection, target: Path) -> None:
    """Copy all pages in one step: a consistent snapshot that blocks no writer."""
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    with contextlib.closing(sqlite3.connect(target, isolation_level=None)) as copy:
        db.backup(copy)
        # One file that needs no write-ahead log next to it.
        copy.execute("PRAGMA journal_mode = DELETE")
    _sync(target)


def _copy_blob(source: Path, target: Path, sha256: str) -> None:
    source_path = blobs.get_blob_path(source, sha256)
    target_path = blobs.get_blob_path(target, sha256)
    if source_path is None or target_path is None or not source_path.is_file():
        return  # reported by the check that follows
    target_path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    shutil.copyfile(source_path, target_path)
    _sync(target_path)


def _copy_files(source: Path, target: Path) -> None:
    """Copy the files of sessions; files that agents delete meanwhile are left out."""
    if source.is_dir():
        with contextlib.suppress(shutil.Error):
            shutil.copytree(source, target, symlinks=True)


def _copy_private(source: Path, target: Path) -> None:
    # Created with its permissions: between creating and restricting a file others could open it.
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as out:
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
def _translating_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as problem:
        raise translate_error(problem, folder) from None
