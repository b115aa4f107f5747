"""Copies that were handed over and nobody went on with: they say nothing that their conversation
does not."""

import re

from open_token.handoff.conversation import NOTE
from open_token.model.document import Event, Record

TAIL = 1 << 15
"""In so many of the last bytes of a copy stands the note of the handoff."""
_NAMED = re.compile(re.escape(NOTE) + r"conversation (.{1,200}?), [0-9]+ events")
_TALK = ("message", "tool_use", "tool_result")


def may_be_copy(tail: bytes) -> bool:
    """Whether the last bytes of a file leave it open; a look at its events tells."""
    return NOTE.encode() in tail


class Ending:
    """Sees the events of a conversation go by, and knows how it ends."""

    def __init__(self) -> None:
        self._last: Event | None = None

    def meet(self, record: Record) -> None:
        """The whole says nothing of its end."""

    def take(self, event: Event) -> None:
        """The next event; what is only noted beside the talk does not go on with it."""
        if event["type"] in _TALK:
            self._last = event

    @property
    def is_note(self) -> bool:
        """Whether the last that was said is the note of a handoff."""
        return self._text.startswith(NOTE)

    @property
    def origin(self) -> str | None:
        """The id of the conversation that was handed over, if nobody went on with the copy."""
        found = _NAMED.match(self._text)
        return found[1] if found else None

    @property
    def _text(self) -> str:
        """The last words of a user; the output of a tool may hold a note that it only quotes."""
        if (
            self._last is None
            or self._last["type"] != "message"
            or self._last.get("role") != "user"
        ):
            return ""
        return str(self._last["content"].get("text") or "")
