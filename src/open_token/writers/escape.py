"""Escaping of untrusted text for HTML, and normalization of text for display.

Text of a conversation reaches a page only through these functions, so that none of it is markup.
"""

import html
import re

from open_token.redaction.markers import MARKER, MARKER_START

_DIRECTIONAL = (0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
_INVISIBLE = (
    0xAD,
    0x180E,
    0x200B,
    0x3164,
    0xFEFF,
    0xFFA0,
    *range(0x2060, 0x2066),
    *range(0x206A, 0x2070),
    *range(0xFFF9, 0xFFFC),
    0xFFFE,
    0xFFFF,
    *range(0x1BCA0, 0x1BCA4),
    *range(0x1D173, 0x1D17B),
    *range(0xE0000, 0xE0080),
)
_SURROGATES = range(0xD800, 0xE000)
_TAB = 9
_NEWLINE = 10
# Ids that start with ot- belong to the page itself.
_EVENT_ID = re.compile(r"(?!ot-)[A-Za-z][A-Za-z0-9_.-]{0,79}")


def _build_escapes() -> dict[str, str]:
    """Return what replaces each invisible or directional character.

    Zero-width joiners are not replaced: scripts and emoji need them.
    """
    # str.translate asks for every character, and one that is not there costs an exception.
    escapes = {chr(code): chr(code) for code in range(32, 127)}
    escapes |= {"\t": "\t", "\n": "\n"}
    for code in (*range(32), *range(127, 160)):
        if code not in (_TAB, _NEWLINE):
            escapes[chr(code)] = f"\\x{code:02x}"
    for code in (*_DIRECTIONAL, *_INVISIBLE, *_SURROGATES):
        escapes[chr(code)] = f"\\u{code:04x}"
    return escapes


_ESCAPES = str.maketrans(_build_escapes())


def make_visible(text: str) -> str:
    """Return text with newlines as line ends and invisible characters as escapes."""
    if text.isprintable() and text.isascii():
        return text
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.isascii():
        return text.translate(_ESCAPES)
    # str.translate is slow beyond ASCII, and few texts and lines have any of these characters.
    if _is_visible(text.replace("\n", "")):
        return text
    return "\n".join(map(_make_line_visible, text.split("\n")))


def _make_line_visible(line: str) -> str:
    return line if _is_visible(line) else line.translate(_ESCAPES)


def _is_visible(line: str) -> bool:
    """Return whether a line has no invisible character but tabs. It may be wrong the other way."""
    # Hangul fillers are the only invisible characters that count as printable.
    return line.replace("\t", "").isprintable() and "\u3164" not in line and "\uffa0" not in line


def escape_html(text: str) -> str:
    """Return text for use between tags; redaction markers are highlighted."""
    escaped = make_visible(text)
    escaped = escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    if MARKER_START not in escaped:
        return escaped
    return MARKER.sub(r'<mark title="redacted: \g<type>">\g<0></mark>', escaped)


def escape_attribute(text: str) -> str:
    """Return text for use in a double-quoted attribute."""
    return html.escape(make_visible(text).replace("\n", " "))


def render_id(event_id: object) -> str:
    """Return an `id` attribute with a leading space; empty where the id is not a plain word."""
    if isinstance(event_id, str) and _EVENT_ID.fullmatch(event_id):
        return f' id="{event_id}"'
    return ""


def to_one_line(text: str, limit: int = 160) -> str:
    """Return the text in one line of at most `limit` characters. It is not escaped."""
    line = " ".join(make_visible(text[: limit * 4]).split())
    if len(line) <= limit:
        return line
    return line[: limit - 3].rstrip() + "..."
