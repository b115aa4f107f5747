"""Sessions in lists and alone, their turns and checkpoints; every question names the owner."""

import sqlite3
from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from open_token.server.store._schema import COUNT_BITS, TURN_BITS
from open_token.server.store._templates import is_made_from, needle
from open_token.server.store._words import all_of
from open_token.server.store.rows import Checkpoint, SessionPage, StoredSession, TurnRow

MOST_TURNS_SEARCHED = 2000
GONE = "the session was deleted"
_FEW = 2000
_SESSION = """
    SELECT intent, status, created_at, updated_at, is_pinned, head, body, id, owner, stream_sequence, next_entry,
        projected_sequence
    FROM sessions
"""
_IN_ORDER = "ORDER BY is_pinned DESC, updated_at DESC, number DESC"
_BRANCH = """
    WITH RECURSIVE branch (place, parent_id) AS (
        SELECT place, parent_id FROM turns WHERE session = :session AND id = :head
        UNION SELECT turns.place, turns.parent_id
        FROM branch JOIN turns ON turns.session = :session AND turns.id = branch.parent_id
    )
"""
_TURN = "SELECT id, turn_id, place, turns.parent_id, patch_sequence, body FROM turns"


def session(db: sqlite3.Connection, owner: str, session_id: str) -> StoredSession | None:
    """One session, if it is this owner's."""
    row = db.execute(f"{_SESSION} WHERE id = ? AND owner = ?", (session_id, owner)).fetchone()
    return row and _session(row)


def progress(db: sqlite3.Connection, owner: str, session_id: str) -> tuple[int, int] | None:
    """How far the log of a session has come, and how far its turns are stored; if it is this
    owner's."""
    row: tuple[int, int] | None = db.execute(
        "SELECT stream_sequence, projected_sequence FROM sessions WHERE id = ? AND owner = ?",
        (session_id, owner),
    ).fetchone()
    return row


def heads(db: sqlite3.Connection, session_ids: Collection[str]) -> dict[str, tuple[str, int]]:
    """The owner and the last sequence of sessions of anybody's, for who tells those who watch; not
    of those gone."""
    rows = db.execute(
        "SELECT id, owner, stream_sequence FROM sessions WHERE id IN (SELECT value FROM json_each(?))",
        (msgspec.json.encode(list(session_ids)).decode(),),
    )
    return {name: (owner, last) for name, owner, last in rows}


def sessions(
    db: sqlite3.Connection,
    owner: str,
    q: str | None = None,
    limit: int = 20,
    offset: int = 0,
    template: str | None = None,
) -> SessionPage:
    """A part of an owner's list, pinned ones first and then the newest; `q` looks in intents and in
    turns.

    `template` is how the template begins that the sessions were made from."""
    if template:
        return _from_template(db, owner, q, limit, offset, template)
    if q is None or not q.strip():
        held = db.execute("SELECT sessions_held FROM users WHERE id = ?", (owner,)).fetchone()
        rows = db.execute(
            f"{_SESSION} WHERE owner = ? {_IN_ORDER} LIMIT ? OFFSET ?", (owner, limit, offset)
        )
        return SessionPage(items=[_session(row) for row in rows], total=held[0] if held else 0)
    numbers, is_cut = _matching(db, owner, q)
    items = (
        _few(db, owner, numbers)
        if len(numbers) <= _FEW
        else _many(db, owner, numbers, offset + limit)
    )
    return _page(db, items[offset : offset + limit], len(numbers), is_cut)


def _from_template(
    db: sqlite3.Connection, owner: str, q: str | None, limit: int, offset: int, template: str
) -> SessionPage:
    rows = db.execute(
        f"SELECT number, body FROM sessions WHERE owner = ? AND instr(body, ?) {_IN_ORDER}",
        (owner, needle(template)),
    )
    items, is_cut = [number for number, body in rows if is_made_from(body, template)], False
    if q is not None and q.strip():
        numbers, is_cut = _matching(db, owner, q)
        items = [number for number in items if number in numbers]
    return _page(db, items[offset : offset + limit], len(items), is_cut)


def _page(db: sqlite3.Connection, wanted: Collection[int], total: int, is_cut: bool) -> SessionPage:
    whole = {row[-1]: _session(row[:-1]) for row in _whole(db, wanted)}
    return SessionPage(
        items=[whole[number] for number in wanted], total=total, content_match_truncated=is_cut
    )


def delete_session(db: sqlite3.Connection, owner: str, session_id: str) -> bool:
    """Take a session away with everything that belongs to it; False when there is none."""
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
        """UPDATE scheduled_runs SET status = 'failed', error = ?, finished_at = (SELECT updated_at FROM sessions
        WHERE number = ?) WHERE session_id = ? AND status = 'running'""",
        (GONE, *row, session_id),
    )
    # What its tools find in their environment, and what messages that waited brought along for
    # theirs.
    below = (f"env/{session_id}", f"env/{session_id}/", f"env/{session_id}0")
    db.execute("DELETE FROM settings WHERE key = ? OR (key >= ? AND key < ?)", below)
    db.execute("DELETE FROM sessions WHERE number = ?", row)
    db.execute("UPDATE users SET sessions_held = sessions_held - 1 WHERE id = ?", (owner,))
    return True


def turns(
    db: sqlite3.Connection, owner: str, session_id: str, whole_tree: bool = False
) -> list[TurnRow]:
    """The turns of the current branch in order; or of all branches, in the order in which they
    began."""
    row = db.execute(
        "SELECT number, head FROM sessions WHERE id = ? AND owner = ?", (session_id, owner)
    ).fetchone()
    if row is None:
        return []
    values = {
        "session": row[0],
        "head": row[1],
        "first": row[0] << TURN_BITS,
        "end": (row[0] + 1) << TURN_BITS,
    }
    if whole_tree:
        found = db.execute(f"{_TURN} WHERE place >= :first AND place < :end ORDER BY place", values)
    else:
        found = db.execute(f"{_BRANCH} {_TURN} JOIN branch USING (place) ORDER BY place", values)
    return [_turn(row) for row in found]


def checkpoints(db: sqlite3.Connection, owner: str, session_id: str) -> list[Checkpoint]:
    """The places to go back to, in the order in which they were made."""
    rows = db.execute(
        """SELECT checkpoints.id, turn_id, parent_id, label, checkpoints.created_at, seq
        FROM checkpoints JOIN sessions ON number = session
        WHERE sessions.id = ? AND owner = ? ORDER BY seq, checkpoints.created_at, checkpoints.id""",
        (session_id, owner),
    )
    return [Checkpoint(**dict(zip(Checkpoint.__struct_fields__, row, strict=True))) for row in rows]


def _matching(db: sqlite3.Connection, owner: str, q: str) -> tuple[set[int], bool]:
    """The numbers of the sessions that have the words, and whether there were more turns than we
    look at."""
    query = all_of(q)
    row = db.execute("SELECT number FROM users WHERE id = ?", (owner,)).fetchone()
    if query is None or row is None:
        return set(), False
    first, end = row[0] << COUNT_BITS, (row[0] + 1) << COUNT_BITS
    intents = db.execute(
        "SELECT rowid FROM intent_words WHERE intent_words MATCH ? AND rowid BETWEEN ? AND ?",
        (query, first, end - 1),
    )
    numbers = {number for (number,) in intents}
    places = db.execute(
        """SELECT rowid FROM turn_words WHERE turn_words MATCH ? AND rowid BETWEEN ? AND ?
        ORDER BY rowid DESC LIMIT ?""",
        (query, first << TURN_BITS, (end << TURN_BITS) - 1, MOST_TURNS_SEARCHED + 1),
    ).fetchall()
    numbers.update(place >> TURN_BITS for (place,) in places[:MOST_TURNS_SEARCHED])
    return numbers, len(places) > MOST_TURNS_SEARCHED


def _few(db: sqlite3.Connection, owner: str, numbers: Collection[int]) -> list[int]:
    rows = db.execute(
        f"SELECT number FROM sessions WHERE number IN (SELECT value FROM json_each(?)) AND +owner = ? {_IN_ORDER}",
        (_json(numbers), owner),
    )
    return [number for (number,) in rows]


def _many(db: sqlite3.Connection, owner: str, numbers: Collection[int], wanted: int) -> list[int]:
    """The first ones of many: the list is walked in its order until there are enough."""
    found = []
    for (number,) in db.execute(
        f"SELECT number FROM sessions WHERE owner = ? {_IN_ORDER}", (owner,)
    ):
        if number in numbers:
            found.append(number)
            if len(found) == wanted:
                break
    return found


def _whole(db: sqlite3.Connection, numbers: Collection[int]) -> Iterable[tuple[Any, ...]]:
    columns = _SESSION.replace("projected_sequence", "projected_sequence, number")
    return db.execute(
        f"{columns} WHERE number IN (SELECT value FROM json_each(?))", (_json(numbers),)
    )


def _json(numbers: Collection[int]) -> str:
    return msgspec.json.encode(list(numbers)).decode()


def _session(row: tuple[Any, ...]) -> StoredSession:
    values = dict(zip(StoredSession.__struct_fields__, row, strict=True))
    return StoredSession(**values | {"is_pinned": bool(values["is_pinned"])})


def _turn(row: tuple[Any, ...]) -> TurnRow:
    entry_id, turn_id, place, parent_id, patch_sequence, body = row
    return TurnRow(
        id=entry_id,
        turn_id=turn_id,
        sequence=place & ((1 << TURN_BITS) - 1),
        parent_id=parent_id,
        patch_sequence=patch_sequence,
        body=body,
    )
