"""Text in which spans were replaced or removed, with a map back to the original positions."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from typing import NamedTuple

SEPARATORS_TO_SPACES = bytes.maketrans(b"\x00\x01\x02", b"   ")
"""Control characters that separate strings in a search become spaces in decoded text."""


class Replacement(NamedTuple):
    """A span of the original text, and what replaces it."""

    start: int
    end: int
    new: bytes


class _MappedReplacement(NamedTuple):
    """Where a replacement is in the new text, and which span of the original it replaces."""

    position: int
    size: int
    start: int
    end: int


class OffsetMap:
    """The new text, or a part of it, and where its positions were."""

    def __init__(
        self,
        raw: bytes,
        replacements: Iterable[Replacement],
        first: int = 0,
        last: int | None = None,
    ) -> None:
        parts: list[bytes] = []
        self._replacements = [_MappedReplacement(0, 0, first, first)]
        length = 0
        position = first
        for start, end, new in replacements:
            length += start - position
            parts += (raw[position:start], new)
            self._replacements.append(_MappedReplacement(length, len(new), start, end))
            length += len(new)
            position = end
        parts.append(raw[position:last])
        self.text = b"".join(parts).translate(SEPARATORS_TO_SPACES)
        self._positions = [replacement.position for replacement in self._replacements]

    def map_span(self, start: int, end: int) -> tuple[int, int]:
        """Return the original span of a span of the new text."""
        return self._map_position(start, is_end=False), self._map_position(end - 1, is_end=True)

    def find_joint(self, start: int, end: int) -> int | None:
        """Return the first position in a span of the new text, or right after it, at which
        something was replaced."""
        number = max(1, bisect_left(self._positions, start))  # number 0 is the beginning
        if number < bisect_right(self._positions, end):
            return self._positions[number]
        return None

    def _map_position(self, position: int, *, is_end: bool) -> int:
        replacement = self._replacements[bisect_right(self._positions, position) - 1]
        new_end = replacement.position + replacement.size
        if position < new_end:
            return replacement.end if is_end else replacement.start
        return replacement.end + position - new_end + is_end


def replace_matches(
    raw: bytes, pattern: re.Pattern[bytes], get_new: Callable[[re.Match[bytes]], bytes]
) -> OffsetMap:
    """Replace each match of a pattern with what a function returns for it."""
    return OffsetMap(
        raw,
        (
            Replacement(match.start(), match.end(), get_new(match))
            for match in pattern.finditer(raw)
        ),
    )
