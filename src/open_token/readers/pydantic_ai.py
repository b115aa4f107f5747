"""Pydantic AI: the messages of an agent's runs as its ModelMessagesTypeAdapter writes them."""

from importlib import import_module
from typing import Any

from open_token.draft import Draft
from open_token.source import Source

TITLE = "Pydantic AI messages"
PLACES: tuple[str, ...] = ()
SEEN = "2.66 in full; earlier ones as described"
CARRIES = (
    "instructions and their changes, prompts, answers, thoughts, speech, calls of own and built-in tools, results,"
    " retries, models that failed before the one that answered, files, citations, usage"
)
LEAVES = "signatures of thoughts, provider details and addresses, cache points"


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


def read(source: Source, draft: Draft) -> None:
    """Tell the conversation; what that takes is loaded only now."""
    import_module("open_token.readers._pydantic_ai").read(source, draft)
