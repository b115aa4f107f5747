"""What agents remember for a user: kept, filtered, found by words, counted when used, replaced by
what is newer."""

import sqlite3
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from open_token.errors import StoreError
from open_token.server.store._faults import Missing
from open_token.server.store._words import any_of, indexed
from open_token.server.store.rows import MemoryFilter, MemoryPage, MemoryRow, NewMemory

_COLUMNS = ", ".join(MemoryRow.__struct_fields__)
_NEW = NewMemory.__struct_fields__
_INSERT = f"INSERT INTO memories (user_id, {', '.join(_NEW)}) VALUES (?{', ?' * len(_NEW)}) RETURNING {_COLUMNS}"
CHANGEABLE = frozenset(_NEW) - {"created_at", "source_session"}
STATUS = {
    "active": "NOT disabled AND superseded_by IS NULL",
    "disabled": "disabled",
    "superseded": "superseded_by IS NOT NULL",
}


def add_memory(
    db: sqlite3.Connection, user_id: str, memory: NewMemory, supersedes: Collection[int] = ()
) -> MemoryRow:
    """Remember something; it takes the place of what it supersedes."""
    if not db.execute("SELECT 1 FROM users WHERE id = ?", (user_id,)).fetchone():
        raise Missing("user")
    row = _row(db.execute(_INSERT, (user_id, *(getattr(memory, name) for name in _NEW))).fetchone())
    db.execute(
        "INSERT INTO memory_words (rowid, words) VALUES (?, ?)", (row.id, indexed(memory.content))
    )
    db.execute(
        """UPDATE memories SET superseded_by = ?, updated_at = ?
        WHERE user_id = ? AND id <> ? AND id IN (SELECT value FROM json_each(?))""",
        (row.id, memory.created_at, user_id, row.id, _json(supersedes)),
    )
    return row


def memory(db: sqlite3.Connection, user_id: str, memory_id: int) -> MemoryRow | None:
    """One memory, if it is this user's."""
    found = db.execute(
        f"SELECT {_COLUMNS} FROM memories WHERE id = ? AND user_id = ?", (memory_id, user_id)
    ).fetchone()
    return found and _row(found)


def memories(
    db: sqlite3.Connection,
    user_id: str,
    which: MemoryFilter | None = None,
    limit: int = 20,
    offset: int = 0,
) -> MemoryPage:
    """A part of a user's memories, newest first."""
    where, values = ["user_id = ?"], [user_id]
    for name, value in msgspec.structs.asdict(which or MemoryFilter()).items():
        if value is None:
            continue
        if name == "status":
            where.append(STATUS[value])
        elif name == "keyword":
            where.append("content LIKE ? ESCAPE '\\'")
            values.append(like(value))
        else:
            where.append(f"{name} = ?")
            values.append(value)
    those = f"FROM memories WHERE {' AND '.join(where)}"
    total = db.execute(f"SELECT count(*) {those}", values).fetchone()[0]
    rows = db.execute(
        f"SELECT {_COLUMNS} {those} ORDER BY id DESC LIMIT ? OFFSET ?", (*values, limit, offset)
    )
    return MemoryPage(items=[_row(row) for row in rows], total=total)


def change_memory(
    db: sqlite3.Connection, user_id: str, memory_id: int, changes: Mapping[str, Any], at: str
) -> MemoryRow | None:
    """Give a memory other values; None when the user has no such memory."""
    if strange := set(changes) - CHANGEABLE:
        raise StoreError(f"a memory does not let {min(strange)} be changed", code="store.value")
    if memory(db, user_id, memory_id) is None:
        return None
    sets = "".join(f", {name} = ?" for name in changes)
    db.execute(
        f"UPDATE memories SET updated_at = ?{sets} WHERE id = ?", (at, *changes.values(), memory_id)
    )
    if "content" in changes:
        words = indexed(changes["content"])
        db.execute("REPLACE INTO memory_words (rowid, words) VALUES (?, ?)", (memory_id, words))
    return memory(db, user_id, memory_id)


def delete_memories(db: sqlite3.Connection, user_id: str, ids: Collection[int]) -> int:
    """Forget; tells how many there were."""
    those = "FROM memories WHERE user_id = ? AND id IN (SELECT value FROM json_each(?))"
    values = (user_id, _json(ids))
    db.execute(f"DELETE FROM memory_words WHERE rowid IN (SELECT id {those})", values)
    return db.execute(f"DELETE {those}", values).rowcount


def disable_memories(
    db: sqlite3.Connection, user_id: str, ids: Collection[int], is_off: bool, at: str
) -> int:
    """Keep memories from being used, or let them be used again; tells how many there were."""
    changed = db.execute(
        """UPDATE memories SET disabled = ?, updated_at = ?
        WHERE user_id = ? AND id IN (SELECT value FROM json_each(?))""",
        (is_off, at, user_id, _json(ids)),
    )
    return changed.rowcount


def relevant_memories(
    db: sqlite3.Connection, user_id: str, text: str, limit: int = 5
) -> list[MemoryRow]:
    """The memories in use that have most to do with a text, best first."""
    query = any_of(text)
    if query is None:
        return []
    columns = ", ".join(f"memories.{name}" for name in MemoryRow.__struct_fields__)
    rows = db.execute(
        f"""SELECT {columns} FROM memory_words JOIN memories ON id = memory_words.rowid
        WHERE memory_words MATCH ? AND user_id = ? AND {STATUS["active"]} ORDER BY rank, id DESC LIMIT ?""",
        (query, user_id, limit),
    )
    return [_row(row) for row in rows]


def hit_memories(db: sqlite3.Connection, user_id: str, ids: Collection[int], at: str) -> int:
    """Count that memories were used; tells how many there were."""
    changed = db.execute(
        """UPDATE memories SET hit_count = hit_count + 1, last_hit_at = ?
        WHERE user_id = ? AND id IN (SELECT value FROM json_each(?))""",
        (at, user_id, _json(ids)),
    )
    return changed.rowcount


_LIKE = str.maketrans({"%": "\\%", "_": "\\_", "\\": "\\\\"})


def like(text: str) -> str:
    """A pattern for rows that have the text anywhere."""
    return f"%{text.translate(_LIKE)}%"


def _json(ids: Collection[int]) -> str:
    return msgspec.json.encode(list(ids)).decode()


def _row(row: tuple[Any, ...]) -> MemoryRow:
    values = dict(zip(MemoryRow.__struct_fields__, row, strict=True))
    return MemoryRow(**values | {"disabled": bool(values["disabled"])})
