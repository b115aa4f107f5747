"""Recognize databases and session files of Kiro CLI and Amazon Q CLI."""

from typing import Any

from open_token.formats.shared.fields import as_dicts, get_dict, get_text
from open_token.sources.source import Source

_PREVIEW_LENGTH = 400
TABLES = ("conversations_v2", "conversations")
"""The newer table first: it has a row per conversation, the older one a row per folder."""


def sniff(source: Source) -> bool:
    """Return whether it is a database with conversations by folder, or a file of events."""
    if source.shape == "sqlite":
        return find_table(source) is not None
    events = [record for record in source.sample if _is_event(record)]
    return bool(events) and len(events) == len(source.sample)


def _is_event(record: Any) -> bool:
    """Return whether a record is an event: a version, a kind in capitals, data with parts."""
    if not isinstance(record, dict) or "version" not in record:
        return False
    kind = get_text(record, "kind")
    return kind is not None and kind[:1].isupper() and isinstance(record.get("data"), dict)


def peek(records: list[Any]) -> dict[str, str]:
    """Return the first prompt; the name of a file is the id of its session."""
    for record in records:
        if isinstance(record, dict) and record.get("kind") == "Prompt":
            parts = as_dicts(get_dict(record, "data").get("content"))
            texts = [text for part in parts if (text := get_text(part, "data"))]
            if texts:
                return {"title": texts[0][:_PREVIEW_LENGTH]}
    return {}


def find_table(source: Source) -> str | None:
    """Return the table that holds conversations."""
    if source.shape != "sqlite":
        return None
    for table in TABLES:
        if {"key", "value"} <= set(source.tables.get(table, ())):
            return table
    return None
