"""Big results in PostgreSQL: in the database, so that every node has them and a backup is one
thing."""

import hashlib

import asyncpg

from open_token.errors import StoreError
from open_token.server.store._blobs import preview
from open_token.server.store.rows import Blob

_GAPS = """
    SELECT count(*) FROM sessions FULL JOIN (
        SELECT session, count(*) AS held, min(seq) AS first, max(seq) AS last FROM log GROUP BY session
    ) AS logs ON session = number
    WHERE number IS NULL OR stream_sequence <> coalesce(held, 0) OR stream_sequence <> coalesce(last, 0)
        OR coalesce(first, 1) <> 1
"""
_MISCOUNTED = """
    SELECT 1 FROM users WHERE sessions_held <> (SELECT count(*) FROM sessions WHERE owner = users.id) LIMIT 1
"""
_SWEEP = """
    DELETE FROM blob_data WHERE put_at < $1 AND NOT EXISTS (SELECT 1 FROM blobs WHERE blobs.sha256 = blob_data.sha256)
"""


async def put(db: asyncpg.Connection, data: bytes, media_type: str) -> Blob:
    """Keep bytes; the same bytes are kept once."""
    sha256 = hashlib.sha256(data).hexdigest()
    known = await db.fetchval(
        "UPDATE blob_data SET put_at = extract(epoch FROM clock_timestamp()) WHERE sha256 = $1 RETURNING 1",
        sha256,
    )
    if not known:
        await db.execute(
            "INSERT INTO blob_data (sha256, data) VALUES ($1, $2) ON CONFLICT DO NOTHING",
            sha256,
            data,
        )
    return Blob(sha256=sha256, size=len(data), media_type=media_type, preview=preview(data))


async def read(
    db: asyncpg.Connection,
    owner: str,
    session_id: str,
    sha256: str,
    start: int = 0,
    length: int | None = None,
) -> bytes | None:
    """A part of a blob, or all of it; what is read whole must be what its name says."""
    part = (
        "data" if start == 0 and length is None else f"substr(data, {int(start) + 1}{_for(length)})"
    )
    data: bytes | None = await db.fetchval(
        f"""SELECT {part} FROM blob_data JOIN blobs USING (sha256) JOIN sessions ON number = session
        WHERE sha256 = $1 AND id = $2 AND owner = $3""",
        *(sha256, session_id, owner),
    )
    if data is not None and part == "data" and hashlib.sha256(data).hexdigest() != sha256:
        raise StoreError(
            f"the blob {sha256[:12]} is not what it was",
            help="restore the last backup",
            code="store.damaged",
        )
    return data


async def sweep(db: asyncpg.Connection, before: float) -> int:
    """Take away blobs that no session has and that were not put since; tells how many."""
    return int((await db.execute(_SWEEP, before)).split()[-1])


async def check(db: asyncpg.Connection, is_deep: bool = False) -> list[str]:
    """What is wrong with the data, in words; deep also hashes every blob."""
    found = []
    if gaps := await db.fetchval(_GAPS):
        found.append(f"the logs of {gaps} sessions have gaps")
    if await db.fetchval(_MISCOUNTED):
        found.append("the number of a user's sessions is not right")
    if is_deep:
        wrong = await db.fetch(
            "SELECT sha256 FROM blob_data WHERE encode(sha256(data), 'hex') <> sha256 LIMIT 20"
        )
        found += [f"the blob {name[:12]} is not what it was" for (name,) in wrong]
    return found


def _for(length: int | None) -> str:
    return "" if length is None else f", {int(length)}"
