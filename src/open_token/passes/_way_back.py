"""A text in which stretches are left out or say something else, and the way back to where each
letter stood."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from typing import NamedTuple


class Change(NamedTuple):
    """Where a stretch of the text stands, and what is said in its place."""

    start: int
    end: int
    said: bytes


class _Place(NamedTuple):
    """Where a change stands in the new text and in the old one."""

    place: int
    size: int
    start: int
    end: int


class Changed:
    """The new text, or a part of it; control signs that separate strings are spaces in it."""

    def __init__(
        self, raw: bytes, changes: Iterable[Change], first: int = 0, last: int | None = None
    ) -> None:
        parts: list[bytes] = []
        self._changes = [_Place(0, 0, first, first)]
        length, place = 0, first
        for start, end, said in changes:
            length += start - place
            parts += (raw[place:start], said)
            self._changes.append(_Place(length, len(said), start, end))
            length += len(said)
            place = end
        self.text = b"".join([*parts, raw[place:last]]).translate(CONTROL)
        self._places = [change.place for change in self._changes]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where a stretch of the new text stands in the old one."""
        return self._back(start, False), self._back(end - 1, True)

    def joint(self, start: int, end: int) -> int | None:
        """The first place of a stretch of the new text, or right behind it, at which something was
        left out."""
        number = max(1, bisect_left(self._places, start))  # the first of all is the beginning
        return self._places[number] if number < bisect_right(self._places, end) else None

    def _back(self, place: int, is_end: bool) -> int:
        change = self._changes[bisect_right(self._places, place) - 1]
        if place < change.place + change.size:
            return change.end if is_end else change.start
        return change.end + place - change.place - change.size + is_end


def replaced(
    raw: bytes, pattern: re.Pattern[bytes], said: Callable[[re.Match[bytes]], bytes]
) -> Changed:
    """The text with what matches turned into what it says."""
    return Changed(
        raw, (Change(found.start(), found.end(), said(found)) for found in pattern.finditer(raw))
    )


CONTROL = bytes.maketrans(b"\x00\x01\x02", b"   ")
