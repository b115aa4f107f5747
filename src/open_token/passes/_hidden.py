"""What keeps a value from being seen: turned into what it says, with the way back from there."""

import re
from collections.abc import Callable
from typing import NamedTuple

from open_token.passes import _packed
from open_token.passes._late import late
from open_token.passes._way_back import Change, Changed, replaced
from open_token.passes._wrapped import full_lines, joints

_ESCAPE = late(
    rb"%([0-9A-Fa-f]{2})|\\+u\{?([0-9A-Fa-f]{4})\}?|\\+x([0-9A-Fa-f]{2})|(&(?:#x?[0-9A-Fa-f]{1,7}|quot|apos|amp|lt|gt|equals|colon);)|"
    rb"\\{2,}([\"'/])|\\{3,}([nrt])|\\+([01][0-7]{2})|=(3D)|(\xef\xbc[\x81-\xbf]|\xef\xbd[\x80-\x9e])|"
    # What a terminal is told, and signs that nobody sees.
    rb"\x1b\[[0-9;?]{0,24}[A-Za-z]|\x1b\][^\x07\x1b\n]{0,400}(?:\x07|\x1b\\)|"
    rb"(?<=[\t\n\r -~])\x00(?!\x00)|\xe2\x80[\x8b-\x8f\xaa-\xae]|\xe2\x81[\xa0-\xaf]|\xef\xbb\xbf|\xc2\xad"
)
_SPACES = {b"n": b"\n", b"r": b"\r", b"t": b"\t"}
_QUOTE = rb"\\{0,3}[\"'`]"
_BREAK = rb"(?:\r?\n|\\r\\n|\\n)[ \t]{0,80}"
# Strings that code puts together, lines that go on behind a backslash, and those of mails that go
# on behind a sign.
_GLUE = late(
    rb"(?<=[0-9A-Za-z_+/=.~%@:-])(?:"
    + _QUOTE
    + rb"[ \t]{0,8}(?:"
    + _BREAK
    + rb")?(?:(?:\+|\.\.?|&|<>|~|\|\|)[ \t]{0,8}(?:\\?"
    + _BREAK
    + rb")?)?[brufBRUF]?"
    + _QUOTE
    + rb"|\\"
    + _BREAK
    + rb"|(?<=[0-9A-Za-z_+/.~%@:-])=\r?\n)(?=[0-9A-Za-z_+/=.~%@:-])"
)
_COMMA = late(_QUOTE + rb"(?:\s|\\[nr])*,(?:\s|\\[nr])*[brufBRUF]?" + _QUOTE)
_NEAR = 256
_STRING = late(rb"[^\"'`\n]*")


class Look(NamedTuple):
    """What a disguise says, and how a place in it is found in the disguise; none: only the whole
    can be told."""

    text: bytes
    changed: Changed | None = None
    is_joined: bool = False
    """Only what lies over a place where something was left out counts: all else is seen without
    this look."""
    is_sure: bool = True
    """Not so: two lines may only look as if one went on, so that it must be a token that neither
    holds by itself."""


def stretches(text: bytes, start: int, end: int, disguise: str) -> tuple[bytes, ...]:
    """What may be disguised where a rule matched."""
    if disguise == "wrapped":
        last = full_lines(text, start)
        return (text[start:last],) if last > end else ()
    return (
        _packed.stretches(text[start:end]) if disguise in ("base64", "hex") else (text[start:end],)
    )


def looks_behind(raw: bytes, disguise: str) -> list[Look]:
    """What a stretch says without its disguise; nothing where it is none."""
    return DISGUISES[disguise](raw)


def _packed_look(decoded: Callable[[bytes], bytes | None]) -> Callable[[bytes], list[Look]]:
    def look(raw: bytes) -> list[Look]:
        text = decoded(raw)
        return [] if text is None else [Look(text)]

    return look


def _without_escapes(raw: bytes) -> list[Look]:
    changed = replaced(raw, _ESCAPE, _said)
    return [] if changed.text == raw else [Look(changed.text, changed)]


def _without_glue(raw: bytes) -> list[Look]:
    """All strings put together; and of several in a row each with the one before it alone, and the
    one behind it."""
    glue = [Change(found.start(), found.end(), b"") for found in _GLUE.finditer(raw)]
    looks = [_joined(raw, glue)] if glue else []
    rows = _rows(raw, glue)
    ends = [0, *(row[-1].end for row in rows)]
    starts = [*(row[0].start for row in rows[1:]), len(raw)]
    for row, end, start in zip(rows, ends, starts, strict=False):
        if len(row) > 1:
            first, last = max(end, row[0].start - _NEAR), min(start, row[-1].end + _NEAR)
            looks += (_joined(raw, row[::2], first, last), _joined(raw, row[1::2], first, last))
    return looks


def _without_commas(raw: bytes) -> list[Look]:
    """The strings of a list that code puts together."""
    commas = [Change(found.start(), found.end(), b"") for found in _COMMA.finditer(raw)]
    return [_joined(raw, commas)] if commas else []


def _rows(raw: bytes, glue: list[Change]) -> list[list[Change]]:
    """What holds strings together, by those that follow one another."""
    rows: list[list[Change]] = []
    for change in glue:
        if rows and _STRING.fullmatch(raw, rows[-1][-1].end, change.start):
            rows[-1].append(change)
        else:
            rows.append([change])
    return rows


def _in_one_line(raw: bytes) -> list[Look]:
    found = list(joints(raw))
    sure = [change for change, is_sure in found if is_sure]
    looks = [_joined(raw, sure)] if sure else []
    if len(sure) < len(found):
        looks.append(_joined(raw, [change for change, _ in found])._replace(is_sure=False))
    return looks


def _joined(raw: bytes, changes: list[Change], first: int = 0, last: int | None = None) -> Look:
    changed = Changed(raw, changes, first, last)
    return Look(changed.text, changed, is_joined=True)


def _said(found: re.Match[bytes]) -> bytes:
    if digits := found[1] or found[3] or found[8]:
        return bytes.fromhex(digits.decode())
    if found[2]:
        return chr(int(found[2], 16)).encode("utf-8", "surrogatepass")
    if found[4]:
        from html import unescape

        return unescape(found[4].decode()).encode("utf-8", "surrogatepass")
    if found[6]:
        return _SPACES[found[6]]
    if found[7]:
        return bytes((int(found[7], 8),))
    if found[9]:
        return chr(ord(found[9].decode()) - 0xFEE0).encode()
    return found[5] or b""


DISGUISES = {
    "base64": _packed_look(_packed.decoded_base64),
    "base32": _packed_look(_packed.decoded_base32),
    "hex": _packed_look(_packed.decoded_hex),
    "numbers": _packed_look(_packed.decoded_numbers),
    "escapes": _without_escapes,
    "glue": _without_glue,
    "list": _without_commas,
    "wrapped": _in_one_line,
}
