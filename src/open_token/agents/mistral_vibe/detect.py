"""Recognize sessions of Mistral Vibe, and read the facts that a listing shows of them."""

from typing import Any

from open_token.formats.shared.chat_logs import find_first_words, is_vibe_log
from open_token.formats.shared.fields import get_dict, get_text
from open_token.sources.source import Source


def sniff(source: Source) -> bool:
    """Return whether the lines are messages that say whether they were injected."""
    return source.shape == "lines" and is_vibe_log(source.sample)


def companion_file(name: str) -> str | None:
    """Return the file about the session."""
    return "meta.json"


def peek(records: list[Any]) -> dict[str, str]:
    """Return id, cwd and title, or the first words, from messages or the file about them."""
    found: dict[str, str | None] = {"words": find_first_words(records)}
    for record in records:
        if get_text(record, "session_id"):
            cwd = get_text(get_dict(record, "environment"), "working_directory")
            found |= {"id": get_text(record, "session_id"), "cwd": cwd}
            found["title"] = get_text(record, "title")
    return {name: value for name, value in found.items() if value}
