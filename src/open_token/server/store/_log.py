"""The log of a session and what follows from it: one step is one transaction, or a part of one."""

import sqlite3
from collections.abc import Callable
from typing import Any

import msgspec

from open_token.entries import Entry
from open_token.errors import StoreError
from open_token.server.store import _runs
from open_token.server.store._faults import Conflict, Missing
from open_token.server.store._schema import COUNT_BITS, TURN_BITS
from open_token.server.store._words import indexed
from open_token.server.store.rows import Appended, Step

_encode = msgspec.json.Encoder().encode
_decode: Callable[[str], dict[str, Any]] = msgspec.json.Decoder(dict[str, Any]).decode

_FIND = """
    SELECT number, stream_sequence, next_entry, intent FROM sessions WHERE id = ? AND owner = ?
"""
_UPDATE = """
    UPDATE sessions SET stream_sequence = ?, next_entry = ?, projected_sequence = ifnull(?, projected_sequence),
        intent = ?, status = ?, created_at = ?, updated_at = ?, is_pinned = ?, head = ?, body = ? WHERE number = ?
"""
_COUNT = """
    UPDATE sessions SET stream_sequence = ?, next_entry = ?, projected_sequence = ifnull(?, projected_sequence)
    WHERE number = ?
"""
_TURN = """
    INSERT INTO turns (place, session, id, turn_id, parent_id, patch_sequence, body) VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (place) DO UPDATE SET turn_id = excluded.turn_id, parent_id = excluded.parent_id,
        patch_sequence = excluded.patch_sequence, body = excluded.body WHERE id = excluded.id
"""
_CHECKPOINT = """
    INSERT INTO checkpoints (session, id, turn_id, parent_id, label, created_at, seq) VALUES (?, ?, ?, ?, ?, ?, ?)
"""


class Found(msgspec.Struct, frozen=True):
    """A session as a step finds it."""

    number: int
    last: int
    next_entry: int
    intent: str | None


class Prepared(msgspec.Struct, frozen=True):
    """A step with all that can be done before it is its turn."""

    step: Step
    entries: list[tuple[str, str, str]]
    words: list[tuple[int, str]]


def prepared(step: Step) -> Prepared:
    """Encode a step in the caller's thread, so that the one that writes only writes."""
    try:
        entries = [(entry.at, entry.kind, _encode(entry.data).decode()) for entry in step.entries]
    except (TypeError, ValueError, OverflowError, RecursionError):
        raise StoreError(
            "an entry is no JSON", help="look at its numbers and texts", code="store.json"
        ) from None
    words = [(turn.sequence, indexed(turn.text)) for turn in step.turns if turn.text is not None]
    return Prepared(step, entries, words)


def append(db: sqlite3.Connection, given: Prepared) -> Appended:
    """Write a step; what may refuse it is asked before anything is written."""
    step = given.step
    found = _session(db, step)
    if step.client_message_id is not None and (
        before := _said_before(db, found.number, step.client_message_id)
    ):
        return before
    if step.expected is not None and step.expected != found.last:
        raise Conflict(f"the log has gone on to {found.last}", actual=found.last)
    if step.fence is not None:
        _runs.check_fence(db, found.number, step.fence)
    if found.intent is None:
        found = _new_session(db, step)
    last = _write_log(db, found, given)
    _write_turns(db, found.number, given)
    _write_session(db, found, step, last)
    _write_rest(db, found, step, last)
    first = found.last + 1 if given.entries else found.last
    return Appended(first=first, last=last, run_id=step.run.id if step.run else None)


def read_log(
    db: sqlite3.Connection, owner: str, session_id: str, after: int = 0, limit: int = 100
) -> list[Entry]:
    """Up to `limit` entries behind a sequence, in order."""
    rows = db.execute(
        """SELECT seq, at, kind, data FROM log
        WHERE session = (SELECT number FROM sessions WHERE id = ? AND owner = ?) AND seq > ? ORDER BY seq LIMIT ?""",
        (session_id, owner, after, limit),
    )
    return [Entry(session_id, seq, at, kind, _decode(data)) for seq, at, kind, data in rows]


def _session(db: sqlite3.Connection, step: Step) -> Found:
    row = db.execute(_FIND, (step.session_id, step.owner)).fetchone()
    if row is not None:
        return Found(*row)
    if step.expected != 0 or step.session is None:
        raise Missing("session")
    if db.execute("SELECT 1 FROM sessions WHERE id = ?", (step.session_id,)).fetchone():
        raise Missing("session")
    return Found(0, 0, 0, None)


def _said_before(db: sqlite3.Connection, number: int, client_message_id: str) -> Appended | None:
    row = db.execute(
        "SELECT first, last, run_id FROM client_messages WHERE session = ? AND id = ?",
        (number, client_message_id),
    ).fetchone()
    return Appended(first=row[0], last=row[1], run_id=row[2], repeated=True) if row else None


def _new_session(db: sqlite3.Connection, step: Step) -> Found:
    row = db.execute(
        """UPDATE users SET sessions_made = sessions_made + 1, sessions_held = sessions_held + 1 WHERE id = ?
        RETURNING number, sessions_made""",
        (step.owner,),
    ).fetchone()
    if row is None:
        raise Missing("user")
    number = (row[0] << COUNT_BITS) | row[1]
    db.execute(
        """INSERT INTO sessions (number, id, owner, intent, status, created_at, updated_at, is_pinned, body)
        VALUES (?, ?, ?, '', '', '', '0000-00-00T00:00:00.000Z', 0, x'')""",
        (number, step.session_id, step.owner),
    )
    return Found(number, 0, 0, None)


def _write_log(db: sqlite3.Connection, found: Found, given: Prepared) -> int:
    rows = [
        (found.number, seq, *entry) for seq, entry in enumerate(given.entries, start=found.last + 1)
    ]
    db.executemany("INSERT INTO log (session, seq, at, kind, data) VALUES (?, ?, ?, ?, ?)", rows)
    return found.last + len(rows)


def _write_turns(db: sqlite3.Connection, number: int, given: Prepared) -> None:
    for turn in given.step.turns:
        if not 0 <= turn.sequence < 1 << TURN_BITS:
            raise StoreError(
                f"a session holds {1 << TURN_BITS} turns and no more", code="store.turns"
            )
        place = (number << TURN_BITS) | turn.sequence
        values = (
            place,
            number,
            turn.id,
            turn.turn_id,
            turn.parent_id,
            turn.patch_sequence,
            turn.body,
        )
        if db.execute(_TURN, values).rowcount != 1:
            raise Conflict(f"another turn has the sequence {turn.sequence}")
    for sequence, words in given.words:
        db.execute(
            "REPLACE INTO turn_words (rowid, words) VALUES (?, ?)",
            ((number << TURN_BITS) | sequence, words),
        )


def _write_session(db: sqlite3.Connection, found: Found, step: Step, last: int) -> None:
    next_entry = max([found.next_entry, *(turn.sequence + 1 for turn in step.turns)])
    projected = last if step.is_projected else None
    row = step.session
    if row is None:
        db.execute(_COUNT, (last, next_entry, projected, found.number))
        return
    shown = (
        row.intent,
        row.status,
        row.created_at,
        row.updated_at,
        row.is_pinned,
        row.head,
        row.body,
    )
    db.execute(_UPDATE, (last, next_entry, projected, *shown, found.number))
    if row.intent != found.intent:
        db.execute(
            "REPLACE INTO intent_words (rowid, words) VALUES (?, ?)",
            (found.number, indexed(row.intent)),
        )


def _write_rest(db: sqlite3.Connection, found: Found, step: Step, last: int) -> None:
    number = found.number
    for point in step.checkpoints:
        shown = (point.id, point.turn_id, point.parent_id, point.label, point.created_at)
        db.execute(_CHECKPOINT, (number, *shown, found.last))
    for sha256 in step.blobs:
        db.execute(
            "INSERT INTO blobs (sha256, session) VALUES (?, ?) ON CONFLICT DO NOTHING",
            (sha256, number),
        )
    if step.run is not None:
        _runs.queue(db, number, step.run)
    if step.run_end is not None:
        _runs.end(db, step.fence, step.run_end)
    if step.client_message_id is not None:
        first = min(found.last + 1, last)
        run_id = step.run.id if step.run else None
        values = (number, step.client_message_id, first, last, run_id)
        db.execute(
            "INSERT INTO client_messages (session, id, first, last, run_id) VALUES (?, ?, ?, ?, ?)",
            values,
        )
