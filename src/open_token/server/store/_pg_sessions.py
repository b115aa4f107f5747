"""Sessions in PostgreSQL, in lists and alone, their turns and checkpoints; every question names the
owner."""

from collections.abc import Collection

import asyncpg

from open_token.server.store._pg_schema import TERMS
from open_token.server.store._schema import COUNT_BITS, TURN_BITS
from open_token.server.store._sessions import GONE, MOST_TURNS_SEARCHED
from open_token.server.store._templates import is_made_from, needle
from open_token.server.store._terms import all_of
from open_token.server.store.rows import Checkpoint, SessionPage, StoredSession, TurnRow

_SESSION = f"SELECT {', '.join(StoredSession.__struct_fields__)} FROM sessions"
_IN_ORDER = "ORDER BY is_pinned DESC, updated_at DESC, number DESC"
_TURN = f"""
    SELECT turns.id, turn_id, (place & {(1 << TURN_BITS) - 1}) AS sequence, turns.parent_id, patch_sequence, body
    FROM turns
"""
_BRANCH = """
    WITH RECURSIVE branch (place, parent_id) AS (
        SELECT place, parent_id FROM turns WHERE session = $1 AND id = $2
        UNION SELECT turns.place, turns.parent_id
        FROM branch JOIN turns ON turns.session = $1 AND turns.id = branch.parent_id
    )
"""
_MATCH = f"{TERMS} @@ $1::text::tsquery AND words LIKE ALL ($2::text[])"


async def session(db: asyncpg.Connection, owner: str, session_id: str) -> StoredSession | None:
    """One session, if it is this owner's."""
    row = await db.fetchrow(f"{_SESSION} WHERE id = $1 AND owner = $2", session_id, owner)
    return row and StoredSession(**dict(row))


async def progress(db: asyncpg.Connection, owner: str, session_id: str) -> tuple[int, int] | None:
    """How far the log of a session has come, and how far its turns are stored; if it is this
    owner's."""
    row = await db.fetchrow(
        "SELECT stream_sequence, projected_sequence FROM sessions WHERE id = $1 AND owner = $2",
        session_id,
        owner,
    )
    return row and (row[0], row[1])


async def heads(db: asyncpg.Connection, session_ids: Collection[str]) -> dict[str, tuple[str, int]]:
    """The owner and the last sequence of sessions of anybody's, for who tells those who watch; not
    of those gone."""
    rows = await db.fetch(
        "SELECT id, owner, stream_sequence FROM sessions WHERE id = ANY ($1::text[])",
        list(session_ids),
    )
    return {name: (owner, last) for name, owner, last in rows}


async def sessions(
    db: asyncpg.Connection,
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
        return await _from_template(db, owner, q, limit, offset, template)
    if q is None or not q.strip():
        held = await db.fetchval("SELECT sessions_held FROM users WHERE id = $1", owner)
        rows = await db.fetch(
            f"{_SESSION} WHERE owner = $1 {_IN_ORDER} LIMIT $2 OFFSET $3", owner, limit, offset
        )
        return SessionPage(items=[StoredSession(**dict(row)) for row in rows], total=held or 0)
    numbers, is_cut = await _matching(db, owner, q)
    return await _page(db, owner, numbers, limit, offset, is_cut)


async def _from_template(
    db: asyncpg.Connection, owner: str, q: str | None, limit: int, offset: int, template: str
) -> SessionPage:
    rows = await db.fetch(
        "SELECT number, body FROM sessions WHERE owner = $1 AND position($2::bytea in body) > 0",
        *(owner, needle(template)),
    )
    numbers, is_cut = {number for number, body in rows if is_made_from(body, template)}, False
    if q is not None and q.strip():
        found, is_cut = await _matching(db, owner, q)
        numbers &= found
    return await _page(db, owner, numbers, limit, offset, is_cut)


async def _page(
    db: asyncpg.Connection,
    owner: str,
    numbers: Collection[int],
    limit: int,
    offset: int,
    is_cut: bool,
) -> SessionPage:
    rows = await db.fetch(
        f"{_SESSION} WHERE number = ANY ($1::bigint[]) AND owner = $2 {_IN_ORDER} LIMIT $3 OFFSET $4",
        *(list(numbers), owner, limit, offset),
    )
    items = [StoredSession(**dict(row)) for row in rows]
    return SessionPage(items=items, total=len(numbers), content_match_truncated=is_cut)


async def delete_session(db: asyncpg.Connection, owner: str, session_id: str) -> bool:
    """Take a session away with everything that belongs to it; False when there is none."""
    row = await db.fetchrow(
        "SELECT number, updated_at FROM sessions WHERE id = $1 AND owner = $2 FOR UPDATE",
        session_id,
        owner,
    )
    if row is None:
        return False
    await db.execute(
        """UPDATE scheduled_runs SET status = 'failed', error = $1, finished_at = $2
        WHERE session_id = $3 AND status = 'running'""",
        *(GONE, row["updated_at"], session_id),
    )
    # What its tools find in their environment, and what messages that waited brought along for
    # theirs.
    own = f"env/{session_id}"
    await db.execute("DELETE FROM settings WHERE key = $1 OR starts_with(key, $2)", own, f"{own}/")
    await db.execute("DELETE FROM log WHERE session = $1", row["number"])
    await db.execute("DELETE FROM sessions WHERE number = $1", row["number"])
    await db.execute("UPDATE users SET sessions_held = sessions_held - 1 WHERE id = $1", owner)
    return True


async def turns(
    db: asyncpg.Connection, owner: str, session_id: str, whole_tree: bool = False
) -> list[TurnRow]:
    """The turns of the current branch in order; or of all branches, in the order in which they
    began."""
    row = await db.fetchrow(
        "SELECT number, head FROM sessions WHERE id = $1 AND owner = $2", session_id, owner
    )
    if row is None:
        return []
    if whole_tree:
        first, end = row["number"] << TURN_BITS, (row["number"] + 1) << TURN_BITS
        found = await db.fetch(
            f"{_TURN} WHERE place >= $1 AND place < $2 ORDER BY place", first, end
        )
    else:
        found = await db.fetch(f"{_BRANCH} {_TURN} JOIN branch USING (place) ORDER BY place", *row)
    return [TurnRow(**dict(turn)) for turn in found]


async def checkpoints(db: asyncpg.Connection, owner: str, session_id: str) -> list[Checkpoint]:
    """The places to go back to, in the order in which they were made."""
    rows = await db.fetch(
        """SELECT checkpoints.id, turn_id, parent_id, label, checkpoints.created_at, seq
        FROM checkpoints JOIN sessions ON number = session
        WHERE sessions.id = $1 AND owner = $2 ORDER BY seq, checkpoints.created_at, checkpoints.id""",
        *(session_id, owner),
    )
    return [Checkpoint(**dict(row)) for row in rows]


async def _matching(db: asyncpg.Connection, owner: str, q: str) -> tuple[set[int], bool]:
    """The numbers of the sessions that have the words, and whether there were more turns than we
    look at."""
    sought = all_of(q)
    user = await db.fetchval("SELECT number FROM users WHERE id = $1", owner)
    if sought is None or user is None:
        return set(), False
    first, end = user << COUNT_BITS, (user + 1) << COUNT_BITS
    what = (sought.query("&"), sought.patterns())
    intents = await db.fetch(
        f"SELECT number FROM sessions WHERE {_MATCH} AND number BETWEEN $3 AND $4",
        *what,
        first,
        end - 1,
    )
    places = await db.fetch(
        f"SELECT place FROM turns WHERE {_MATCH} AND place BETWEEN $3 AND $4 ORDER BY place DESC LIMIT $5",
        *(*what, first << TURN_BITS, (end << TURN_BITS) - 1, MOST_TURNS_SEARCHED + 1),
    )
    numbers = {number for (number,) in intents}
    numbers.update(place >> TURN_BITS for (place,) in places[:MOST_TURNS_SEARCHED])
    return numbers, len(places) > MOST_TURNS_SEARCHED
