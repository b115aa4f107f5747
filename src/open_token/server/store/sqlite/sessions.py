"""Sessions in SQLite: lists, search, turns and checkpoints; every query names the owner."""

import sqlite3
from collections.abc import Collection
from typing import Any

import msgspec

from open_token.server.store.rows import Checkpoint, SessionPage, StoredSession, TurnRow
from open_token.server.store.search_text import match_all_query
from open_token.server.store.sqlite.schema import COUNT_BITS, TURN_BITS
from open_token.server.store.templates import matches_template, template_needle

MAX_TURNS_SEARCHED = 2000
SESSION_DELETED = "the session was deleted"
_MAX_SORTED = 2000
"""So many matches are sorted by the database; of more, the list is walked in its order."""
_SELECT_SESSION = """
    SELECT intent, status, created_at, updated_at, is_pinned, head, body, id, owner,
        stream_sequence, next_entry, projected_sequence
    FROM sessions
"""
_SELECT_SESSION_AND_NUMBER = _SELECT_SESSION.replace(
    "projected_sequence", "projected_sequence, number"
)
_LIST_ORDER = "ORDER BY is_pinned DESC, updated_at DESC, number DESC"
_WITH_BRANCH = """
    WITH RECURSIVE branch (place, parent_id) AS (
        SELECT place, parent_id FROM turns WHERE session = :session AND id = :head
        UNION SELECT turns.place, turns.parent_id
        FROM branch JOIN turns ON turns.session = :session AND turns.id = branch.parent_id
    )
"""
_SELECT_TURN = "SELECT id, turn_id, place, turns.parent_id, patch_sequence, body FROM turns"


def get_session(db: sqlite3.Connection, owner: str, session_id: str) -> StoredSession | None:
    """Return a session of the owner."""
    row = db.execute(
        f"{_SELECT_SESSION} WHERE id = ? AND owner = ?", (session_id, owner)
    ).fetchone()
    return None if row is None else _to_session(row)


def get_progress(db: sqlite3.Connection, owner: str, session_id: str) -> tuple[int, int] | None:
    """Return the last entry of a session's log, and the last one that its stored turns include."""
    row: tuple[int, int] | None = db.execute(
        "SELECT stream_sequence, projected_sequence FROM sessions WHERE id = ? AND owner = ?",
        (session_id, owner),
    ).fetchone()
    return row


def get_heads(db: sqlite3.Connection, session_ids: Collection[str]) -> dict[str, tuple[str, int]]:
    """Return the owner and the last sequence of sessions of any owner; deleted ones are omitted."""
    rows = db.execute(
        """SELECT id, owner, stream_sequence FROM sessions
        WHERE id IN (SELECT value FROM json_each(?))""",
        (_encode_list(session_ids),),
    )
    return {session_id: (owner, last) for session_id, owner, last in rows}


def list_sessions(
    db: sqlite3.Connection,
    owner: str,
    q: str | None = None,
    limit: int = 20,
    offset: int = 0,
    template: str | None = None,
) -> SessionPage:
    """Return a page of the owner's sessions, pinned ones first and then the newest.

    `q` searches intents and turns; `template` is a prefix of the template of the sessions.
    """
    if template:
        return _list_by_template(db, owner, q, limit, offset, template)
    if q is None or not q.strip():
        # A stored count: counting a hundred thousand rows would take longer than reading a page.
        row = db.execute("SELECT sessions_held FROM users WHERE id = ?", (owner,)).fetchone()
        sessions = db.execute(
            f"{_SELECT_SESSION} WHERE owner = ? {_LIST_ORDER} LIMIT ? OFFSET ?",
            (owner, limit, offset),
        )
        items = [_to_session(session) for session in sessions]
        return SessionPage(items=items, total=row[0] if row else 0)
    matches, is_truncated = _find_matches(db, owner, q)
    # Few matches are sorted; of many, the list is walked in its order until the page is full.
    if len(matches) <= _MAX_SORTED:
        numbers = _sort_numbers(db, owner, matches)
    else:
        numbers = _walk_numbers(db, owner, matches, offset + limit)
    return _build_page(db, numbers[offset : offset + limit], len(matches), is_truncated)


def _list_by_template(
    db: sqlite3.Connection, owner: str, q: str | None, limit: int, offset: int, template: str
) -> SessionPage:
    rows = db.execute(
        f"SELECT number, body FROM sessions WHERE owner = ? AND instr(body, ?) {_LIST_ORDER}",
        (owner, template_needle(template)),
    )
    numbers = [number for number, body in rows if matches_template(body, template)]
    is_truncated = False
    if q is not None and q.strip():
        matches, is_truncated = _find_matches(db, owner, q)
        numbers = [number for number in numbers if number in matches]
    return _build_page(db, numbers[offset : offset + limit], len(numbers), is_truncated)


def _build_page(
    db: sqlite3.Connection, numbers: Collection[int], total: int, is_truncated: bool
) -> SessionPage:
    rows = db.execute(
        f"{_SELECT_SESSION_AND_NUMBER} WHERE number IN (SELECT value FROM json_each(?))",
        (_encode_list(numbers),),
    )
    sessions = {row[-1]: _to_session(row[:-1]) for row in rows}
    return SessionPage(
        items=[sessions[number] for number in numbers],
        total=total,
        content_match_truncated=is_truncated,
    )


def delete_session(db: sqlite3.Connection, owner: str, session_id: str) -> bool:
    """Delete a session with everything that belongs to it; return whether it existed."""
    row = db.execute(
        "SELECT number FROM sessions WHERE id = ? AND owner = ?", (session_id, owner)
    ).fetchone()
    if row is None:
        return False
    first = row[0] << TURN_BITS
    db.execute(
        "DELETE FROM turn_words WHERE rowid BETWEEN ? AND ?",
        (first, first | ((1 << TURN_BITS) - 1)),
    )
    db.execute("DELETE FROM intent_words WHERE rowid = ?", row)
    db.execute(
        """UPDATE scheduled_runs SET status = 'failed', error = ?,
            finished_at = (SELECT updated_at FROM sessions WHERE number = ?)
        WHERE session_id = ? AND status = 'running'""",
        (SESSION_DELETED, *row, session_id),
    )
    # The environment of the session's tools, and that of queued messages.
    keys = (f"env/{session_id}", f"env/{session_id}/", f"env/{session_id}0")
    db.execute("DELETE FROM settings WHERE key = ? OR (key >= ? AND key < ?)", keys)
    db.execute("DELETE FROM sessions WHERE number = ?", row)
    db.execute("UPDATE users SET sessions_held = sessions_held - 1 WHERE id = ?", (owner,))
    return True


def list_turns(
    db: sqlite3.Connection, owner: str, session_id: str, whole_tree: bool = False
) -> list[TurnRow]:
    """Return the turns of the current branch, or of the whole tree, in order."""
    row = db.execute(
        "SELECT number, head FROM sessions WHERE id = ? AND owner = ?", (session_id, owner)
    ).fetchone()
    if row is None:
        return []
    number, head = row
    if whole_tree:
        rows = db.execute(
            f"{_SELECT_TURN} WHERE place >= ? AND place < ? ORDER BY place",
            (number << TURN_BITS, (number + 1) << TURN_BITS),
        )
    else:
        rows = db.execute(
            f"{_WITH_BRANCH} {_SELECT_TURN} JOIN branch USING (place) ORDER BY place",
            {"session": number, "head": head},
        )
    return [_to_turn(row) for row in rows]


def list_checkpoints(db: sqlite3.Connection, owner: str, session_id: str) -> list[Checkpoint]:
    """Return the checkpoints in the order in which they were created."""
    rows = db.execute(
        """SELECT checkpoints.id, turn_id, parent_id, label, checkpoints.created_at, seq
        FROM checkpoints JOIN sessions ON number = session
        WHERE sessions.id = ? AND owner = ? ORDER BY seq, checkpoints.created_at, checkpoints.id""",
        (session_id, owner),
    )
    return [Checkpoint(**dict(zip(Checkpoint.__struct_fields__, row, strict=True))) for row in rows]


def _find_matches(db: sqlite3.Connection, owner: str, q: str) -> tuple[set[int], bool]:
    """Return the numbers of matching sessions, and whether more turns matched than were read."""
    query = match_all_query(q)
    row = db.execute("SELECT number FROM users WHERE id = ?", (owner,)).fetchone()
    if query is None or row is None:
        return set(), False
    first = row[0] << COUNT_BITS
    end = (row[0] + 1) << COUNT_BITS
    intents = db.execute(
        "SELECT rowid FROM intent_words WHERE intent_words MATCH ? AND rowid BETWEEN ? AND ?",
        (query, first, end - 1),
    )
    numbers = {number for (number,) in intents}
    turns = db.execute(
        """SELECT rowid FROM turn_words WHERE turn_words MATCH ? AND rowid BETWEEN ? AND ?
        ORDER BY rowid DESC LIMIT ?""",
        (query, first << TURN_BITS, (end << TURN_BITS) - 1, MAX_TURNS_SEARCHED + 1),
    ).fetchall()
    numbers.update(place >> TURN_BITS for (place,) in turns[:MAX_TURNS_SEARCHED])
    return numbers, len(turns) > MAX_TURNS_SEARCHED


def _sort_numbers(db: sqlite3.Connection, owner: str, numbers: Collection[int]) -> list[int]:
    # "+owner" keeps SQLite from using the index of the owner: the lookup by number is faster.
    rows = db.execute(
        f"""SELECT number FROM sessions
        WHERE number IN (SELECT value FROM json_each(?)) AND +owner = ? {_LIST_ORDER}""",
        (_encode_list(numbers), owner),
    )
    return [number for (number,) in rows]


def _walk_numbers(
    db: sqlite3.Connection, owner: str, numbers: Collection[int], count: int
) -> list[int]:
    """Return the first of many numbers: the list is read in its order until there are enough."""
    found = []
    rows = db.execute(f"SELECT number FROM sessions WHERE owner = ? {_LIST_ORDER}", (owner,))
    for (number,) in rows:
        if number in numbers:
            found.append(number)
            if len(found) == count:
                break
    return found


def _encode_list(values: Collection[Any]) -> str:
    return msgspec.json.encode(list(values)).decode()


def _to_session(row: tuple[Any, ...]) -> StoredSession:
    values = dict(zip(StoredSession.__struct_fields__, row, strict=True))
    values["is_pinned"] = bool(values["is_pinned"])
    return StoredSession(**values)


def _to_turn(row: tuple[Any, ...]) -> TurnRow:
    entry_id, turn_id, place, parent_id, patch_sequence, body = row
    return TurnRow(
        id=entry_id,
        turn_id=turn_id,
        sequence=place & ((1 << TURN_BITS) - 1),
        parent_id=parent_id,
        patch_sequence=patch_sequence,
        body=body,
    )
