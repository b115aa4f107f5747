"""Recognize sessions of Continue, and read the facts that a listing shows of them."""

from typing import Any

from open_token.formats.shared.chat_logs import find_first_words
from open_token.formats.shared.fields import get_dict, get_dicts, get_text
from open_token.sources.source import Source

_ROLES = ("user", "assistant", "system", "tool", "thinking")
_DEFAULT_TITLES = ("New Session", "Untitled Session")


def sniff(source: Source) -> bool:
    """Return whether it is one session: its id, and a history of items with messages."""
    return len(source.sample) == 1 and is_session(source.sample[0])


def is_session(value: Any) -> bool:
    """Return whether a value is a session."""
    if not isinstance(value, dict) or get_text(value, "sessionId") is None:
        return False
    history = value.get("history")
    if not isinstance(history, list) or not {"workspaceDirectory", "title"} & value.keys():
        return False
    return all(get_dict(item, "message").get("role") in _ROLES for item in history[:8])


def get_title(session: Any) -> str | None:
    """Return the title of a session, if it is more than the default."""
    title = get_text(session, "title")
    return None if title in _DEFAULT_TITLES else title


def peek(records: list[Any]) -> dict[str, str]:
    """Return id, cwd and title or first words of a session."""
    session = records[0] if records else None
    if not is_session(session):
        return {}
    messages = [item.get("message") for item in get_dicts(session, "history")]
    found = {
        "id": get_text(session, "sessionId"),
        "cwd": get_text(session, "workspaceDirectory"),
        "title": get_title(session),
        "words": find_first_words(messages),
    }
    return {name: value for name, value in found.items() if value}
