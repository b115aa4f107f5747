"""Patches as agents write them, as lines of a difference for each file: apply_patch and unified
diffs."""

import re
from typing import NamedTuple

from open_token.pages.differences import Line, counted, differences

_FILE = re.compile(r"\*\*\* (Update|Add|Delete) File: (.*)")
_UNIFIED = re.compile(r"\+\+\+ (?:b/)?([^\t\n]*)")


class Change(NamedTuple):
    """What was done to one file."""

    path: str
    lines: list[Line]
    verb: str = ""
    """new or deleted, where it is told."""

    @property
    def added(self) -> int:
        """How many lines came."""
        return counted(self.lines)[0]

    @property
    def removed(self) -> int:
        """How many lines went."""
        return counted(self.lines)[1]


def of_texts(path: str, old: str, new: str) -> Change:
    """What turning one text into another does."""
    return Change(path, differences(old, new))


def of_patch(text: str) -> list[Change]:
    """The files of a patch."""
    changes: list[Change] = []
    lines: list[Line] = []
    for raw in text.replace("\r\n", "\n").split("\n"):
        named = _FILE.match(raw)
        unified = _UNIFIED.match(raw)
        if named or unified:
            path = (named[2] if named else unified[1] if unified else "").strip()
            lines = []
            verb = {"Add": "new", "Delete": "deleted"}.get(named[1], "") if named else ""
            changes.append(Change(path, lines, verb))
        elif raw.startswith("@@"):
            lines.append(Line("@", raw.strip("@ ")))
        elif raw[:1] in ("+", "-", " ") and changes and not raw.startswith("--- "):
            lines.append(Line(raw[0], raw[1:]))
    return changes
