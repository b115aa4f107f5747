"""Recognize transcripts of Antigravity, and read the facts that a listing shows."""

from typing import Any, NamedTuple

from open_token.formats.shared.fields import get_text
from open_token.sources.source import Source

_SOURCES = ("USER_EXPLICIT", "USER_IMPLICIT", "MODEL", "SYSTEM")
_OPENING = "<USER_REQUEST>"
_CLOSING = "</USER_REQUEST>"
_METADATA = ("<ADDITIONAL_METADATA>", "<USER_SETTINGS_CHANGE>")
_PREVIEW_LENGTH = 400


class UserInput(NamedTuple):
    """What a person typed, and what the client put around it."""

    typed: str
    added: str


def sniff(source: Source) -> bool:
    """Return whether all first records are steps, one of which somebody known took."""
    steps = [record for record in source.sample if isinstance(record, dict)]
    if not steps or len(steps) != len(source.sample) or not all(map(_is_step, steps)):
        return False
    return any(step.get("source") in _SOURCES for step in steps)


def _is_step(record: dict[str, Any]) -> bool:
    kind = get_text(record, "type")
    return type(record.get("step_index")) is int and kind is not None and kind.isupper()


def split_user_input(content: str) -> UserInput:
    """Separate what a person typed from the client's blocks around it."""
    start = content.find(_OPENING)
    end = content.rfind(_CLOSING)
    if 0 <= start < end:
        typed = content[start + len(_OPENING) : end]
        added = content[:start] + content[end + len(_CLOSING) :]
        return UserInput(typed.strip(), added.strip())
    marks = [position for tag in _METADATA if (position := content.find(tag)) >= 0]
    if not marks:
        return UserInput(content.strip(), "")
    return UserInput(content[: min(marks)].strip(), content[min(marks) :].strip())


def peek(records: list[Any]) -> dict[str, str]:
    """Return the first prompt; the folder of a transcript is its id."""
    for record in records:
        if isinstance(record, dict) and record.get("type") == "USER_INPUT":
            typed = split_user_input(get_text(record, "content") or "").typed
            if typed:
                return {"title": typed[:_PREVIEW_LENGTH]}
    return {}
