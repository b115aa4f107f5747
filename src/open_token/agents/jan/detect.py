"""Recognize threads of Jan, and read the facts that a listing shows of them."""

from typing import Any

from open_token.formats.shared.fields import get_dict, get_dicts, get_text
from open_token.sources.source import Source

_PREVIEW_LENGTH = 400


def sniff(source: Source) -> bool:
    """Return whether all records are messages of a thread that Jan stored."""
    return bool(source.sample) and all(is_message(record) for record in source.sample)


def is_message(value: Any) -> bool:
    """Return whether a value is a message of a thread.

    The assistants API of OpenAI has the same object; its messages belong to a run.
    """
    if not isinstance(value, dict) or value.get("object") != "thread.message":
        return False
    return get_text(value, "thread_id") is not None and "run_id" not in value


def peek(records: list[Any]) -> dict[str, str]:
    """Return id and first words of a thread."""
    found: dict[str, str] = {}
    for record in filter(is_message, records):
        found.setdefault("id", record["thread_id"])
        if record.get("role") != "user":
            continue
        for part in get_dicts(record, "content"):
            text = get_text(get_dict(part, "text"), "value")
            if text:
                return found | {"words": text[:_PREVIEW_LENGTH]}
    return found
