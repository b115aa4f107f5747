"""Recognize sessions of Hermes Agent, and read the facts that a listing shows of them."""

from typing import Any

from open_token.formats.shared.chat_logs import find_first_words
from open_token.formats.shared.fields import get_dict, get_text
from open_token.formats.shared.session_tables import has_columns
from open_token.sources.source import Source

META = "session_meta"
"""The role of a record about the session among its messages."""


def sniff(source: Source) -> bool:
    """Return whether it is the database, a session file, or a log with its first record."""
    if source.shape == "sqlite":
        has_sessions = has_columns(source, "sessions", "id", "source", "started_at", "model_config")
        return has_sessions and has_columns(
            source, "messages", "session_id", "role", "content", "tool_calls", "tool_name"
        )
    sample = source.sample
    if not sample:
        return False
    if len(sample) == 1 and is_session(sample[0]):
        return True
    if not all(isinstance(record, dict) and get_text(record, "role") for record in sample):
        return False
    return get_text(sample[0], "role") == META


def is_session(value: Any) -> bool:
    """Return whether a value is a session file."""
    if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
        return False
    if get_text(value, "session_id") is None or "session_start" not in value:
        return False
    return "platform" in value or "last_updated" in value


def peek(records: list[Any]) -> dict[str, str]:
    """Return id, cwd and first words of a session file."""
    session = records[0] if records else None
    if not isinstance(session, dict) or not is_session(session):
        return {}
    found = {
        "id": get_text(session, "session_id"),
        "cwd": get_text(get_dict(session, "model_config"), "cwd") or get_text(session, "cwd"),
        "title": get_text(session, "title"),
        "words": find_first_words(session["messages"]),
    }
    return {name: value for name, value in found.items() if value}
