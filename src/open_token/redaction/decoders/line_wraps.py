"""Join lines that a terminal, a mail program or a box wrapped where they were full."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from open_token.redaction.decoders.offset_map import Replacement
from open_token.redaction.lazy_patterns import lazy_compile

_BORDERS = ("│", "┃", "║", "▌", "▏", "⎿", "|")
_BORDER_BYTES = tuple(border.encode() for border in _BORDERS)
# Gutters, quotes, the signs of a diff, and the line numbers of cat, grep and editors.
_PREFIX = rf"(?:[>+#*-]|{'|'.join(_BORDERS[:-1])}|\||[0-9]{{1,7}}(?:→|[:|\t]))[ \t]*".encode()
_MARGIN = lazy_compile(rb"(?:" + _PREFIX + rb")*")
_ONE_PREFIX = lazy_compile(_PREFIX)
_NUMBER = lazy_compile(rb"[0-9]+")
_RUN = lazy_compile(rb"[0-9A-Za-z_+/=.~%@:!#$&*?^-]+")
_PLAIN_WORD = lazy_compile(rb"(?:[A-Z]?[a-z]{0,19}|[A-Z]{1,20})[.:]?$|[A-Za-z_][\w.-]*[:=][^=]")
# A line that begins with a name, as a header or an assignment does, continues nothing; neither does
# a rule.
_NAME = lazy_compile(
    rb":?[A-Za-z_][\w.-]*(?:[ \t]*[:=][ \t]|:?[ \t]*=[ \t]|:\r?$)|-----", re.MULTILINE
)
_MIN_FULL_WIDTH = 24
_CERTAIN_WIDTH = 60
"""A full line of this width was surely wrapped, if no word of plain text follows."""
_MAX_LINES = 48
_MAX_BORDER_SIZE = 8
"""Bytes of the border at the end of a full line, and of the spaces before it."""


class _Line(NamedTuple):
    """A line without its border at the end and its indentation."""

    margin: bytes
    """The prefixes of its margin, with all numbers alike."""
    start: int
    end: int
    width: int
    """Zero where spaces fill the line up to its border."""


def _parse_line(raw: bytes, position: int) -> _Line:
    end = raw.find(b"\n", position)
    content = raw[position : len(raw) if end < 0 else end].rstrip()
    is_padded = False
    if content.endswith(_BORDER_BYTES):
        bare = _strip_border(content)
        is_padded = len(content) - len(bare) > _MAX_BORDER_SIZE
        content = bare
    start = len(content) - len(content.lstrip(b" \t"))
    width = len(content) if content.isascii() else len(content.decode("utf-8", "replace"))
    margin = b""
    if not content[start : start + 1].isalpha():
        match = _MARGIN.match(content, start)
        margin = _normalize_margin(match[0]) if match else b""
    return _Line(margin, position + start, position + len(content), 0 if is_padded else width)


def _strip_border(content: bytes) -> bytes:
    border = next(border for border in _BORDER_BYTES if content.endswith(border))
    return content[: -len(border)].rstrip()


def _normalize_margin(margin: bytes) -> bytes:
    return _NUMBER.sub(b"0", margin.replace(b" ", b""))


def find_wrapped_end(raw: bytes, start: int) -> int:
    """Return where the wrapped lines end that begin at a position; each but the last is full."""
    end = raw.find(b"\n", start)
    if end - start < _MIN_FULL_WIDTH or _is_next_longer(raw, start, end):
        return start
    line = _parse_line(raw, start)
    for _ in range(_MAX_LINES):
        next_start = raw.find(b"\n", line.end) + 1
        if not next_start:
            break
        following = _parse_line(raw, next_start)
        if not _is_continued(raw, line, following):
            break
        start = following.end
        line = following
    return start


def _is_next_longer(raw: bytes, start: int, end: int) -> bool:
    """Return whether the next line is longer, so that this one was not full: a quick check."""
    next_end = raw.find(b"\n", end + 1)
    line = raw[start:end].rstrip()
    following = raw[end + 1 : len(raw) if next_end < 0 else next_end].rstrip()
    if len(following) <= len(line) or following.endswith(_BORDER_BYTES):
        return False
    return line.isascii() and following.isascii()


def find_line_joints(raw: bytes) -> Iterator[tuple[Replacement, bool]]:
    """Yield what lies between a full line and its continuation, and whether that is certain."""
    line = _parse_line(raw, 0)
    while next_start := raw.find(b"\n", line.end) + 1:
        following = _parse_line(raw, next_start)
        if _is_continued(raw, line, following):
            joint = Replacement(line.end, _find_content(raw, line, following), b"")
            yield joint, _is_certain(raw, line, following)
        line = following


def _find_content(raw: bytes, line: _Line, following: _Line) -> int:
    """Return where the content of a line begins: after the prefixes that both lines have."""
    position = following.start
    margin = line.margin
    while margin and (match := _ONE_PREFIX.match(raw, position, following.end)):
        prefix = _normalize_margin(match[0])
        if not margin.startswith(prefix):
            break
        position = match.end()
        margin = margin[len(prefix) :]
    return position


def _is_continued(raw: bytes, line: _Line, following: _Line) -> bool:
    if line.width < _MIN_FULL_WIDTH or line.width < following.width:
        return False
    if not _RUN.match(raw, line.end - 1, line.end):
        return False
    return _RUN.match(raw, _find_content(raw, line, following), following.end) is not None


def _is_certain(raw: bytes, line: _Line, following: _Line) -> bool:
    if line.width < _CERTAIN_WIDTH:
        return False
    start = _find_content(raw, line, following)
    run = _RUN.match(raw, start, following.end)
    if run is None or _PLAIN_WORD.match(run[0]):
        return False
    return not _NAME.match(raw, start)
