"""Names in a text, and the values that a structure gives to them."""

from typing import NamedTuple, Self

_MAX_LINE = 1_024
"""Of a longer line only this much is looked at, before a name and after it."""


_MAX_QUOTES = 8


class Pair(NamedTuple):
    """A value in a text with its name, and with the name of what contains both."""

    name: bytes
    start: int
    end: int
    container: bytes = b""

    @property
    def label(self) -> bytes:
        """What the validator sees before the value."""
        container = self.container + b" > " if self.container else b""
        return container + self.name + b"\x01"


class Name(NamedTuple):
    """A name in a text, with the line it stands in."""

    text: bytes
    start: int
    end: int
    line_start: int
    line_end: int

    @classmethod
    def at(cls, text: bytes, start: int, end: int) -> Self:
        """Return the name in a span of a text."""
        first = max(0, start - _MAX_LINE)
        last = min(len(text), end + _MAX_LINE)
        line_start = text.rfind(b"\n", first, start) + 1 or first
        line_end = text.find(b"\n", end, last)
        if line_end < 0:
            line_end = last
        elif text[line_end - 1 : line_end] == b"\r" and line_end > end:
            line_end -= 1
        return cls(text, start, end, skip_quote_signs(text, line_start, start), line_end)

    @property
    def word(self) -> bytes:
        """The name itself."""
        return self.text[self.start : self.end]

    @property
    def before(self) -> bytes:
        """The line before the name."""
        return self.text[self.line_start : self.start]

    @property
    def after(self) -> bytes:
        """The line after the name."""
        return self.text[self.end : self.line_end]


def skip_quote_signs(text: bytes, start: int, end: int) -> int:
    """Return where a line begins behind the signs of a quotation (`> `)."""
    for _ in range(_MAX_QUOTES):
        if start >= end or text[start : start + 1] != b">":
            break
        start += 2 if text[start + 1 : start + 2] == b" " else 1
    return start


def strip_span(text: bytes, start: int, end: int) -> tuple[int, int]:
    """Return a span without the white space around it, and without quotes around the rest."""
    value = text[start:end]
    start += len(value) - len(value.lstrip())
    end -= len(value) - len(value.rstrip())
    quote = text[start : start + 1]
    if quote in (b'"', b"'", b"`") and end - start >= 2 and text[end - 1 : end] == quote:
        return start + 1, end - 1
    return start, end
