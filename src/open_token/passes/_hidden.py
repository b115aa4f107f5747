"""What keeps a value from being seen, base64 and escapes: turned into what they say, with the way back from there."""

import base64
import binascii
import re
from bisect import bisect_right
from collections.abc import Callable
from typing import NamedTuple

from open_token.passes._late import late

DISGUISES = frozenset(("base64", "escapes"))
# Four letters that stand for three bytes of plain text; base64 of anything else hardly ever has five in a row.
GROUP = "[CDI-Za-f][AC-HQS-Xgi-nwyz0-3][ABEFIJMNQRUVYZcdghklopstwx014589][A-Za-z0-9+/_-]"
# Eight that stand for three letters of UTF-16, as PowerShell takes commands.
_WIDE = late(rb"(?:[I-Za-f][AQgw][AB][A-Za-z0-9+/]A[C-H][AEIMQUYcgkosw048]A){3,}")
_GROUPS = late(f"(?:{GROUP}){{5,}}".encode())
_LAST_LINE = late(rb"(?:\\+[nr]|\s)+[^\\\s]{1,75}$")
_BREAKS = late(rb"(?:\\+[nr]|\s)+")
_ESCAPE = late(
    rb"%([0-9A-Fa-f]{2})|\\+u\{?([0-9A-Fa-f]{4})\}?|\\+x([0-9A-Fa-f]{2})|(&(?:#x?[0-9A-Fa-f]{1,7}|quot|apos|amp|lt|gt|equals|colon);)|"
    rb"\\{2,}([\"'/])|\\{3,}([nrt])|\x1b\[[0-9;?]{0,24}[A-Za-z]"
)
_SPACES = {b"n": b"\n", b"r": b"\r", b"t": b"\t"}
_CONTROL = bytes.maketrans(b"\x00\x01\x02", b"   ")


class Escape(NamedTuple):
    """Where an escape stands, and where what it says stands in the text without escapes."""

    place: int
    size: int
    start: int
    end: int


class Unescaped:
    """A text without its escapes, which knows the way back."""

    def __init__(self, raw: bytes) -> None:
        parts: list[bytes] = []
        self._escapes = [Escape(0, 0, 0, 0)]
        length = place = 0
        for found in _ESCAPE.finditer(raw):
            said = _said(found)
            length += found.start() - place
            parts += (raw[place : found.start()], said)
            self._escapes.append(Escape(length, len(said), found.start(), found.end()))
            length += len(said)
            place = found.end()
        self.text = b"".join([*parts, raw[place:]]).translate(_CONTROL)
        self._places = [escape.place for escape in self._escapes]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where a stretch of the text without escapes stands in the text with them."""
        return self._back(start, False), self._back(end - 1, True)

    def _back(self, place: int, is_end: bool) -> int:
        escape = self._escapes[bisect_right(self._places, place) - 1]
        if place < escape.place + escape.size:
            return escape.end if is_end else escape.start
        return escape.end + place - escape.place - escape.size + is_end


def stretches(raw: bytes, disguise: str) -> tuple[bytes, ...]:
    """What may be disguised in a stretch: all of it, and base64 without a last line, which may be something else."""
    if disguise == "base64" and (found := _LAST_LINE.search(raw)):
        return raw, raw[: found.start()]
    return (raw,)


class Look(NamedTuple):
    """What a disguise says, and how a place in it is found in the disguise; none: only the whole can be told."""

    text: bytes
    span: Callable[[int, int], tuple[int, int]] | None


def look_behind(raw: bytes, disguise: str) -> Look | None:
    """What a stretch says without its disguise; None where it is none."""
    if disguise == "base64":
        text = decoded_base64(raw)
        return None if text is None else Look(text, None)
    unescaped = Unescaped(raw)
    return None if unescaped.text == raw else Look(unescaped.text, unescaped.span)


def _said(found: re.Match[bytes]) -> bytes:
    if found[1] or found[3]:
        return bytes.fromhex((found[1] or found[3]).decode())
    if found[2]:
        return chr(int(found[2], 16)).encode("utf-8", "surrogatepass")
    if found[4]:
        from html import unescape

        return unescape(found[4].decode()).encode("utf-8", "surrogatepass")
    if found[6]:
        return _SPACES[found[6]]
    return found[5] or b""  # what a terminal is told says nothing


def decoded_base64(run: bytes) -> bytes | None:
    """The text that base64 holds, from where it begins to be text; None where there is none."""
    letters = _BREAKS.sub(b"", run).rstrip(b"=")
    wide = _WIDE.match(letters)
    found = wide or _GROUPS.search(letters)
    if not found:
        return None
    body = letters[found.start() :].translate(_STANDARD)
    try:
        raw = base64.b64decode(body[: len(body) - (len(body) % 4 == 1)] + b"=" * (-len(body) % 4 % 3))
    except binascii.Error:
        return None
    return raw.translate(_CONTROL, b"\0" if wide else b"")


_STANDARD = bytes.maketrans(b"-_", b"+/")
