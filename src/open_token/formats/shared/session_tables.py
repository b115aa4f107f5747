"""Databases with a table of sessions and one of messages, as several agents have them."""

from collections.abc import Iterator
from typing import Any

from open_token.formats.shared.fields import JsonObject
from open_token.sources.source import Source

NO_OWNER = "(nobody)"
"""The owner of settings: no conversation has this id."""


def has_columns(source: Source, table: str, *columns: str) -> bool:
    """Return whether a table has these columns."""
    return set(columns) <= set(source.tables.get(table, ()))


def read_sessions(source: Source, order: str) -> dict[str, JsonObject]:
    """Return all sessions by id, in this order of their columns, without empty columns."""
    sessions: dict[str, JsonObject] = {}
    for row in _read_rows(source, "sessions", f"ORDER BY {order}, id"):
        if isinstance(row.get("id"), str):
            sessions[row["id"]] = row
    return sessions


def read_messages(source: Source, session_id: str, order: str) -> Iterator[JsonObject]:
    """Yield the messages of a session in this order of their columns, without empty columns."""
    clause = f"WHERE session_id = ? ORDER BY {order}"
    return _read_rows(source, "messages", clause, (session_id,))


def count_messages(source: Source) -> dict[Any, int]:
    """Return the number of messages of each session."""
    return dict(source.rows("SELECT session_id, count(*) FROM messages GROUP BY session_id"))


def _read_rows(
    source: Source, table: str, clause: str, params: tuple[Any, ...] = ()
) -> Iterator[JsonObject]:
    # These tables hold no binary data, but SQLite lets any column hold some.
    # Imported here: detection uses this module for every input, and few inputs are databases.
    from open_token.sources.containers import quote_identifier

    names = source.tables.get(table, [])
    columns = ", ".join(quote_identifier(name) for name in names)
    for row in source.rows(f"SELECT {columns} FROM {table} {clause}", params):
        yield {
            name: value.decode("utf-8", "replace") if isinstance(value, bytes) else value
            for name, value in zip(names, row, strict=True)
            if value is not None
        }


def get_session_id(table: str, row: Any) -> str | None:
    """Return the session that a row of either table belongs to; None for any other row."""
    if type(row) is not dict:
        return None
    column = "id" if table == "sessions" else "session_id"
    value = row.get(column)
    return value if isinstance(value, str) else None
