"""Recognize Goose sessions: the database, session files and exports."""

from typing import Any

from open_token.sources.source import Source

BLOCK_KINDS = frozenset(
    (
        "text",
        "image",
        "document",
        "thinking",
        "redactedThinking",
        "reasoning",
        "toolRequest",
        "toolResponse",
        "frontendToolRequest",
        "toolConfirmationRequest",
        "actionRequired",
        "systemNotification",
        "contextLengthExceeded",
        "summarizationRequested",
        "conversationCompacted",
        "error",
    )
)
_OLD_BLOCK_FIELDS = ("text", "tool_name", "tool_result")
"""Before 1.0 a block had no type, but one of these fields."""
_HEADER_FIELDS = ("message_count", "description", "total_tokens", "extension_data")


def sniff(source: Source) -> bool:
    """Return whether the source is a session of Goose."""
    if source.shape == "sqlite":
        return _is_database(source.tables)
    records = source.sample
    if not records or not all(isinstance(record, dict) for record in records):
        return False
    # An export is a single document.
    if _is_export(records[0]):
        return len(records) == 1
    return _is_header(records[0]) or all(_is_message(record) for record in records)


def _is_database(tables: dict[str, list[str]]) -> bool:
    if not {"id", "working_dir"} <= set(tables.get("sessions", ())):
        return False
    return {"session_id", "role", "content_json"} <= set(tables.get("messages", ()))


def _is_export(record: dict[str, Any]) -> bool:
    """Return whether the record is a session with its messages inside."""
    messages = record.get("conversation")
    return isinstance(messages, list) and isinstance(record.get("working_dir"), str)


def _is_header(record: dict[str, Any]) -> bool:
    """Return whether the record is the first line of a session file, as before 1.10."""
    if "role" in record or not isinstance(record.get("working_dir"), str):
        return False
    return any(name in record for name in _HEADER_FIELDS)


def _is_message(record: dict[str, Any]) -> bool:
    """Return whether the record is a message in a file without a header."""
    if record.get("role") not in ("user", "assistant") or type(record.get("created")) is not int:
        return False
    content = record.get("content")
    return isinstance(content, list) and all(_is_block(block) for block in content)


def _is_block(block: Any) -> bool:
    if not isinstance(block, dict):
        return False
    if "type" in block:
        kind = block["type"]
        return isinstance(kind, str) and kind in BLOCK_KINDS
    return any(name in block for name in _OLD_BLOCK_FIELDS)


def peek(records: list[Any]) -> dict[str, str]:
    """Return the id, directory and name of a session from its first record."""
    first = records[0] if records and isinstance(records[0], dict) else {}
    facts = {
        "cwd": first.get("working_dir"),
        "title": first.get("name") or first.get("description"),
    }
    if _is_export(first):
        facts["id"] = first.get("id")
    return {name: value for name, value in facts.items() if isinstance(value, str) and value}
