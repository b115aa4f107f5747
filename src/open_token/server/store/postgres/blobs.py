"""Blobs in PostgreSQL, stored in the database so that every node and every backup has them."""

import hashlib

import asyncpg

from open_token.errors import StoreError
from open_token.server.store.rows import Blob
from open_token.server.store.sqlite.blobs import build_preview

_GAPS = """
    SELECT count(*) FROM sessions FULL JOIN (
        SELECT session, count(*) AS held, min(seq) AS first, max(seq) AS last
        FROM log GROUP BY session
    ) AS logs ON session = number
    WHERE number IS NULL
        OR stream_sequence <> coalesce(held, 0)
        OR stream_sequence <> coalesce(last, 0)
        OR coalesce(first, 1) <> 1
"""
_MISCOUNTED = """
    SELECT 1 FROM users
    WHERE sessions_held <> (SELECT count(*) FROM sessions WHERE owner = users.id) LIMIT 1
"""
_SIZE = """
    SELECT (
        SELECT coalesce(sum(octet_length(data::text)), 0)
        FROM log JOIN sessions ON number = session WHERE owner = $1
    )::bigint + (
        SELECT coalesce(sum(octet_length(data)), 0) FROM blob_data WHERE sha256 IN (
            SELECT sha256 FROM blobs JOIN sessions ON number = session WHERE owner = $1
        )
    )::bigint
"""
_SWEEP = """
    DELETE FROM blob_data
    WHERE put_at < $1
        AND NOT EXISTS (SELECT 1 FROM blobs WHERE blobs.sha256 = blob_data.sha256)
"""


async def write_blob(db: asyncpg.Connection, data: bytes, media_type: str) -> Blob:
    """Store bytes; the same bytes are stored once."""
    sha256 = hashlib.sha256(data).hexdigest()
    known = await db.fetchval(
        """UPDATE blob_data SET put_at = extract(epoch FROM clock_timestamp())
        WHERE sha256 = $1 RETURNING 1""",
        sha256,
    )
    if not known:
        await db.execute(
            "INSERT INTO blob_data (sha256, data) VALUES ($1, $2) ON CONFLICT DO NOTHING",
            sha256,
            data,
        )
    return Blob(sha256=sha256, size=len(data), media_type=media_type, preview=build_preview(data))


async def read_blob(
    db: asyncpg.Connection,
    owner: str,
    session_id: str,
    sha256: str,
    start: int = 0,
    length: int | None = None,
) -> bytes | None:
    """Return a part of a blob, or all of it; a whole blob is checked against its hash."""
    is_whole = start == 0 and length is None
    part = "data"
    if not is_whole:
        # Cut in the database, so that a page of a large blob does not transfer all of it.
        end = "" if length is None else f", {int(length)}"
        part = f"substr(data, {int(start) + 1}{end})"
    data: bytes | None = await db.fetchval(
        f"""SELECT {part} FROM blob_data JOIN blobs USING (sha256) JOIN sessions ON number = session
        WHERE sha256 = $1 AND id = $2 AND owner = $3""",
        *(sha256, session_id, owner),
    )
    if data is not None and is_whole and hashlib.sha256(data).hexdigest() != sha256:
        raise StoreError(
            f"the blob {sha256[:12]} does not match its hash",
            help="restore the last backup",
            code="store.damaged",
        )
    return data


async def count_bytes(db: asyncpg.Connection, owner: str) -> int:
    """Return the size of a user's logs and of the blobs that they refer to."""
    size: int = await db.fetchval(_SIZE, owner)
    return size


async def sweep_blobs(db: asyncpg.Connection, before: float) -> int:
    """Delete unreferenced blobs that were stored before a time; return the count."""
    status = await db.execute(_SWEEP, before)
    return int(status.split()[-1])


async def check_blobs(db: asyncpg.Connection, is_deep: bool = False) -> list[str]:
    """Return descriptions of damage; a deep check also hashes every blob."""
    problems = []
    gaps = await db.fetchval(_GAPS)
    if gaps:
        problems.append(f"the logs of {gaps} sessions have gaps")
    if await db.fetchval(_MISCOUNTED):
        problems.append("the session count of a user is wrong")
    if is_deep:
        damaged = await db.fetch(
            "SELECT sha256 FROM blob_data WHERE encode(sha256(data), 'hex') <> sha256 LIMIT 20"
        )
        for (sha256,) in damaged:
            problems.append(f"the blob {sha256[:12]} does not match its hash")
    return problems
