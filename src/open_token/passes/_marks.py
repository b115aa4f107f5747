"""The form of marks, `[REDACTED:<type>:<hash8>]`, and how a search passes over those that are
there."""

from collections.abc import Iterator

from open_token.passes._gate import lines_around
from open_token.passes._late import late

MARK = late(r"\[REDACTED:[A-Za-z0-9_.-]+:[0-9a-f]{8}\]")
_MARK_BYTES = late(MARK.pattern.encode())


def without_marks(text: bytes) -> bytes:
    """The text with each mark turned into zero bytes, which no rule matches; the length stays."""
    if b"[REDACTED:" not in text:
        return text
    return _MARK_BYTES.sub(lambda found: b"\0" * len(found[0]), text)


def near_marks(text: bytes, begin: int, count: int) -> Iterator[tuple[int, int]]:
    """The stretches of a text, from a place on, that are lines with marks and a count of lines
    around them."""
    start, end, place = begin, -1, begin
    while place >= 0 and (mark := _MARK_BYTES.search(text, place)):
        first, last = lines_around(text, mark.start(), count, begin, len(text))
        if first > end:
            if end >= 0:
                yield start, end
            start = first
        end = last
        place = text.find(b"\n", mark.end())
    if end >= 0:
        yield start, end
