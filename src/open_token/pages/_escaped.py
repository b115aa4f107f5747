"""Text of strangers as HTML: the only way by which it gets into a page, so that none of it can be
obeyed."""

import html
import re
from functools import cache

from open_token.redaction.markers import MARKER, MARKER_START

_TURNING = (0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
_UNSEEN = (
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
_ID = re.compile(r"(?!ot-)[A-Za-z][A-Za-z0-9_.-]{0,79}")


@cache
def _shown() -> dict[int, str]:
    """What stands for each character that cannot be seen or turns the text around; joiners of
    letters stay."""
    controls = {
        code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if code not in (9, 10)
    }
    return controls | {
        code: f"\\u{code:04x}" for code in (*_TURNING, *_UNSEEN, *range(0xD800, 0xE000))
    }


def plain(text: str) -> str:
    """Text whose lines end in newlines, with what cannot be seen made visible."""
    if text.isascii() and text.isprintable():
        return text
    return text.replace("\r\n", "\n").replace("\r", "\n").translate(_shown())


def escaped(text: str) -> str:
    """Text between tags; marks of redaction stand out."""
    safe = html.escape(plain(text), quote=False)
    if MARKER_START not in safe:
        return safe
    return MARKER.sub(r'<mark title="redacted: \g<type>">\g<0></mark>', safe)


def attribute(text: str) -> str:
    """Text between the double quotes of an attribute."""
    return html.escape(plain(text).replace("\n", " "))


def anchor(event_id: object) -> str:
    """The id of an event as an attribute of its own with a space before it; nothing where it is not
    a plain word."""
    return f' id="{event_id}"' if isinstance(event_id, str) and _ID.fullmatch(event_id) else ""


def one_line(text: str, longest: int = 160) -> str:
    """The text in one line, not escaped yet, cut where it is long."""
    words = " ".join(plain(text[: longest * 4]).split())
    return words if len(words) <= longest else words[: longest - 3].rstrip() + "..."
