"""Memories in PostgreSQL."""

import math
from collections.abc import Collection, Mapping
from typing import Any

import asyncpg
import msgspec

from open_token.errors import StoreError
from open_token.server.store.errors import NotFoundError
from open_token.server.store.postgres.schema import TERMS
from open_token.server.store.postgres.search_terms import match_any_query, to_stored_words
from open_token.server.store.rows import MemoryFilter, MemoryPage, MemoryRow, NewMemory
from open_token.server.store.sqlite.memories import CHANGEABLE, STATUS, escape_like

_COLUMNS = ", ".join(MemoryRow.__struct_fields__)
_NEW_FIELDS = NewMemory.__struct_fields__
_MAX_RANKED = 500


async def add_memory(
    db: asyncpg.Connection, user_id: str, memory: NewMemory, supersedes: Collection[int] = ()
) -> MemoryRow:
    """Add a memory that supersedes others."""
    if not await db.fetchval("SELECT 1 FROM users WHERE id = $1", user_id):
        raise NotFoundError("user")
    values = [getattr(memory, name) for name in _NEW_FIELDS]
    placeholders = ", ".join(f"${number}" for number in range(1, len(_NEW_FIELDS) + 3))
    row = await db.fetchrow(
        f"""INSERT INTO memories (user_id, words, {", ".join(_NEW_FIELDS)})
        VALUES ({placeholders}) RETURNING {_COLUMNS}""",
        user_id,
        to_stored_words(memory.content),
        *values,
    )
    added = MemoryRow(**dict(row))
    await db.execute(
        """UPDATE memories SET superseded_by = $1, updated_at = $2
        WHERE user_id = $3 AND id <> $1 AND id = ANY ($4::bigint[])""",
        added.id,
        memory.created_at,
        user_id,
        list(supersedes),
    )
    return added


async def get_memory(db: asyncpg.Connection, user_id: str, memory_id: int) -> MemoryRow | None:
    """Return a memory of the user."""
    row = await db.fetchrow(
        f"SELECT {_COLUMNS} FROM memories WHERE id = $1 AND user_id = $2", memory_id, user_id
    )
    return row and MemoryRow(**dict(row))


async def list_memories(
    db: asyncpg.Connection,
    user_id: str,
    which: MemoryFilter | None = None,
    limit: int = 20,
    offset: int = 0,
) -> MemoryPage:
    """Return a page of a user's memories, newest first."""
    where = ["user_id = $1"]
    values = [user_id]
    for name, value in msgspec.structs.asdict(which or MemoryFilter()).items():
        if value is None:
            continue
        if name == "status":
            where.append(STATUS[value])
        elif name == "keyword":
            values.append(escape_like(value))
            where.append(f"content ILIKE ${len(values)}")
        else:
            values.append(value)
            where.append(f"{name} = ${len(values)}")
    selection = f"FROM memories WHERE {' AND '.join(where)}"
    total = await db.fetchval(f"SELECT count(*) {selection}", *values)
    count = len(values)
    rows = await db.fetch(
        f"SELECT {_COLUMNS} {selection} ORDER BY id DESC LIMIT ${count + 1} OFFSET ${count + 2}",
        *values,
        limit,
        offset,
    )
    return MemoryPage(items=[MemoryRow(**dict(row)) for row in rows], total=total)


async def change_memory(
    db: asyncpg.Connection, user_id: str, memory_id: int, changes: Mapping[str, Any], at: str
) -> MemoryRow | None:
    """Change fields of a memory; None when the user has no such memory."""
    unknown = set(changes) - CHANGEABLE
    if unknown:
        raise StoreError(f"{min(unknown)} of a memory cannot be changed", code="store.value")
    values = {"updated_at": at, **changes}
    if "content" in changes:
        values["words"] = to_stored_words(changes["content"])
    assignments = ", ".join(f"{name} = ${number}" for number, name in enumerate(values, start=3))
    row = await db.fetchrow(
        f"UPDATE memories SET {assignments} WHERE id = $1 AND user_id = $2 RETURNING {_COLUMNS}",
        memory_id,
        user_id,
        *values.values(),
    )
    return row and MemoryRow(**dict(row))


async def delete_memories(db: asyncpg.Connection, user_id: str, ids: Collection[int]) -> int:
    """Delete memories; return the count."""
    status = await db.execute(
        "DELETE FROM memories WHERE user_id = $1 AND id = ANY ($2::bigint[])", user_id, list(ids)
    )
    return _parse_count(status)


async def disable_memories(
    db: asyncpg.Connection, user_id: str, ids: Collection[int], is_off: bool, at: str
) -> int:
    """Disable memories, or enable them again; return the count."""
    status = await db.execute(
        """UPDATE memories SET disabled = $1, updated_at = $2
        WHERE user_id = $3 AND id = ANY ($4::bigint[])""",
        is_off,
        at,
        user_id,
        list(ids),
    )
    return _parse_count(status)


async def find_relevant_memories(
    db: asyncpg.Connection, user_id: str, text: str, limit: int = 5
) -> list[MemoryRow]:
    """Return the active memories most relevant to a text, best first; rare words weigh more."""
    query = match_any_query(text)
    if query is None:
        return []
    rows = await db.fetch(
        f"""SELECT {_COLUMNS}, words FROM memories
        WHERE {TERMS} @@ $1::text::tsquery AND user_id = $2 AND {STATUS["active"]}
        ORDER BY id DESC LIMIT $3""",
        query.to_tsquery("|"),
        user_id,
        _MAX_RANKED,
    )
    weights: dict[str, float] = {}
    for phrase in query.phrases:
        text = f" {' '.join(phrase)} "
        count = sum(text in row["words"] for row in rows)
        if count:
            weights[text] = math.log(1 + len(rows) / count)
    scored = []
    for row in rows:
        score = sum(weight for text, weight in weights.items() if text in row["words"])
        if score:
            scored.append((score, row))
    # The best score first; of equal scores, the shortest memory.
    scored.sort(key=lambda item: (-item[0], len(item[1]["words"])))
    columns = MemoryRow.__struct_fields__
    return [MemoryRow(**{name: row[name] for name in columns}) for _, row in scored[:limit]]


async def record_hits(db: asyncpg.Connection, user_id: str, ids: Collection[int], at: str) -> int:
    """Record the use of memories; return the count."""
    status = await db.execute(
        """UPDATE memories SET hit_count = hit_count + 1, last_hit_at = $1
        WHERE user_id = $2 AND id = ANY ($3::bigint[])""",
        at,
        user_id,
        list(ids),
    )
    return _parse_count(status)


def _parse_count(status: str) -> int:
    return int(status.split()[-1])
