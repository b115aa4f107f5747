"""Detect copies that were handed over and not continued: they add nothing to their original."""

import re

from open_token.handoff.conversation import NOTE_PREFIX
from open_token.model.document import Event, Record

NOTE_TAIL_SIZE = 1 << 15
"""The note of the handoff is within this many bytes of the end of a copy."""
_NOTE = re.compile(re.escape(NOTE_PREFIX) + r"conversation (.{1,200}?), [0-9]+ events")
_TURN_TYPES = ("message", "tool_use", "tool_result")


def may_be_copy(tail: bytes) -> bool:
    """Return whether the last bytes of a file contain a note; only its events are certain."""
    return NOTE_PREFIX.encode() in tail


class HandoffCopyDetector:
    """Observes the events of a conversation and determines whether it ends with a handoff note."""

    def __init__(self) -> None:
        self._last: Event | None = None

    def meet(self, record: Record) -> None:
        """Ignore the record: only the last event counts."""

    def take(self, event: Event) -> None:
        """Observe the next event; annotations do not continue a conversation."""
        if event["type"] in _TURN_TYPES:
            self._last = event

    @property
    def is_note(self) -> bool:
        """Whether the last message is the note of a handoff."""
        return self._last_text.startswith(NOTE_PREFIX)

    @property
    def origin(self) -> str | None:
        """The id of the conversation that was handed over, if the copy was not continued."""
        match = _NOTE.match(self._last_text)
        return match[1] if match else None

    @property
    def _last_text(self) -> str:
        """The text of the last event if it is a user message: a tool result may quote a note."""
        last = self._last
        if last is None or last["type"] != "message" or last.get("role") != "user":
            return ""
        return str(last["content"].get("text") or "")
