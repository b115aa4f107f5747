"""Content-addressed blobs in files: written atomically, verified when read, swept when unused."""

import contextlib
import hashlib
import os
import re
import sqlite3
from pathlib import Path

from open_token.errors import OutputError, StoreError
from open_token.server.store.errors import damaged_error
from open_token.server.store.rows import Blob
from open_token.storage.files import atomic_file, remove_file

PREVIEW_CHARACTERS = 2000
_HASH = re.compile(r"[0-9a-f]{64}")


def get_blob_path(folder: Path, sha256: str) -> Path | None:
    """Return the path of a blob; None when the hash is malformed."""
    if not _HASH.fullmatch(sha256):
        return None
    return folder / sha256[:2] / sha256


def write_blob(folder: Path, data: bytes, media_type: str) -> Blob:
    """Store bytes; the same bytes are stored once."""
    sha256 = hashlib.sha256(data).hexdigest()
    path = folder / sha256[:2] / sha256
    try:
        if path.exists() and path.stat().st_size == len(data):
            os.utime(path)  # a sweep must treat it as new
        else:
            path.parent.mkdir(exist_ok=True, mode=0o700)
            with atomic_file(path, 0o600) as out:
                out.write(data)
    except (OSError, OutputError) as problem:
        reason = getattr(problem, "strerror", None) or problem.args[0]
        raise StoreError(
            f"cannot write a blob: {reason}",
            where=str(folder),
            help="free some space, or give this user write permission; nothing was written",
            code="store.blob",
        ) from None
    return Blob(sha256=sha256, size=len(data), media_type=media_type, preview=build_preview(data))


def build_preview(data: bytes, characters: int = PREVIEW_CHARACTERS) -> str:
    """Return the beginning as text; a character cut in the middle is dropped."""
    return data[: 4 * characters].decode("utf-8", "ignore")[:characters]


def count_bytes(db: sqlite3.Connection, folder: Path, owner: str) -> int:
    """Return the size of a user's logs and of the blobs that they refer to."""
    size: int
    (size,) = db.execute(
        """SELECT ifnull(sum(length(CAST(data AS BLOB))), 0)
        FROM log JOIN sessions ON number = session WHERE owner = ?""",
        (owner,),
    ).fetchone()
    hashes = db.execute(
        "SELECT DISTINCT sha256 FROM blobs JOIN sessions ON number = session WHERE owner = ?",
        (owner,),
    )
    for (sha256,) in hashes:
        with contextlib.suppress(OSError):
            size += (folder / sha256[:2] / sha256).stat().st_size
    return size


def is_referenced(db: sqlite3.Connection, owner: str, session_id: str, sha256: str) -> bool:
    """Return whether a session of the owner refers to the blob."""
    row = db.execute(
        """SELECT 1 FROM blobs JOIN sessions ON number = session
        WHERE sha256 = ? AND id = ? AND owner = ?""",
        (sha256, session_id, owner),
    ).fetchone()
    return row is not None


def read_blob(folder: Path, sha256: str, start: int = 0, length: int | None = None) -> bytes:
    """Return a part of a blob, or all of it; a whole blob is checked against its hash."""
    path = get_blob_path(folder, sha256)
    try:
        if path is None:
            raise FileNotFoundError
        with path.open("rb") as stream:
            stream.seek(start)
            data = stream.read(-1 if length is None else length)
    except OSError:
        raise damaged_error(f"the blob {sha256[:12]} is missing", folder) from None
    if start == 0 and length is None and hashlib.sha256(data).hexdigest() != sha256:
        raise damaged_error(f"the blob {sha256[:12]} does not match its hash", folder)
    return data


def sweep_blobs(db: sqlite3.Connection, folder: Path, before: float) -> int:
    """Delete unreferenced blobs that were stored before a time; return the count."""
    count = 0
    for path in folder.glob("??/*"):
        if _HASH.fullmatch(path.name) and not _has_references(db, path.name):
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < before:
                    remove_file(path)
                    count += 1
    return count


def list_referenced(db: sqlite3.Connection) -> list[str]:
    """Return the hashes of all blobs that sessions refer to."""
    return [sha256 for (sha256,) in db.execute("SELECT DISTINCT sha256 FROM blobs ORDER BY sha256")]


def _has_references(db: sqlite3.Connection, sha256: str) -> bool:
    row = db.execute("SELECT 1 FROM blobs WHERE sha256 = ? LIMIT 1", (sha256,)).fetchone()
    return row is not None
