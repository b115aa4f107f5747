"""Whether an export continues an earlier one of the same session, or has lost something of it.

An agent may rewrite a session under the same id, so that neither its id nor its size says whether
what was archived before is still in it.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec

_SAID = ("message", "reasoning", "tool_call", "tool_result")
"""Events that hold what was said; other events are facts that may change while a session runs."""
_MAX_UNFINISHED = 8
"""So many texts may have been cut off when they were archived; more were rewritten."""

Said = tuple[str, str | None, bytes]
"""The type and the role of an event, and the bytes of its content."""


class _Event(msgspec.Struct):
    type: str
    event_type: str = ""
    role: str | None = None
    content: msgspec.Raw = msgspec.Raw(b"null")


class _Document(msgspec.Struct):
    events: list[_Event]


class _Content(msgspec.Struct):
    text: str | None = None


def has_all_of(old: Path, new: Path) -> bool:
    """Return whether an export has everything that was said in an older one.

    A text that goes on where the older export ends is the same text. False if the older export
    cannot be read: it stays.
    """
    try:
        missing = Counter(_iter_said(old))
        missing.subtract(_iter_said(new))
        unfinished = list((+missing).elements())
        if not unfinished:
            return True
        if len(unfinished) > _MAX_UNFINISHED:
            return False
        return _are_continued(unfinished, new)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False


def _are_continued(unfinished: list[Said], new: Path) -> bool:
    """Return whether each of some texts is the beginning of a text of the same kind."""
    begun = [(kind, role, _get_text(content)) for kind, role, content in unfinished]
    if any(not text for _, _, text in begun):
        return False
    for kind, role, content in _iter_said(new):
        text = _get_text(content)
        for item in begun:
            # A text of the same length is another one, which was counted already.
            if item[:2] == (kind, role) and len(text) > len(item[2]) and text.startswith(item[2]):
                begun.remove(item)
                break
        if not begun:
            return True
    return False


def _get_text(content: bytes) -> str:
    try:
        return msgspec.json.decode(content, type=_Content).text or ""
    except msgspec.ValidationError:
        return ""


def _iter_said(path: Path) -> Iterator[Said]:
    for event in _iter_events(path):
        kind = event.event_type or event.type
        if kind in _SAID:
            # Without white space, which the modes write differently.
            yield kind, event.role, msgspec.json.format(event.content, indent=-1)


def _iter_events(path: Path) -> Iterator[_Event]:
    """Yield the events of an export, JSON or NDJSON."""
    with path.open("rb") as stream:
        if path.suffix == ".ndjson" or b'"type":"header"' in stream.peek(200)[:200]:
            for line in stream:
                event = msgspec.json.decode(line, type=_Event)
                if event.type == "event":
                    yield event
        else:
            yield from msgspec.json.decode(stream.read(), type=_Document).events
