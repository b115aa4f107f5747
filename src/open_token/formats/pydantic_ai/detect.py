"""Detection of Pydantic AI messages."""

from typing import Any

from open_token.sources.source import Source


def sniff(source: Source) -> bool:
    """Return whether the source is a list, or lines, of requests and responses made of parts."""
    messages: list[Any] = []
    for record in source.sample:
        messages += _get_messages(record)[:512]
    return bool(messages) and all(_is_message(message) for message in messages)


def _get_messages(record: Any) -> list[Any]:
    """Return the messages of a record: itself, a list of them, or an object that holds a list."""
    if isinstance(record, list):
        return record
    if isinstance(record, dict) and "kind" not in record:
        messages = record.get("messages")
        if isinstance(messages, list):
            return messages
    return [record]


def _is_message(value: Any) -> bool:
    if not isinstance(value, dict) or value.get("kind") not in ("request", "response"):
        return False
    parts = value.get("parts")
    if not isinstance(parts, list):
        return False
    return all(isinstance(part, dict) and "part_kind" in part for part in parts)
