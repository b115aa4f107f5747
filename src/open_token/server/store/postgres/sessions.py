"""Sessions in PostgreSQL: lists, search, turns and checkpoints; every query names the owner."""

from collections.abc import Collection

import asyncpg

from open_token.server.store.postgres.schema import TERMS
from open_token.server.store.postgres.search_terms import match_all_query
from open_token.server.store.rows import Checkpoint, SessionPage, StoredSession, TurnRow
from open_token.server.store.sqlite.schema import COUNT_BITS, TURN_BITS
from open_token.server.store.sqlite.sessions import MAX_TURNS_SEARCHED, SESSION_DELETED
from open_token.server.store.templates import matches_template, template_needle

_SELECT_SESSION = f"SELECT {', '.join(StoredSession.__struct_fields__)} FROM sessions"
_LIST_ORDER = "ORDER BY is_pinned DESC, updated_at DESC, number DESC"
_SELECT_TURN = f"""
    SELECT turns.id, turn_id, (place & {(1 << TURN_BITS) - 1}) AS sequence, turns.parent_id,
        patch_sequence, body
    FROM turns
"""
_WITH_BRANCH = """
    WITH RECURSIVE branch (place, parent_id) AS (
        SELECT place, parent_id FROM turns WHERE session = $1 AND id = $2
        UNION SELECT turns.place, turns.parent_id
        FROM branch JOIN turns ON turns.session = $1 AND turns.id = branch.parent_id
    )
"""
_MATCH = f"{TERMS} @@ $1::text::tsquery AND words LIKE ALL ($2::text[])"


async def get_session(db: asyncpg.Connection, owner: str, session_id: str) -> StoredSession | None:
    """Return a session of the owner."""
    row = await db.fetchrow(f"{_SELECT_SESSION} WHERE id = $1 AND owner = $2", session_id, owner)
    return row and StoredSession(**dict(row))


async def get_progress(
    db: asyncpg.Connection, owner: str, session_id: str
) -> tuple[int, int] | None:
    """Return the last entry of a session's log, and the last one that its stored turns include."""
    row = await db.fetchrow(
        "SELECT stream_sequence, projected_sequence FROM sessions WHERE id = $1 AND owner = $2",
        session_id,
        owner,
    )
    return row and (row[0], row[1])


async def get_heads(
    db: asyncpg.Connection, session_ids: Collection[str]
) -> dict[str, tuple[str, int]]:
    """Return the owner and the last sequence of sessions of any owner; deleted ones are omitted."""
    rows = await db.fetch(
        "SELECT id, owner, stream_sequence FROM sessions WHERE id = ANY ($1::text[])",
        list(session_ids),
    )
    return {name: (owner, last) for name, owner, last in rows}


async def list_sessions(
    db: asyncpg.Connection,
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
        return await _list_by_template(db, owner, q, limit, offset, template)
    if q is None or not q.strip():
        total = await db.fetchval("SELECT sessions_held FROM users WHERE id = $1", owner)
        rows = await db.fetch(
            f"{_SELECT_SESSION} WHERE owner = $1 {_LIST_ORDER} LIMIT $2 OFFSET $3",
            owner,
            limit,
            offset,
        )
        return SessionPage(items=[StoredSession(**dict(row)) for row in rows], total=total or 0)
    numbers, is_truncated = await _find_matches(db, owner, q)
    return await _build_page(db, owner, numbers, limit, offset, is_truncated)


async def _list_by_template(
    db: asyncpg.Connection, owner: str, q: str | None, limit: int, offset: int, template: str
) -> SessionPage:
    rows = await db.fetch(
        "SELECT number, body FROM sessions WHERE owner = $1 AND position($2::bytea in body) > 0",
        *(owner, template_needle(template)),
    )
    numbers = {number for number, body in rows if matches_template(body, template)}
    is_truncated = False
    if q is not None and q.strip():
        matches, is_truncated = await _find_matches(db, owner, q)
        numbers &= matches
    return await _build_page(db, owner, numbers, limit, offset, is_truncated)


async def _build_page(
    db: asyncpg.Connection,
    owner: str,
    numbers: Collection[int],
    limit: int,
    offset: int,
    is_truncated: bool,
) -> SessionPage:
    rows = await db.fetch(
        f"""{_SELECT_SESSION} WHERE number = ANY ($1::bigint[]) AND owner = $2
        {_LIST_ORDER} LIMIT $3 OFFSET $4""",
        list(numbers),
        owner,
        limit,
        offset,
    )
    items = [StoredSession(**dict(row)) for row in rows]
    return SessionPage(items=items, total=len(numbers), content_match_truncated=is_truncated)


async def delete_session(db: asyncpg.Connection, owner: str, session_id: str) -> bool:
    """Delete a session with everything that belongs to it; return whether it existed."""
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
        *(SESSION_DELETED, row["updated_at"], session_id),
    )
    # The environment of the session's tools, and that of queued messages.
    key = f"env/{session_id}"
    await db.execute("DELETE FROM settings WHERE key = $1 OR starts_with(key, $2)", key, f"{key}/")
    await db.execute("DELETE FROM log WHERE session = $1", row["number"])
    await db.execute("DELETE FROM sessions WHERE number = $1", row["number"])
    await db.execute("UPDATE users SET sessions_held = sessions_held - 1 WHERE id = $1", owner)
    return True


async def list_turns(
    db: asyncpg.Connection, owner: str, session_id: str, whole_tree: bool = False
) -> list[TurnRow]:
    """Return the turns of the current branch, or of the whole tree, in order."""
    row = await db.fetchrow(
        "SELECT number, head FROM sessions WHERE id = $1 AND owner = $2", session_id, owner
    )
    if row is None:
        return []
    if whole_tree:
        turns = await db.fetch(
            f"{_SELECT_TURN} WHERE place >= $1 AND place < $2 ORDER BY place",
            row["number"] << TURN_BITS,
            (row["number"] + 1) << TURN_BITS,
        )
    else:
        turns = await db.fetch(
            f"{_WITH_BRANCH} {_SELECT_TURN} JOIN branch USING (place) ORDER BY place",
            row["number"],
            row["head"],
        )
    return [TurnRow(**dict(turn)) for turn in turns]


async def list_checkpoints(db: asyncpg.Connection, owner: str, session_id: str) -> list[Checkpoint]:
    """Return the checkpoints in the order in which they were created."""
    rows = await db.fetch(
        """SELECT checkpoints.id, turn_id, parent_id, label, checkpoints.created_at, seq
        FROM checkpoints JOIN sessions ON number = session
        WHERE sessions.id = $1 AND owner = $2
        ORDER BY seq, checkpoints.created_at, checkpoints.id""",
        session_id,
        owner,
    )
    return [Checkpoint(**dict(row)) for row in rows]


async def _find_matches(db: asyncpg.Connection, owner: str, q: str) -> tuple[set[int], bool]:
    """Return the numbers of matching sessions, and whether more turns matched than were read."""
    query = match_all_query(q)
    user = await db.fetchval("SELECT number FROM users WHERE id = $1", owner)
    if query is None or user is None:
        return set(), False
    # The number of a session begins with that of its owner, and the place of a turn with that of
    # its session: a range of numbers selects what the owner may see, without a join.
    first = user << COUNT_BITS
    end = (user + 1) << COUNT_BITS
    words = query.to_tsquery("&")
    patterns = query.to_like_patterns()
    intents = await db.fetch(
        f"SELECT number FROM sessions WHERE {_MATCH} AND number BETWEEN $3 AND $4",
        words,
        patterns,
        first,
        end - 1,
    )
    turns = await db.fetch(
        f"""SELECT place FROM turns WHERE {_MATCH} AND place BETWEEN $3 AND $4
        ORDER BY place DESC LIMIT $5""",
        words,
        patterns,
        first << TURN_BITS,
        (end << TURN_BITS) - 1,
        MAX_TURNS_SEARCHED + 1,
    )
    numbers = {number for (number,) in intents}
    numbers.update(place >> TURN_BITS for (place,) in turns[:MAX_TURNS_SEARCHED])
    return numbers, len(turns) > MAX_TURNS_SEARCHED
