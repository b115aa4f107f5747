"""Memories in SQLite: stored, filtered, searched, counted when used, superseded by newer ones."""

import sqlite3
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from open_token.errors import StoreError
from open_token.server.store.errors import NotFoundError
from open_token.server.store.rows import MemoryFilter, MemoryPage, MemoryRow, NewMemory
from open_token.server.store.search_text import match_any_query, to_index_text

_COLUMNS = ", ".join(MemoryRow.__struct_fields__)
_NEW_FIELDS = NewMemory.__struct_fields__
_INSERT = f"""
    INSERT INTO memories (user_id, {", ".join(_NEW_FIELDS)})
    VALUES (?{", ?" * len(_NEW_FIELDS)}) RETURNING {_COLUMNS}
"""
CHANGEABLE = frozenset(_NEW_FIELDS) - {"created_at", "source_session"}
STATUS = {
    "active": "NOT disabled AND superseded_by IS NULL",
    "disabled": "disabled",
    "superseded": "superseded_by IS NOT NULL",
}


def add_memory(
    db: sqlite3.Connection, user_id: str, memory: NewMemory, supersedes: Collection[int] = ()
) -> MemoryRow:
    """Add a memory that supersedes others."""
    if not db.execute("SELECT 1 FROM users WHERE id = ?", (user_id,)).fetchone():
        raise NotFoundError("user")
    values = [getattr(memory, name) for name in _NEW_FIELDS]
    row = _to_memory(db.execute(_INSERT, (user_id, *values)).fetchone())
    db.execute(
        "INSERT INTO memory_words (rowid, words) VALUES (?, ?)",
        (row.id, to_index_text(memory.content)),
    )
    db.execute(
        """UPDATE memories SET superseded_by = ?, updated_at = ?
        WHERE user_id = ? AND id <> ? AND id IN (SELECT value FROM json_each(?))""",
        (row.id, memory.created_at, user_id, row.id, _encode_list(supersedes)),
    )
    return row


def get_memory(db: sqlite3.Connection, user_id: str, memory_id: int) -> MemoryRow | None:
    """Return a memory of the user."""
    row = db.execute(
        f"SELECT {_COLUMNS} FROM memories WHERE id = ? AND user_id = ?", (memory_id, user_id)
    ).fetchone()
    return None if row is None else _to_memory(row)


def list_memories(
    db: sqlite3.Connection,
    user_id: str,
    which: MemoryFilter | None = None,
    limit: int = 20,
    offset: int = 0,
) -> MemoryPage:
    """Return a page of a user's memories, newest first."""
    where = ["user_id = ?"]
    values = [user_id]
    for name, value in msgspec.structs.asdict(which or MemoryFilter()).items():
        if value is None:
            continue
        if name == "status":
            where.append(STATUS[value])
        elif name == "keyword":
            where.append("content LIKE ? ESCAPE '\\'")
            values.append(escape_like(value))
        else:
            where.append(f"{name} = ?")
            values.append(value)
    selection = f"FROM memories WHERE {' AND '.join(where)}"
    total = db.execute(f"SELECT count(*) {selection}", values).fetchone()[0]
    rows = db.execute(
        f"SELECT {_COLUMNS} {selection} ORDER BY id DESC LIMIT ? OFFSET ?", (*values, limit, offset)
    )
    return MemoryPage(items=[_to_memory(row) for row in rows], total=total)


def change_memory(
    db: sqlite3.Connection, user_id: str, memory_id: int, changes: Mapping[str, Any], at: str
) -> MemoryRow | None:
    """Change fields of a memory; None when the user has no such memory."""
    unknown = set(changes) - CHANGEABLE
    if unknown:
        raise StoreError(f"{min(unknown)} of a memory cannot be changed", code="store.value")
    if get_memory(db, user_id, memory_id) is None:
        return None
    assignments = "".join(f", {name} = ?" for name in changes)
    db.execute(
        f"UPDATE memories SET updated_at = ?{assignments} WHERE id = ?",
        (at, *changes.values(), memory_id),
    )
    if "content" in changes:
        words = to_index_text(changes["content"])
        db.execute("REPLACE INTO memory_words (rowid, words) VALUES (?, ?)", (memory_id, words))
    return get_memory(db, user_id, memory_id)


def delete_memories(db: sqlite3.Connection, user_id: str, ids: Collection[int]) -> int:
    """Delete memories; return the count."""
    selection = "FROM memories WHERE user_id = ? AND id IN (SELECT value FROM json_each(?))"
    values = (user_id, _encode_list(ids))
    db.execute(f"DELETE FROM memory_words WHERE rowid IN (SELECT id {selection})", values)
    return db.execute(f"DELETE {selection}", values).rowcount


def disable_memories(
    db: sqlite3.Connection, user_id: str, ids: Collection[int], is_off: bool, at: str
) -> int:
    """Disable memories, or enable them again; return the count."""
    changed = db.execute(
        """UPDATE memories SET disabled = ?, updated_at = ?
        WHERE user_id = ? AND id IN (SELECT value FROM json_each(?))""",
        (is_off, at, user_id, _encode_list(ids)),
    )
    return changed.rowcount


def find_relevant_memories(
    db: sqlite3.Connection, user_id: str, text: str, limit: int = 5
) -> list[MemoryRow]:
    """Return the active memories most relevant to a text, best first."""
    query = match_any_query(text)
    if query is None:
        return []
    columns = ", ".join(f"memories.{name}" for name in MemoryRow.__struct_fields__)
    rows = db.execute(
        f"""SELECT {columns} FROM memory_words JOIN memories ON id = memory_words.rowid
        WHERE memory_words MATCH ? AND user_id = ? AND {STATUS["active"]}
        ORDER BY rank, id DESC LIMIT ?""",
        (query, user_id, limit),
    )
    return [_to_memory(row) for row in rows]


def record_hits(db: sqlite3.Connection, user_id: str, ids: Collection[int], at: str) -> int:
    """Record the use of memories; return the count."""
    changed = db.execute(
        """UPDATE memories SET hit_count = hit_count + 1, last_hit_at = ?
        WHERE user_id = ? AND id IN (SELECT value FROM json_each(?))""",
        (at, user_id, _encode_list(ids)),
    )
    return changed.rowcount


_LIKE_ESCAPES = str.maketrans({"%": "\\%", "_": "\\_", "\\": "\\\\"})


def escape_like(text: str) -> str:
    """Return a LIKE pattern for rows that contain the text."""
    return f"%{text.translate(_LIKE_ESCAPES)}%"


def _encode_list(ids: Collection[int]) -> str:
    return msgspec.json.encode(list(ids)).decode()


def _to_memory(row: tuple[Any, ...]) -> MemoryRow:
    values = dict(zip(MemoryRow.__struct_fields__, row, strict=True))
    values["disabled"] = bool(values["disabled"])
    return MemoryRow(**values)
