"""Lines of a name and a value, and blocks of such lines: YAML, TOML, INI, properties, .env files.

A bare word is a value only where another line of the same form stands beside it.
"""

from collections.abc import Iterator

from open_token.redaction.lazy_patterns import lazy_compile
from open_token.redaction.structures.names import Name, Pair, skip_quote_signs, strip_span

_MAX_LINES = 100
_LINE_LENGTH = 1_024
_MAX_INDENT = 128
# What may stand before a name that begins its line.
_KEY_START = lazy_compile(
    rb"[ \t]*(?:[-*][ \t]+)?(?:export[ \t]+|set[ \t]+|declare -x |ENV |ARG |\$env:)?[\"']?"
)
_ASSIGNED = lazy_compile(rb"[\"']?[ \t]*(:=|=>|[:=])(?:[ \t]+|(?<==)|$)")
_COMMENT = lazy_compile(rb"[ \t]+[#;].*$")
_BLOCK_SIGN = lazy_compile(rb"[|>][-+0-9]{0,2}$")
# The name of a pair of lines: `name: X`, and below it `value: Y`.
_NAME_KEY = lazy_compile(
    rb"^[ \t]*(?:-[ \t]+)?[\"']?(?:name|key|id|Name|Key)[\"']?[ \t]*[:=][ \t]*[\"']?$"
)
_VALUE_LINE = lazy_compile(
    rb"[ \t]*(?:-[ \t]+)?[\"']?(?:value|Value|default|content)[\"']?[ \t]*[:=][ \t]*([^\r\n]+)"
)
_SECTION = lazy_compile(rb"[ \t]*\[{1,2}[^\[\]\r\n]{1,100}\]{1,2}[ \t]*")
_COLON_LINE = lazy_compile(
    rb"[ \t]*(?:-[ \t]+)?[\"']?[\w.@/-]{1,64}[\"']?[ \t]*:(?:[ \t]+\S[^\r\n]*)?[ \t]*"
)
_EQUALS_LINE = lazy_compile(
    rb"[ \t]*(?:export[ \t]+)?[\w.@/-]{1,64}=[^\s=][^\r\n]*|[ \t]*#[^\r\n]*"
)
_SPACED_EQUALS_LINE = lazy_compile(rb"[ \t]*[\"']?[\w.@/-]{1,64}[\"']?[ \t]*=[ \t]*[^\r\n]*")
_ITEM = lazy_compile(
    rb"[ \t]*(?:-[ \t]+)?(?:[\"']?([\w.@/-]{1,64})[\"']?[ \t]*[:=][ \t]*)?([^\r\n]*)"
)
_CONTAINER = lazy_compile(
    rb"(?i)(?:secrets|tokens|passwords|passwds|[_-]keys|apikeys|credentials|stringdata)$"
)
_CODE_END = (b",", b";", b"{", b"(", b"}", b")")
_COMPOUND_SIGNS = frozenset(b"_.")
_SECTION_REACH = 20
_MAX_LIST = 4_096
_STRING = lazy_compile(rb"\"([^\"\\\r\n]+)\"|'([^'\\\r\n]+)'")

Span = tuple[int, int]


def list_pairs(name: Name) -> list[Pair]:
    """Return the value that a line gives to a name, or those of the block below it."""
    if name.start - name.line_start > _MAX_INDENT:
        return []
    if _NAME_KEY.match(name.before):
        return _list_of_value_line(name)
    if name.before.strip() in (b"[", b"[[") and name.after.strip() in (b"]", b"]]"):
        return _list_section(name)
    if _KEY_START.fullmatch(name.before) is None:
        return []
    sign = _ASSIGNED.match(name.after)
    if sign is None:
        return []
    start = name.end + sign.end()
    rest = name.text[start : name.line_end].strip()
    if not rest or _BLOCK_SIGN.match(rest):
        return _list_block(name, is_text=bool(rest))
    if rest.startswith(b"["):
        return _list_items(name, start)
    # A compound name is no word of a sentence.
    is_compound = not _COMPOUND_SIGNS.isdisjoint(name.word.lstrip(b"-_."))
    if not (is_compound and sign[0] != b" = ") and not _has_neighbour(
        name, sign[1], is_spaced=sign[0] != b"="
    ):
        return []
    return _list_bare_value(name, start)


def _list_bare_value(name: Name, start: int) -> list[Pair]:
    text = name.text
    comment = _COMMENT.search(text, start, name.line_end)
    start, end = strip_span(text, start, comment.start() if comment else name.line_end)
    value = text[start:end]
    if not value or value.endswith(_CODE_END) or b"(" in value:
        return []
    return [] if len(value.split()) != 1 else [Pair(name.word, start, end)]


def _has_neighbour(name: Name, sign: bytes, *, is_spaced: bool) -> bool:
    """Return whether a line above or below has the same form, and neither is code."""
    neighbours = [_find_line(name.text, _find_end_above(name), -1)]
    neighbours.append(_find_line(name.text, name.line_end, 1))
    lines = [name.text[start:end] for start, end in neighbours if start < end]
    if any(line.rstrip().endswith(_CODE_END) for line in lines):
        return False
    if any(_SECTION.fullmatch(line) for line in lines):
        return True
    if sign == b":":
        return any(_COLON_LINE.fullmatch(line) for line in lines)
    if not is_spaced:
        return any(_EQUALS_LINE.fullmatch(line) for line in lines)
    # Assignments with spaces are code, unless they stand in a section.
    return _has_section_above(name)


def _has_section_above(name: Name) -> bool:
    position = _find_end_above(name)
    for _ in range(_SECTION_REACH):
        start, end = _find_line(name.text, position, -1)
        line = name.text[start:end]
        if _SECTION.fullmatch(line):
            return True
        if not _SPACED_EQUALS_LINE.fullmatch(line):
            return False
        position = name.text.rfind(b"\n", max(0, start - _LINE_LENGTH), start)
    return False


def _find_end_above(name: Name) -> int:
    """Return where the line above ends; -1 if there is none."""
    return name.text.rfind(b"\n", max(0, name.line_start - _LINE_LENGTH), name.line_start)


def _find_line(text: bytes, position: int, direction: int) -> Span:
    """Return the line that ends before a position, or that begins behind it; at most a part."""
    if direction < 0:
        if position < 0:
            return 0, 0
        first = max(0, position - _LINE_LENGTH)
        start = text.rfind(b"\n", first, position) + 1 or first
        start = skip_quote_signs(text, start, position)
        return start, _strip_return(text, start, position)
    start = text.find(b"\n", position, position + 2) + 1
    if not start:
        return 0, 0
    end = text.find(b"\n", start, start + _LINE_LENGTH)
    if end < 0:
        end = min(len(text), start + _LINE_LENGTH)
    return skip_quote_signs(text, start, end), _strip_return(text, start, end)


def _strip_return(text: bytes, start: int, end: int) -> int:
    return end - 1 if end > start and text[end - 1 : end] == b"\r" else end


def _iter_lines_below(name: Name) -> Iterator[Span]:
    position = name.line_end
    for _ in range(_MAX_LINES):
        start, end = _find_line(name.text, position, 1)
        if start >= end:
            return
        yield start, end
        position = end


def _list_of_value_line(name: Name) -> list[Pair]:
    """Return the value beside a line that has its name: `name: X`, `value: Y`."""
    if name.after.strip(b" \t\"',"):
        return []
    text = name.text
    spans = [_find_line(text, _find_end_above(name), -1), *list(_iter_lines_below(name))[:2]]
    for start, end in spans:
        value = _VALUE_LINE.fullmatch(text[start:end].rstrip())
        if value:
            span = strip_span(text, start + value.start(1), start + value.end(1))
            return [Pair(name.word, *span)]
    return []


def _list_section(name: Name) -> list[Pair]:
    """Return the lines of a section whose name is that of secrets."""
    pairs = []
    for start, end in _iter_lines_below(name):
        line = name.text[start:end]
        if _SECTION.fullmatch(line):
            break
        item = _ITEM.match(line)
        if item and item[1]:
            span = strip_span(name.text, start + item.start(2), start + item.end(2))
            pairs.append(Pair(item[1], *span, name.word))
    return pairs


def _list_items(name: Name, start: int) -> list[Pair]:
    """Return the strings of a list of secrets, on its line or below it."""
    if _CONTAINER.search(name.word) is None:
        return []
    end = name.text.find(b"]", start, start + _MAX_LIST)
    strings = _STRING.finditer(name.text, start, end) if end > 0 else ()
    return [
        Pair(b"item", *item.span(1 if item[1] is not None else 2), name.word) for item in strings
    ]


def _list_block(name: Name, *, is_text: bool) -> list[Pair]:
    """Return the lines below a name that are indented further: its text, or a list of secrets."""
    indent = len(name.before) - len(name.before.lstrip())
    is_container = _CONTAINER.search(name.word) is not None
    pairs = []
    for start, end in _iter_lines_below(name):
        line = name.text[start:end]
        is_item = line.lstrip().startswith(b"- ")
        if len(line) - len(line.lstrip()) <= indent - is_item or not line.strip():
            break
        if is_text:
            return [Pair(name.word, *strip_span(name.text, start, end))]
        item = _ITEM.match(line)
        if not is_container or item is None:
            break
        span = strip_span(name.text, start + item.start(2), start + item.end(2))
        if span[0] < span[1]:
            pairs.append(Pair(item[1] or b"value", *span, name.word))
    return pairs
