"""The grammar of redaction markers, `[REDACTED:<type>:<hash8>]`, for every module that reads them.

The type is one or more of the characters `A-Za-z0-9_.-`; hash8 is eight lower-case hexadecimal
digits. A character class without brackets and colons keeps every search linear: no two attempts
scan the same bytes.
"""

import re

from open_token.redaction.lazy_patterns import lazy_compile

MARKER_START = "[REDACTED:"
_TYPE = r"[A-Za-z0-9_.-]+"
_HASH = r"[0-9a-f]{8}"
MARKER_PATTERN = rf"\[REDACTED:{_TYPE}:{_HASH}\]"
"""The source of the pattern, without groups, to be a part of others."""

MARKER = lazy_compile(rf"\[REDACTED:(?P<type>{_TYPE}):(?P<hash>{_HASH})\]")
_MARKER_BYTES = lazy_compile(rf"\[REDACTED:({_TYPE}):{_HASH}\]".encode())
_UNGROUPED = lazy_compile(MARKER_PATTERN)
_MALFORMED = lazy_compile(rf"\[REDACTED:(?!{_TYPE}:{_HASH}\])")
_START_BYTES = MARKER_START.encode()


def format_marker(type: str, hash8: str) -> str:
    """Return the marker of a value of this type."""
    return f"[REDACTED:{type}:{hash8}]"


def has_malformed_marker(text: str) -> bool:
    """Return whether a text has the start of a marker that is not one."""
    return MARKER_START in text and _MALFORMED.search(text) is not None


def split_at_markers(text: str) -> list[str]:
    """Return the parts of a text between its markers."""
    if MARKER_START not in text:
        return [text]
    return _UNGROUPED.split(text)


def split_around_markers(text: str) -> list[tuple[str, bool]]:
    """Return all parts of a text in order, each with whether it is a marker."""
    parts: list[tuple[str, bool]] = []
    end = 0
    for match in MARKER.finditer(text):
        parts.append((text[end : match.start()], False))
        parts.append((match[0], True))
        end = match.end()
    parts.append((text[end:], False))
    return [part for part in parts if part[0]]


def count_markers(data: bytes) -> int:
    """Return how many markers UTF-8 text has."""
    if _START_BYTES not in data:
        return 0
    return len(_MARKER_BYTES.findall(data))


def strip_marker_hashes(data: bytes) -> bytes:
    """Return UTF-8 text with `[REDACTED:<type>]` for each marker."""
    if _START_BYTES not in data:
        return data
    return _MARKER_BYTES.sub(rb"[REDACTED:\1]", data)


def find_marker(data: bytes, position: int) -> re.Match[bytes] | None:
    """Return the first marker from a position on."""
    return _MARKER_BYTES.search(data, position)


def blank_markers(data: bytes, filler: bytes = b"\0") -> bytes:
    """Return the text with each byte of its markers replaced, so that no rule matches there."""
    if _START_BYTES not in data:
        return data
    return _MARKER_BYTES.sub(lambda match: filler * len(match[0]), data)
