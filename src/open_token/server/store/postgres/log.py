"""The log of a session in PostgreSQL.

A write is one transaction that holds the lock of the session's row.
"""

from collections.abc import Callable
from typing import Any

import asyncpg
import msgspec

from open_token.errors import StoreError
from open_token.model.log_events import LogEntry
from open_token.server.store.errors import ConflictError, NotFoundError
from open_token.server.store.postgres import runs, users
from open_token.server.store.postgres.search_terms import to_stored_words
from open_token.server.store.rows import Appended, SessionWrite
from open_token.server.store.sqlite.log import SessionHead
from open_token.server.store.sqlite.schema import COUNT_BITS, TURN_BITS

_encode = msgspec.json.Encoder().encode
_decode: Callable[[str], dict[str, Any]] = msgspec.json.Decoder(dict[str, Any]).decode

_FIND_SESSION = """
    SELECT number, stream_sequence, next_entry, intent FROM sessions
    WHERE id = $1 AND owner = $2 FOR NO KEY UPDATE
"""
_UPDATE_SESSION = """
    UPDATE sessions
    SET stream_sequence = $2, next_entry = $3,
        projected_sequence = coalesce($4, projected_sequence),
        intent = $5, status = $6, created_at = $7, updated_at = $8, is_pinned = $9, head = $10,
        body = $11, words = coalesce($12, words)
    WHERE number = $1
"""
_UPDATE_COUNTS = """
    UPDATE sessions
    SET stream_sequence = $2, next_entry = $3,
        projected_sequence = coalesce($4, projected_sequence)
    WHERE number = $1
"""
_INSERT_LOG = """
    INSERT INTO log (session, seq, at, kind, data)
    SELECT $1, $2 + place, at, kind, data
    FROM unnest($3::text[], $4::text[], $5::text[]) WITH ORDINALITY AS entry (at, kind, data, place)
"""
_UPSERT_TURNS = """
    INSERT INTO turns (session, place, id, turn_id, parent_id, patch_sequence, body, words)
    SELECT $1, place, id, turn_id, parent_id, patches, body, words
    FROM unnest(
        $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bytea[], $8::text[]
    ) AS turn (place, id, turn_id, parent_id, patches, body, words)
    ON CONFLICT (place) DO UPDATE SET turn_id = excluded.turn_id, parent_id = excluded.parent_id,
        patch_sequence = excluded.patch_sequence, body = excluded.body,
        words = coalesce(excluded.words, turns.words)
        WHERE turns.id = excluded.id
    RETURNING 1
"""


# A write of entries alone, such as streamed text: one statement, one round trip.
_APPEND_ENTRIES = """
    WITH run AS (
        SELECT session FROM runs
        WHERE id = $8 AND status = 'running' AND fencing_token = $9 FOR NO KEY UPDATE
    ), grown AS (
        UPDATE sessions SET stream_sequence = stream_sequence + $3,
            projected_sequence = CASE WHEN $4 THEN stream_sequence + $3 ELSE projected_sequence END
        WHERE id = $1 AND owner = $2 AND stream_sequence = coalesce($10, stream_sequence)
            AND ($8::text IS NULL OR number IN (SELECT session FROM run))
        RETURNING number, stream_sequence - $3 AS before
    )
    INSERT INTO log (session, seq, at, kind, data)
    SELECT number, before + place, at, kind, data
    FROM grown, unnest($5::text[], $6::text[], $7::text[]) WITH ORDINALITY
        AS entry (at, kind, data, place)
    RETURNING seq
"""


def is_single_statement(write: SessionWrite) -> bool:
    """Return whether a write consists of entries and at most a fence."""
    if not write.entries:
        return False
    if write.turns or write.checkpoints or write.blobs:
        return False
    more = (write.session, write.client_message_id, write.run, write.run_end)
    return all(item is None for item in more)


async def append_in_one_statement(db: asyncpg.Connection, write: SessionWrite) -> Appended | None:
    """Append entries in one statement; None when refused, and `append_write` finds out why."""
    times, kinds, data = _encode_entries(write)
    fence = write.fence
    written = await db.fetch(
        _APPEND_ENTRIES,
        write.session_id,
        write.owner,
        len(data),
        write.is_projected,
        times,
        kinds,
        data,
        fence.run_id if fence else None,
        fence.token if fence else None,
        write.expected,
    )
    if not written:
        return None
    last = max(seq for (seq,) in written)
    return Appended(first=last - len(written) + 1, last=last)


async def append_write(db: asyncpg.Connection, write: SessionWrite) -> Appended:
    """Write to a session; everything that may refuse the write is checked first."""
    times, kinds, data = _encode_entries(write)
    head = await _find_session(db, write)
    if write.client_message_id is not None:
        earlier = await _find_client_message(db, head.number, write.client_message_id)
        if earlier is not None:
            return earlier
    if write.expected is not None and write.expected != head.last:
        raise ConflictError(f"the log has advanced to {head.last}", actual=head.last)
    if write.fence is not None:
        await runs.check_fence(db, head.number, write.fence)
    await _check_blobs(db, write)
    if head.intent is None:
        head = await _create_session(db, write)
    last = head.last + len(data)
    if data:
        await db.execute(_INSERT_LOG, head.number, head.last, times, kinds, data)
    if write.turns:
        await _write_turns(db, head.number, write)
    await _write_session(db, head, write, last)
    await _write_references(db, head, write, last)
    first = head.last + 1 if data else head.last
    return Appended(first=first, last=last, run_id=write.run.id if write.run else None)


async def read_log(
    db: asyncpg.Connection, owner: str, session_id: str, after: int = 0, limit: int = 100
) -> list[LogEntry]:
    """Return up to `limit` entries after a sequence, in order."""
    rows = await db.fetch(
        """SELECT seq, at, kind, data FROM log
        WHERE session = (SELECT number FROM sessions WHERE id = $1 AND owner = $2) AND seq > $3
        ORDER BY seq LIMIT $4""",
        *(session_id, owner, after, limit),
    )
    return [LogEntry(session_id, seq, at, kind, _decode(data)) for seq, at, kind, data in rows]


def _encode_entries(write: SessionWrite) -> tuple[list[str], list[str], list[str]]:
    try:
        data = [_encode(entry.data).decode() for entry in write.entries]
    except (TypeError, ValueError, OverflowError, RecursionError):
        raise StoreError(
            "a log entry cannot be encoded as JSON",
            help="check its numbers and texts",
            code="store.json",
        ) from None
    times = [entry.at for entry in write.entries]
    kinds = [entry.kind for entry in write.entries]
    return times, kinds, data


async def _find_session(db: asyncpg.Connection, write: SessionWrite) -> SessionHead:
    row = await db.fetchrow(_FIND_SESSION, write.session_id, write.owner)
    if row is not None:
        return SessionHead(*row)
    if write.expected != 0 or write.session is None:
        raise NotFoundError("session")
    if await db.fetchval("SELECT 1 FROM sessions WHERE id = $1", write.session_id):
        raise NotFoundError("session")
    return SessionHead(0, 0, 0, None)


async def _find_client_message(
    db: asyncpg.Connection, number: int, client_message_id: str
) -> Appended | None:
    row = await db.fetchrow(
        "SELECT first, last, run_id FROM client_messages WHERE session = $1 AND id = $2",
        number,
        client_message_id,
    )
    if row is None:
        return None
    return Appended(first=row[0], last=row[1], run_id=row[2], repeated=True)


async def _check_blobs(db: asyncpg.Connection, write: SessionWrite) -> None:
    """Require that the referenced blobs exist, and keep a sweep waiting until the write is done."""
    if not write.blobs:
        return
    hashes = set(write.blobs)
    rows = await db.fetch(
        "SELECT 1 FROM blob_data WHERE sha256 = ANY ($1) FOR KEY SHARE", list(hashes)
    )
    if len(rows) != len(hashes):
        raise NotFoundError("blob")


async def _create_session(db: asyncpg.Connection, write: SessionWrite) -> SessionHead:
    row = await db.fetchrow(
        """UPDATE users
        SET sessions_made = sessions_made + 1, sessions_held = sessions_held + 1
        WHERE id = $1 RETURNING number, sessions_made""",
        write.owner,
    )
    if row is None:
        raise NotFoundError("user")
    number = (row[0] << COUNT_BITS) | row[1]
    await db.execute(
        """INSERT INTO sessions
        (number, id, owner, intent, status, created_at, updated_at, is_pinned, body)
        VALUES ($1, $2, $3, '', '', '', '0000-00-00T00:00:00.000Z', false, '')""",
        number,
        write.session_id,
        write.owner,
    )
    return SessionHead(number, 0, 0, None)


async def _write_turns(db: asyncpg.Connection, number: int, write: SessionWrite) -> None:
    if not all(0 <= turn.sequence < 1 << TURN_BITS for turn in write.turns):
        raise StoreError(f"a session holds at most {1 << TURN_BITS} turns", code="store.turns")
    # If a write has the same turn twice, the later one counts; another id at the same sequence is
    # a conflict below.
    turns = {(turn.sequence, turn.id): turn for turn in write.turns}.values()
    places = [(number << TURN_BITS) | turn.sequence for turn in turns]
    if len(set(places)) != len(places):
        raise ConflictError("two turns have the same sequence")
    written = await db.fetch(
        _UPSERT_TURNS,
        number,
        places,
        [turn.id for turn in turns],
        [turn.turn_id for turn in turns],
        [turn.parent_id for turn in turns],
        [turn.patch_sequence for turn in turns],
        [turn.body for turn in turns],
        [None if turn.text is None else to_stored_words(turn.text) for turn in turns],
    )
    if len(written) != len(places):
        raise ConflictError("another turn has one of these sequences")


async def _write_session(
    db: asyncpg.Connection, head: SessionHead, write: SessionWrite, last: int
) -> None:
    next_entry = max([head.next_entry, *(turn.sequence + 1 for turn in write.turns)])
    projected = last if write.is_projected else None
    row = write.session
    if row is None:
        await db.execute(_UPDATE_COUNTS, head.number, last, next_entry, projected)
        return
    intent = row.intent.replace(
        "\0", "\ufffd"
    )  # not possible in a text of PostgreSQL; the body has it
    words = to_stored_words(intent) if intent != head.intent else None
    await db.execute(
        _UPDATE_SESSION,
        head.number,
        last,
        next_entry,
        projected,
        intent,
        row.status,
        row.created_at,
        row.updated_at,
        row.is_pinned,
        row.head,
        row.body,
        words,
    )


async def _write_references(
    db: asyncpg.Connection, head: SessionHead, write: SessionWrite, last: int
) -> None:
    number = head.number
    for point in write.checkpoints:
        await db.execute(
            """INSERT INTO checkpoints (session, id, turn_id, parent_id, label, created_at, seq)
            VALUES ($1, $2, $3, $4, $5, $6, $7)""",
            number,
            point.id,
            point.turn_id,
            point.parent_id,
            point.label,
            point.created_at,
            head.last,
        )
    for sha256 in write.blobs:
        await db.execute(
            "INSERT INTO blobs (sha256, session) VALUES ($1, $2) ON CONFLICT DO NOTHING",
            sha256,
            number,
        )
    if write.run is not None:
        await runs.queue_run(db, number, write.run)
    if write.run_end is not None:
        await runs.end_run(db, write.fence, write.run_end)
    for key, value in write.settings.items():
        await users.set_setting(db, key, value)
    if write.client_message_id is not None:
        # A client that sends the message again gets the answer of the first time.
        run_id = write.run.id if write.run else None
        await db.execute(
            """INSERT INTO client_messages (session, id, first, last, run_id)
            VALUES ($1, $2, $3, $4, $5)""",
            *(number, write.client_message_id, min(head.last + 1, last), last, run_id),
        )
