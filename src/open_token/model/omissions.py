"""What an export omits of what people, models and tools said, in words that a person understands."""

from collections.abc import Iterable
from typing import Literal

import msgspec

Omitted = Literal[
    "prompt", "answer", "message", "reasoning", "call", "result", "subagent", "branch", "attachment"
]

_NOUNS: dict[str, tuple[str, str]] = {
    "prompt": ("prompt", "prompts"),
    "answer": ("answer", "answers"),
    "message": ("message", "messages"),
    "reasoning": ("piece of reasoning", "pieces of reasoning"),
    "call": ("tool call", "tool calls"),
    "result": ("tool output", "tool outputs"),
    "subagent": ("subagent", "subagents"),
    "branch": ("abandoned branch", "abandoned branches"),
    "attachment": ("attachment", "attachments"),
}
"""The vocabulary, in the order in which a summary lists it."""
_OMITTED_BY_CODE: dict[str, Omitted] = {
    "abandoned-branch": "branch",
    "missing-blob": "message",
    "missing-bubble": "message",
    "no-message": "message",
    "subagent": "subagent",
    "subagent-steps": "subagent",
    "unlisted-message": "message",
}
"""Codes that mean the same in all readers, so that their calls need not say it."""


class Note(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that the export omits or changes: a code, the first position, and how often.

    `what` names what somebody said; technical records have none. `size` counts its characters and
    `events` its records, as far as they are known.
    """

    code: str
    place: str
    detail: str
    count: int
    what: str = ""
    size: int = 0
    events: int = 0

    def plus(self, other: "Note") -> "Note":
        """Return one note for both, with the place of this one."""
        return Note(
            self.code,
            self.place,
            self.detail,
            self.count + other.count,
            self.what,
            self.size + other.size,
            self.events + other.events,
        )


def find_omitted(code: str) -> str:
    """Return what a note with this code is about, if all readers mean the same by it; else ''."""
    return _OMITTED_BY_CODE.get(code, "")


def summarize_omissions(notes: Iterable[Note]) -> str:
    """Return what the notes say is missing of what was said, such as `3 prompts, 1 subagent`."""
    totals: dict[str, Note] = {}
    for note in notes:
        if note.what:
            known = totals.get(note.what)
            totals[note.what] = note if known is None else known.plus(note)
    return ", ".join(_format_total(totals[what]) for what in _NOUNS if what in totals)


def _format_total(total: Note) -> str:
    singular, plural = _NOUNS[total.what]
    words = f"{total.count:,} {singular if total.count == 1 else plural}"
    measures = []
    if total.events:
        measures.append(f"{total.events:,} {'event' if total.events == 1 else 'events'}")
    if total.size:
        measures.append(f"{total.size:,} {'character' if total.size == 1 else 'characters'}")
    return f"{words} ({', '.join(measures)})" if measures else words
