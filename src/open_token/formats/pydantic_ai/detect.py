"""Pydantic AI: the messages of an agent's runs as its ModelMessagesTypeAdapter writes them."""

from typing import Any

from open_token.sources.source import Source


def sniff(source: Source) -> bool:
    """Whether it is a list, or lines, of requests and responses made of parts."""
    messages = listed(source)
    return bool(messages) and all(_is_message(message) for message in messages)


def listed(source: Source) -> list[Any]:
    """The messages that the source begins with."""
    return [message for record in source.sample for message in messages_in(record)[:512]]


def messages_in(record: Any) -> list[Any]:
    """The messages of a record: itself, a list of them, or an object that holds a list."""
    if (
        isinstance(record, dict)
        and "kind" not in record
        and isinstance(held := record.get("messages"), list)
    ):
        return held
    return record if isinstance(record, list) else [record]


def _is_message(value: Any) -> bool:
    if not isinstance(value, dict) or value.get("kind") not in ("request", "response"):
        return False
    parts = value.get("parts")
    return isinstance(parts, list) and all(
        isinstance(part, dict) and "part_kind" in part for part in parts
    )
