"""The log of a session in PostgreSQL: a step is one transaction under the lock of the session's
row."""

from collections.abc import Callable
from typing import Any

import asyncpg
import msgspec

from open_token.entries import Entry
from open_token.errors import StoreError
from open_token.server.store import _pg_runs
from open_token.server.store._faults import Conflict, Missing
from open_token.server.store._log import Found
from open_token.server.store._schema import COUNT_BITS, TURN_BITS
from open_token.server.store._terms import stored
from open_token.server.store.rows import Appended, Step

_encode = msgspec.json.Encoder().encode
_decode: Callable[[str], dict[str, Any]] = msgspec.json.Decoder(dict[str, Any]).decode

_FIND = """
    SELECT number, stream_sequence, next_entry, intent FROM sessions WHERE id = $1 AND owner = $2 FOR NO KEY UPDATE
"""
_UPDATE = """
    UPDATE sessions SET stream_sequence = $2, next_entry = $3, projected_sequence = coalesce($4, projected_sequence),
        intent = $5, status = $6, created_at = $7, updated_at = $8, is_pinned = $9, head = $10, body = $11,
        words = coalesce($12, words) WHERE number = $1
"""
_COUNT = """
    UPDATE sessions SET stream_sequence = $2, next_entry = $3, projected_sequence = coalesce($4, projected_sequence)
    WHERE number = $1
"""
_LOG = """
    INSERT INTO log (session, seq, at, kind, data)
    SELECT $1, $2 + place, at, kind, data
    FROM unnest($3::text[], $4::text[], $5::text[]) WITH ORDINALITY AS entry (at, kind, data, place)
"""
_TURNS = """
    INSERT INTO turns (session, place, id, turn_id, parent_id, patch_sequence, body, words)
    SELECT $1, place, id, turn_id, parent_id, patches, body, words
    FROM unnest($2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bytea[], $8::text[])
        AS turn (place, id, turn_id, parent_id, patches, body, words)
    ON CONFLICT (place) DO UPDATE SET turn_id = excluded.turn_id, parent_id = excluded.parent_id,
        patch_sequence = excluded.patch_sequence, body = excluded.body, words = coalesce(excluded.words, turns.words)
        WHERE turns.id = excluded.id
    RETURNING 1
"""


# A step that is only entries, as words that stream: one statement, one way to the database and
# back.
_PLAIN = """
    WITH run AS (
        SELECT session FROM runs WHERE id = $8 AND status = 'running' AND fencing_token = $9 FOR NO KEY UPDATE
    ), grown AS (
        UPDATE sessions SET stream_sequence = stream_sequence + $3,
            projected_sequence = CASE WHEN $4 THEN stream_sequence + $3 ELSE projected_sequence END
        WHERE id = $1 AND owner = $2 AND stream_sequence = coalesce($10, stream_sequence)
            AND ($8::text IS NULL OR number IN (SELECT session FROM run))
        RETURNING number, stream_sequence - $3 AS before
    )
    INSERT INTO log (session, seq, at, kind, data)
    SELECT number, before + place, at, kind, data
    FROM grown, unnest($5::text[], $6::text[], $7::text[]) WITH ORDINALITY AS entry (at, kind, data, place)
    RETURNING seq
"""


def is_plain(step: Step) -> bool:
    """Is it entries and nothing else but a fence?"""
    more = (step.session, step.client_message_id, step.run, step.run_end)
    lists = (step.turns, step.checkpoints, step.blobs)
    return bool(step.entries) and not any(lists) and all(item is None for item in more)


async def append_plain(db: asyncpg.Connection, step: Step) -> Appended | None:
    """Write a plain step; None when something is in its way, which `append` then finds out."""
    rows, fence = _encoded(step), step.fence
    written = await db.fetch(
        _PLAIN,
        *(step.session_id, step.owner, len(rows[0]), step.is_projected, *rows),
        *((fence.run_id, fence.token) if fence else (None, None)),
        step.expected,
    )
    if not written:
        return None
    last = max(seq for (seq,) in written)
    return Appended(first=last - len(written) + 1, last=last)


async def append(db: asyncpg.Connection, step: Step) -> Appended:
    """Write a step; what may refuse it is asked before anything is written."""
    rows = _encoded(step)
    found = await _session(db, step)
    if step.client_message_id is not None:
        before = await _said_before(db, found.number, step.client_message_id)
        if before is not None:
            return before
    if step.expected is not None and step.expected != found.last:
        raise Conflict(f"the log has gone on to {found.last}", actual=found.last)
    if step.fence is not None:
        await _pg_runs.check_fence(db, found.number, step.fence)
    await _check_blobs(db, step)
    if found.intent is None:
        found = await _new_session(db, step)
    last = found.last + len(rows[0])
    if rows[0]:
        await db.execute(_LOG, found.number, found.last, *rows)
    if step.turns:
        await _write_turns(db, found.number, step)
    await _write_session(db, found, step, last)
    await _write_rest(db, found, step, last)
    first = found.last + 1 if rows[0] else found.last
    return Appended(first=first, last=last, run_id=step.run.id if step.run else None)


async def read_log(
    db: asyncpg.Connection, owner: str, session_id: str, after: int = 0, limit: int = 100
) -> list[Entry]:
    """Up to `limit` entries behind a sequence, in order."""
    rows = await db.fetch(
        """SELECT seq, at, kind, data FROM log
        WHERE session = (SELECT number FROM sessions WHERE id = $1 AND owner = $2) AND seq > $3
        ORDER BY seq LIMIT $4""",
        *(session_id, owner, after, limit),
    )
    return [Entry(session_id, seq, at, kind, _decode(data)) for seq, at, kind, data in rows]


def _encoded(step: Step) -> tuple[list[str], list[str], list[str]]:
    try:
        data = [_encode(entry.data).decode() for entry in step.entries]
    except (TypeError, ValueError, OverflowError, RecursionError):
        raise StoreError(
            "an entry is no JSON", help="look at its numbers and texts", code="store.json"
        ) from None
    return [entry.at for entry in step.entries], [entry.kind for entry in step.entries], data


async def _session(db: asyncpg.Connection, step: Step) -> Found:
    row = await db.fetchrow(_FIND, step.session_id, step.owner)
    if row is not None:
        return Found(*row)
    if step.expected != 0 or step.session is None:
        raise Missing("session")
    if await db.fetchval("SELECT 1 FROM sessions WHERE id = $1", step.session_id):
        raise Missing("session")
    return Found(0, 0, 0, None)


async def _said_before(
    db: asyncpg.Connection, number: int, client_message_id: str
) -> Appended | None:
    row = await db.fetchrow(
        "SELECT first, last, run_id FROM client_messages WHERE session = $1 AND id = $2",
        number,
        client_message_id,
    )
    return Appended(first=row[0], last=row[1], run_id=row[2], repeated=True) if row else None


async def _check_blobs(db: asyncpg.Connection, step: Step) -> None:
    """What a step refers to must be there, and a sweep must wait until the step is written."""
    if step.blobs:
        named = set(step.blobs)
        there = await db.fetch(
            "SELECT 1 FROM blob_data WHERE sha256 = ANY ($1) FOR KEY SHARE", list(named)
        )
        if len(there) != len(named):
            raise Missing("blob")


async def _new_session(db: asyncpg.Connection, step: Step) -> Found:
    row = await db.fetchrow(
        """UPDATE users SET sessions_made = sessions_made + 1, sessions_held = sessions_held + 1 WHERE id = $1
        RETURNING number, sessions_made""",
        step.owner,
    )
    if row is None:
        raise Missing("user")
    number = (row[0] << COUNT_BITS) | row[1]
    await db.execute(
        """INSERT INTO sessions (number, id, owner, intent, status, created_at, updated_at, is_pinned, body)
        VALUES ($1, $2, $3, '', '', '', '0000-00-00T00:00:00.000Z', false, '')""",
        number,
        step.session_id,
        step.owner,
    )
    return Found(number, 0, 0, None)


async def _write_turns(db: asyncpg.Connection, number: int, step: Step) -> None:
    if not all(0 <= turn.sequence < 1 << TURN_BITS for turn in step.turns):
        raise StoreError(f"a session holds {1 << TURN_BITS} turns and no more", code="store.turns")
    # Of a turn that a step has twice the later one counts; another id at the same place is a
    # conflict below.
    turns = {(turn.sequence, turn.id): turn for turn in step.turns}.values()
    places = [(number << TURN_BITS) | turn.sequence for turn in turns]
    if len(set(places)) != len(places):
        raise Conflict("two turns have the same sequence")
    written = await db.fetch(
        _TURNS,
        number,
        places,
        [turn.id for turn in turns],
        [turn.turn_id for turn in turns],
        [turn.parent_id for turn in turns],
        [turn.patch_sequence for turn in turns],
        [turn.body for turn in turns],
        [None if turn.text is None else stored(turn.text) for turn in turns],
    )
    if len(written) != len(places):
        raise Conflict("another turn has a sequence of these")


async def _write_session(db: asyncpg.Connection, found: Found, step: Step, last: int) -> None:
    next_entry = max([found.next_entry, *(turn.sequence + 1 for turn in step.turns)])
    projected = last if step.is_projected else None
    row = step.session
    if row is None:
        await db.execute(_COUNT, found.number, last, next_entry, projected)
        return
    intent = row.intent.replace("\0", "\ufffd")  # PostgreSQL has no text with it; the body has
    words = stored(intent) if intent != found.intent else None
    shown = (intent, row.status, row.created_at, row.updated_at, row.is_pinned, row.head, row.body)
    await db.execute(_UPDATE, found.number, last, next_entry, projected, *shown, words)


async def _write_rest(db: asyncpg.Connection, found: Found, step: Step, last: int) -> None:
    number = found.number
    for point in step.checkpoints:
        await db.execute(
            """INSERT INTO checkpoints (session, id, turn_id, parent_id, label, created_at, seq)
            VALUES ($1, $2, $3, $4, $5, $6, $7)""",
            *(
                number,
                point.id,
                point.turn_id,
                point.parent_id,
                point.label,
                point.created_at,
                found.last,
            ),
        )
    for sha256 in step.blobs:
        await db.execute(
            "INSERT INTO blobs (sha256, session) VALUES ($1, $2) ON CONFLICT DO NOTHING",
            sha256,
            number,
        )
    if step.run is not None:
        await _pg_runs.queue(db, number, step.run)
    if step.run_end is not None:
        await _pg_runs.end(db, step.fence, step.run_end)
    if step.client_message_id is not None:
        run_id = step.run.id if step.run else None
        await db.execute(
            "INSERT INTO client_messages (session, id, first, last, run_id) VALUES ($1, $2, $3, $4, $5)",
            *(number, step.client_message_id, min(found.last + 1, last), last, run_id),
        )
