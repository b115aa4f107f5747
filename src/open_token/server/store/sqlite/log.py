"""The log of a session in SQLite, and the rows that are written together with it.

One `SessionWrite` is one transaction, or a part of one.
"""

import sqlite3
from collections.abc import Callable
from typing import Any

import msgspec

from open_token.errors import StoreError
from open_token.model.log_events import LogEntry
from open_token.server.store.errors import ConflictError, NotFoundError
from open_token.server.store.rows import Appended, SessionWrite
from open_token.server.store.search_text import to_index_text
from open_token.server.store.sqlite import runs, shares
from open_token.server.store.sqlite.schema import COUNT_BITS, TURN_BITS

_encode = msgspec.json.Encoder().encode
_decode: Callable[[str], dict[str, Any]] = msgspec.json.Decoder(dict[str, Any]).decode

_FIND_SESSION = """
    SELECT number, stream_sequence, next_entry, intent FROM sessions WHERE id = ? AND owner = ?
"""
_UPDATE_SESSION = """
    UPDATE sessions
    SET stream_sequence = ?, next_entry = ?, projected_sequence = ifnull(?, projected_sequence),
        intent = ?, status = ?, created_at = ?, updated_at = ?, is_pinned = ?, head = ?, body = ?
    WHERE number = ?
"""
_UPDATE_COUNTS = """
    UPDATE sessions
    SET stream_sequence = ?, next_entry = ?, projected_sequence = ifnull(?, projected_sequence)
    WHERE number = ?
"""
_UPSERT_TURN = """
    INSERT INTO turns (place, session, id, turn_id, parent_id, patch_sequence, body)
    VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (place) DO UPDATE SET turn_id = excluded.turn_id, parent_id = excluded.parent_id,
        patch_sequence = excluded.patch_sequence, body = excluded.body WHERE id = excluded.id
"""
_INSERT_CHECKPOINT = """
    INSERT INTO checkpoints (session, id, turn_id, parent_id, label, created_at, seq)
    VALUES (?, ?, ?, ?, ?, ?, ?)
"""


class SessionHead(msgspec.Struct, frozen=True):
    """A session as a write finds it."""

    number: int
    last: int
    next_entry: int
    intent: str | None
    """None for a session that does not exist yet."""


class PreparedWrite(msgspec.Struct, frozen=True):
    """A write whose values are encoded already."""

    step: SessionWrite
    entries: list[tuple[str, str, str]]
    words: list[tuple[int, str]]


def prepare_write(write: SessionWrite) -> PreparedWrite:
    """Encode a write in the thread of the caller: the writer thread has no time to lose."""
    try:
        entries = [(entry.at, entry.kind, _encode(entry.data).decode()) for entry in write.entries]
    except (TypeError, ValueError, OverflowError, RecursionError):
        raise StoreError(
            "a log entry cannot be encoded as JSON",
            help="check its numbers and texts",
            code="store.json",
        ) from None
    words = []
    for turn in write.turns:
        if turn.text is not None:
            words.append((turn.sequence, to_index_text(turn.text)))
    return PreparedWrite(write, entries, words)


def append_write(db: sqlite3.Connection, prepared: PreparedWrite) -> Appended:
    """Write to a session; everything that may refuse the write is checked first."""
    write = prepared.step
    head = _find_session(db, write)
    if write.client_message_id is not None:
        earlier = _find_client_message(db, head.number, write.client_message_id)
        if earlier is not None:
            return earlier
    if write.expected is not None and write.expected != head.last:
        raise ConflictError(f"the log has advanced to {head.last}", actual=head.last)
    if write.fence is not None:
        runs.check_fence(db, head.number, write.fence)
    if head.intent is None:
        head = _create_session(db, write)
    last = _write_log(db, head, prepared)
    _write_turns(db, head.number, prepared)
    _write_session(db, head, write, last)
    _write_references(db, head, write, last)
    first = head.last + 1 if prepared.entries else head.last
    return Appended(first=first, last=last, run_id=write.run.id if write.run else None)


def read_log(
    db: sqlite3.Connection, owner: str, session_id: str, after: int = 0, limit: int = 100
) -> list[LogEntry]:
    """Return up to `limit` entries after a sequence, in order."""
    rows = db.execute(
        """SELECT seq, at, kind, data FROM log
        WHERE session = (SELECT number FROM sessions WHERE id = ? AND owner = ?) AND seq > ?
        ORDER BY seq LIMIT ?""",
        (session_id, owner, after, limit),
    )
    return [LogEntry(session_id, seq, at, kind, _decode(data)) for seq, at, kind, data in rows]


def _find_session(db: sqlite3.Connection, write: SessionWrite) -> SessionHead:
    row = db.execute(_FIND_SESSION, (write.session_id, write.owner)).fetchone()
    if row is not None:
        return SessionHead(*row)
    if write.expected != 0 or write.session is None:
        raise NotFoundError("session")
    if db.execute("SELECT 1 FROM sessions WHERE id = ?", (write.session_id,)).fetchone():
        raise NotFoundError("session")
    return SessionHead(0, 0, 0, None)


def _find_client_message(
    db: sqlite3.Connection, number: int, client_message_id: str
) -> Appended | None:
    row = db.execute(
        "SELECT first, last, run_id FROM client_messages WHERE session = ? AND id = ?",
        (number, client_message_id),
    ).fetchone()
    if row is None:
        return None
    return Appended(first=row[0], last=row[1], run_id=row[2], repeated=True)


def _create_session(db: sqlite3.Connection, write: SessionWrite) -> SessionHead:
    row = db.execute(
        """UPDATE users
        SET sessions_made = sessions_made + 1, sessions_held = sessions_held + 1
        WHERE id = ? RETURNING number, sessions_made""",
        (write.owner,),
    ).fetchone()
    if row is None:
        raise NotFoundError("user")
    number = (row[0] << COUNT_BITS) | row[1]
    db.execute(
        """INSERT INTO sessions
        (number, id, owner, intent, status, created_at, updated_at, is_pinned, body)
        VALUES (?, ?, ?, '', '', '', '0000-00-00T00:00:00.000Z', 0, x'')""",
        (number, write.session_id, write.owner),
    )
    return SessionHead(number, 0, 0, None)


def _write_log(db: sqlite3.Connection, head: SessionHead, prepared: PreparedWrite) -> int:
    """Append the entries; return the sequence number of the last one."""
    # Numbered here, inside the transaction that has compared `head.last` with what the writer
    # expected. (session, seq) is unique in any case: two writers never store the same number.
    rows = []
    for seq, entry in enumerate(prepared.entries, start=head.last + 1):
        rows.append((head.number, seq, *entry))
    db.executemany("INSERT INTO log (session, seq, at, kind, data) VALUES (?, ?, ?, ?, ?)", rows)
    return head.last + len(rows)


def _write_turns(db: sqlite3.Connection, number: int, prepared: PreparedWrite) -> None:
    max_turns = 1 << TURN_BITS
    for turn in prepared.step.turns:
        if not 0 <= turn.sequence < max_turns:
            raise StoreError(f"a session holds at most {max_turns} turns", code="store.turns")
        values = (
            (number << TURN_BITS) | turn.sequence,
            number,
            turn.id,
            turn.turn_id,
            turn.parent_id,
            turn.patch_sequence,
            turn.body,
        )
        if db.execute(_UPSERT_TURN, values).rowcount != 1:
            raise ConflictError(f"another turn has the sequence {turn.sequence}")
    for sequence, words in prepared.words:
        db.execute(
            "REPLACE INTO turn_words (rowid, words) VALUES (?, ?)",
            ((number << TURN_BITS) | sequence, words),
        )


def _write_session(
    db: sqlite3.Connection, head: SessionHead, write: SessionWrite, last: int
) -> None:
    next_entry = max([head.next_entry, *(turn.sequence + 1 for turn in write.turns)])
    projected = last if write.is_projected else None
    row = write.session
    if row is None:
        db.execute(_UPDATE_COUNTS, (last, next_entry, projected, head.number))
        return
    values = (
        row.intent,
        row.status,
        row.created_at,
        row.updated_at,
        row.is_pinned,
        row.head,
        row.body,
    )
    db.execute(_UPDATE_SESSION, (last, next_entry, projected, *values, head.number))
    if row.intent != head.intent:
        db.execute(
            "REPLACE INTO intent_words (rowid, words) VALUES (?, ?)",
            (head.number, to_index_text(row.intent)),
        )


def _write_references(
    db: sqlite3.Connection, head: SessionHead, write: SessionWrite, last: int
) -> None:
    """Write checkpoints, blob references, the run and the client message id."""
    number = head.number
    for point in write.checkpoints:
        values = (point.id, point.turn_id, point.parent_id, point.label, point.created_at)
        db.execute(_INSERT_CHECKPOINT, (number, *values, head.last))
    for sha256 in write.blobs:
        db.execute(
            "INSERT INTO blobs (sha256, session) VALUES (?, ?) ON CONFLICT DO NOTHING",
            (sha256, number),
        )
    if write.run is not None:
        runs.queue_run(db, number, write.run)
    if write.run_end is not None:
        runs.end_run(db, write.fence, write.run_end)
    for key, value in write.settings.items():
        shares.set_setting(db, key, value)
    if write.client_message_id is not None:
        first = min(head.last + 1, last)
        run_id = write.run.id if write.run else None
        db.execute(
            "INSERT INTO client_messages (session, id, first, last, run_id) VALUES (?, ?, ?, ?, ?)",
            (number, write.client_message_id, first, last, run_id),
        )
