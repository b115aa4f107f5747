"""Values that a terminal, a mail or a box cut where the line was full: the lines put together
again."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from open_token.passes._late import late
from open_token.passes._way_back import Change

_BORDERS = ("│", "┃", "║", "▌", "▏", "⎿", "|")
_ENDS = tuple(border.encode() for border in _BORDERS)
# Gutters, quotes, the signs of a diff, and the numbers that cat, grep and editors put before a
# line.
_SIGN = rf"(?:[>+#*-]|{'|'.join(_BORDERS[:-1])}|\||[0-9]{{1,7}}(?:→|[:|\t]))[ \t]*".encode()
_MARGIN, _ONE_SIGN = late(rb"(?:" + _SIGN + rb")*"), late(_SIGN)
_NUMBER = late(rb"[0-9]+")
_RUN = late(rb"[0-9A-Za-z_+/=.~%@:!#$&*?^-]+")
_PLAIN_WORD = late(rb"(?:[A-Z]?[a-z]{0,19}|[A-Z]{1,20})[.:]?$|[A-Za-z_][\w.-]*[:=][^=]")
# A line that begins with a name of its own, as of a header or in a program, goes on with nothing;
# nor does a rule.
_NAME = late(rb":?[A-Za-z_][\w.-]*(?:[ \t]*[:=][ \t]|:?[ \t]*=[ \t]|:\r?$)|-----", re.MULTILINE)
_LEAST, _SURE = 24, 60
"""Letters that a full line has, and so many that it is cut for certain where what follows is no
word."""
_MOST_LINES = 48
_MOST_SPACES = 8
"""Bytes that the border at the end of a full line has, and the spaces before it."""


class _Line(NamedTuple):
    """A line without its border at the end; what it says begins behind its spaces."""

    signs: bytes
    """Those of its margin, whatever its numbers are."""
    start: int
    end: int
    width: int
    """None where spaces fill it up to its border."""


def _line(raw: bytes, place: int) -> _Line:
    end = raw.find(b"\n", place)
    content = raw[place : len(raw) if end < 0 else end].rstrip()
    is_filled = False
    if content.endswith(_ENDS):
        bare = _without_border(content)
        is_filled, content = len(content) - len(bare) > _MOST_SPACES, bare
    start = len(content) - len(content.lstrip(b" \t"))
    width = len(content) if content.isascii() else len(content.decode("utf-8", "replace"))
    margin = None if content[start : start + 1].isalpha() else _MARGIN.match(content, start)
    signs = _normal(margin[0]) if margin else b""
    return _Line(signs, place + start, place + len(content), 0 if is_filled else width)


def _without_border(content: bytes) -> bytes:
    border = next(sign for sign in _ENDS if content.endswith(sign))
    return content[: -len(border)].rstrip()


def _normal(signs: bytes) -> bytes:
    return _NUMBER.sub(b"0", signs.replace(b" ", b""))


def full_lines(raw: bytes, start: int) -> int:
    """Where the lines end that begin at a place and are full, each but the last."""
    end = raw.find(b"\n", start)
    if end - start < _LEAST or _is_longer(raw, start, end):
        return start
    line, place = _line(raw, start), start
    for _ in range(_MOST_LINES):
        if not (place := raw.find(b"\n", line.end) + 1):
            break
        following = _line(raw, place)
        if not _goes_on(raw, line, following):
            break
        start, line = following.end, following
    return start


def _is_longer(raw: bytes, start: int, end: int) -> bool:
    """A quick look: whether the line behind one without a border is longer, so that this one was
    not full."""
    last = raw.find(b"\n", end + 1)
    line, following = (
        raw[start:end].rstrip(),
        raw[end + 1 : len(raw) if last < 0 else last].rstrip(),
    )
    return (
        len(following) > len(line)
        and line.isascii()
        and following.isascii()
        and not following.endswith(_ENDS)
    )


def joints(raw: bytes) -> Iterator[tuple[Change, bool]]:
    """What stands between a full line and the next, left out; and whether that is sure: no word and
    no line goes on."""
    line = _line(raw, 0)
    while place := raw.find(b"\n", line.end) + 1:
        following = _line(raw, place)
        if _goes_on(raw, line, following):
            yield (
                Change(line.end, _begin(raw, line, following), b""),
                _is_sure(raw, line, following),
            )
        line = following


def _begin(raw: bytes, line: _Line, following: _Line) -> int:
    """Where a line goes on with what the one before it said; a sign that only one of them has is
    said by it."""
    place, signs = following.start, line.signs
    while signs and (sign := _ONE_SIGN.match(raw, place, following.end)):
        if not signs.startswith(said := _normal(sign[0])):
            break
        place, signs = sign.end(), signs[len(said) :]
    return place


def _goes_on(raw: bytes, line: _Line, following: _Line) -> bool:
    if (
        line.width < _LEAST
        or line.width < following.width
        or not _RUN.match(raw, line.end - 1, line.end)
    ):
        return False
    return _RUN.match(raw, _begin(raw, line, following), following.end) is not None


def _is_sure(raw: bytes, line: _Line, following: _Line) -> bool:
    begin = _begin(raw, line, following)
    run = _RUN.match(raw, begin, following.end)
    return (
        line.width >= _SURE
        and run is not None
        and not _PLAIN_WORD.match(run[0])
        and not _NAME.match(raw, begin)
    )
