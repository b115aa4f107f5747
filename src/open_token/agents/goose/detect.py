"""Goose: its session database, the JSON lines it wrote before, and what `goose session export`
prints."""

from typing import Any

from open_token.sources.source import Source

_KINDS = frozenset(
    "text image document thinking redactedThinking reasoning toolRequest toolResponse frontendToolRequest"
    " toolConfirmationRequest actionRequired systemNotification contextLengthExceeded summarizationRequested"
    " conversationCompacted error".split()
)
_OLD = ("text", "tool_name", "tool_result")


def sniff(source: Source) -> bool:
    """Whether it is a session of Goose, in a database, as lines or as an export."""
    if source.shape == "sqlite":
        sessions, messages = (set(source.tables.get(name, ())) for name in ("sessions", "messages"))
        return {"id", "working_dir"} <= sessions and {
            "session_id",
            "role",
            "content_json",
        } <= messages
    records = source.sample
    if not records or not all(isinstance(record, dict) for record in records):
        return False
    if is_export(records[0]):
        return len(records) == 1
    return is_header(records[0]) or all(_is_message(record) for record in records)


def is_export(record: dict[str, Any]) -> bool:
    """A session with its conversation inside."""
    return isinstance(record.get("conversation"), list) and isinstance(
        record.get("working_dir"), str
    )


def is_header(record: dict[str, Any]) -> bool:
    """The first line of a file from before 1.10."""
    marks = ("message_count", "description", "total_tokens", "extension_data")
    return (
        "role" not in record
        and isinstance(record.get("working_dir"), str)
        and any(mark in record for mark in marks)
    )


def _is_message(record: dict[str, Any]) -> bool:
    """A message in a file without a header: its time is a number, its content blocks of Goose's
    own."""
    content = record.get("content")
    if record.get("role") not in ("user", "assistant") or type(record.get("created")) is not int:
        return False
    return isinstance(content, list) and all(
        isinstance(block, dict) and _is_block(block) for block in content
    )


def _is_block(block: dict[str, Any]) -> bool:
    if "type" in block:
        kind = block["type"]
        return isinstance(kind, str) and kind in _KINDS
    return any(name in block for name in _OLD)


def peek(records: list[Any]) -> dict[str, str]:
    """What the first record tells of a session: its id, the folder it was held in, its name."""
    first = records[0] if records and isinstance(records[0], dict) else {}
    found = {
        "cwd": first.get("working_dir"),
        "title": first.get("name") or first.get("description"),
    }
    if is_export(first):
        found["id"] = first.get("id")
    return {name: value for name, value in found.items() if isinstance(value, str) and value}
