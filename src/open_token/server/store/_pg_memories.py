"""What agents remember for a user, in PostgreSQL."""

import math
from collections.abc import Collection, Mapping
from typing import Any

import asyncpg
import msgspec

from open_token.errors import StoreError
from open_token.server.store._faults import Missing
from open_token.server.store._memories import CHANGEABLE, STATUS, like
from open_token.server.store._pg_schema import TERMS
from open_token.server.store._terms import any_of, stored
from open_token.server.store.rows import MemoryFilter, MemoryPage, MemoryRow, NewMemory

_COLUMNS = ", ".join(MemoryRow.__struct_fields__)
_NEW = NewMemory.__struct_fields__
_MOST_RANKED = 500


async def add_memory(
    db: asyncpg.Connection, user_id: str, memory: NewMemory, supersedes: Collection[int] = ()
) -> MemoryRow:
    """Remember something; it takes the place of what it supersedes."""
    if not await db.fetchval("SELECT 1 FROM users WHERE id = $1", user_id):
        raise Missing("user")
    places = ", ".join(f"${place}" for place in range(1, len(_NEW) + 3))
    row = await db.fetchrow(
        f"INSERT INTO memories (user_id, words, {', '.join(_NEW)}) VALUES ({places}) RETURNING {_COLUMNS}",
        *(user_id, stored(memory.content), *(getattr(memory, name) for name in _NEW)),
    )
    made = MemoryRow(**dict(row))
    await db.execute(
        """UPDATE memories SET superseded_by = $1, updated_at = $2
        WHERE user_id = $3 AND id <> $1 AND id = ANY ($4::bigint[])""",
        *(made.id, memory.created_at, user_id, list(supersedes)),
    )
    return made


async def memory(db: asyncpg.Connection, user_id: str, memory_id: int) -> MemoryRow | None:
    """One memory, if it is this user's."""
    row = await db.fetchrow(
        f"SELECT {_COLUMNS} FROM memories WHERE id = $1 AND user_id = $2", memory_id, user_id
    )
    return row and MemoryRow(**dict(row))


async def memories(
    db: asyncpg.Connection,
    user_id: str,
    which: MemoryFilter | None = None,
    limit: int = 20,
    offset: int = 0,
) -> MemoryPage:
    """A part of a user's memories, newest first."""
    where, values = ["user_id = $1"], [user_id]
    for name, value in msgspec.structs.asdict(which or MemoryFilter()).items():
        if value is None:
            continue
        if name == "status":
            where.append(STATUS[value])
            continue
        values.append(like(value) if name == "keyword" else value)
        where.append(
            f"content ILIKE ${len(values)}" if name == "keyword" else f"{name} = ${len(values)}"
        )
    those = f"FROM memories WHERE {' AND '.join(where)}"
    total = await db.fetchval(f"SELECT count(*) {those}", *values)
    place = len(values)
    rows = await db.fetch(
        f"SELECT {_COLUMNS} {those} ORDER BY id DESC LIMIT ${place + 1} OFFSET ${place + 2}",
        *values,
        limit,
        offset,
    )
    return MemoryPage(items=[MemoryRow(**dict(row)) for row in rows], total=total)


async def change_memory(
    db: asyncpg.Connection, user_id: str, memory_id: int, changes: Mapping[str, Any], at: str
) -> MemoryRow | None:
    """Give a memory other values; None when the user has no such memory."""
    if strange := set(changes) - CHANGEABLE:
        raise StoreError(f"a memory does not let {min(strange)} be changed", code="store.value")
    new = {"updated_at": at, **changes}
    if "content" in changes:
        new["words"] = stored(changes["content"])
    sets = ", ".join(f"{name} = ${place}" for place, name in enumerate(new, start=3))
    row = await db.fetchrow(
        f"UPDATE memories SET {sets} WHERE id = $1 AND user_id = $2 RETURNING {_COLUMNS}",
        *(memory_id, user_id, *new.values()),
    )
    return row and MemoryRow(**dict(row))


async def delete_memories(db: asyncpg.Connection, user_id: str, ids: Collection[int]) -> int:
    """Forget; tells how many there were."""
    return _count(
        await db.execute(
            "DELETE FROM memories WHERE user_id = $1 AND id = ANY ($2::bigint[])",
            user_id,
            list(ids),
        )
    )


async def disable_memories(
    db: asyncpg.Connection, user_id: str, ids: Collection[int], is_off: bool, at: str
) -> int:
    """Keep memories from being used, or let them be used again; tells how many there were."""
    return _count(
        await db.execute(
            "UPDATE memories SET disabled = $1, updated_at = $2 WHERE user_id = $3 AND id = ANY ($4::bigint[])",
            *(is_off, at, user_id, list(ids)),
        )
    )


async def relevant_memories(
    db: asyncpg.Connection, user_id: str, text: str, limit: int = 5
) -> list[MemoryRow]:
    """The memories in use that have most to do with a text, best first: rare words weigh more than
    usual ones."""
    sought = any_of(text)
    if sought is None:
        return []
    rows = await db.fetch(
        f"""SELECT {_COLUMNS}, words FROM memories
        WHERE {TERMS} @@ $1::text::tsquery AND user_id = $2 AND {STATUS["active"]} ORDER BY id DESC LIMIT $3""",
        *(sought.query("|"), user_id, _MOST_RANKED),
    )
    phrases = [f" {' '.join(phrase)} " for phrase in sought.phrases]
    held = {phrase: sum(phrase in row["words"] for row in rows) for phrase in phrases}
    weights = {phrase: math.log(1 + len(rows) / count) for phrase, count in held.items() if count}
    scored = [
        (sum(weight for phrase, weight in weights.items() if phrase in row["words"]), row)
        for row in rows
    ]
    best = sorted(
        (score for score in scored if score[0]),
        key=lambda score: (-score[0], len(score[1]["words"])),
    )
    return [
        MemoryRow(**{name: row[name] for name in MemoryRow.__struct_fields__})
        for _, row in best[:limit]
    ]


async def hit_memories(db: asyncpg.Connection, user_id: str, ids: Collection[int], at: str) -> int:
    """Count that memories were used; tells how many there were."""
    return _count(
        await db.execute(
            """UPDATE memories SET hit_count = hit_count + 1, last_hit_at = $1
            WHERE user_id = $2 AND id = ANY ($3::bigint[])""",
            *(at, user_id, list(ids)),
        )
    )


def _count(status: str) -> int:
    return int(status.split()[-1])
