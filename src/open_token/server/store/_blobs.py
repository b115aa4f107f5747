"""Big results as files named after their content: written whole, checked when read, swept when
nobody needs them."""

import contextlib
import hashlib
import os
import re
import sqlite3
from pathlib import Path

from open_token.errors import OutputError, StoreError
from open_token.server.store._faults import damaged
from open_token.server.store.rows import Blob
from open_token.storage.files import remove, whole_file

PREVIEW_LETTERS = 2000
_HASH = re.compile(r"[0-9a-f]{64}")


def place(folder: Path, sha256: str) -> Path | None:
    """Where a blob lies; None when that is no hash."""
    return folder / sha256[:2] / sha256 if _HASH.fullmatch(sha256) else None


def put(folder: Path, data: bytes, media_type: str) -> Blob:
    """Keep bytes; the same bytes are kept once."""
    sha256 = hashlib.sha256(data).hexdigest()
    path = folder / sha256[:2] / sha256
    try:
        if path.exists() and path.stat().st_size == len(data):
            os.utime(path)  # so that a sweep takes it for a new one
        else:
            path.parent.mkdir(exist_ok=True, mode=0o700)
            with whole_file(path, 0o600) as out:
                out.write(data)
    except (OSError, OutputError) as problem:
        raise StoreError(
            f"a blob cannot be written: {getattr(problem, 'strerror', None) or problem.args[0]}",
            where=str(folder),
            help="free some space, or give this user the right to write there; nothing was written",
            code="store.blob",
        ) from None
    return Blob(sha256=sha256, size=len(data), media_type=media_type, preview=preview(data))


def preview(data: bytes, letters: int = PREVIEW_LETTERS) -> str:
    """The beginning as text; what is cut in the middle of a letter loses that letter."""
    return data[: 4 * letters].decode("utf-8", "ignore")[:letters]


def is_referred(db: sqlite3.Connection, owner: str, session_id: str, sha256: str) -> bool:
    """Does a session of this owner have the blob?"""
    row = db.execute(
        "SELECT 1 FROM blobs JOIN sessions ON number = session WHERE sha256 = ? AND id = ? AND owner = ?",
        (sha256, session_id, owner),
    ).fetchone()
    return row is not None


def read(folder: Path, sha256: str, start: int = 0, length: int | None = None) -> bytes:
    """A part of a blob, or all of it; what is read whole must be what its name says."""
    path = place(folder, sha256)
    try:
        if path is None:
            raise FileNotFoundError
        with path.open("rb") as stream:
            stream.seek(start)
            data = stream.read(-1 if length is None else length)
    except OSError:
        raise damaged(f"the blob {sha256[:12]} is missing", folder) from None
    if start == 0 and length is None and hashlib.sha256(data).hexdigest() != sha256:
        raise damaged(f"the blob {sha256[:12]} is not what it was", folder)
    return data


def sweep(db: sqlite3.Connection, folder: Path, before: float) -> int:
    """Take away blobs that no session has and that were not put since; tells how many."""
    count = 0
    for path in folder.glob("??/*"):
        if _HASH.fullmatch(path.name) and not _is_needed(db, path.name):
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < before:
                    remove(path)
                    count += 1
    return count


def needed(db: sqlite3.Connection) -> list[str]:
    """The hashes of all blobs that sessions have."""
    return [sha256 for (sha256,) in db.execute("SELECT DISTINCT sha256 FROM blobs ORDER BY sha256")]


def _is_needed(db: sqlite3.Connection, sha256: str) -> bool:
    return (
        db.execute("SELECT 1 FROM blobs WHERE sha256 = ? LIMIT 1", (sha256,)).fetchone() is not None
    )
