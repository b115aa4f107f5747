"""How one text became another, word by word."""

import re

from open_token.comparing.chain import chain

_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")
_LONGEST = 200_000
"""Characters that are taken apart; the rest of a longer text is one word."""

Piece = tuple[str, str]
"""`=`, `-` or `+`, and the words."""


def word_changes(old: str, new: str) -> list[Piece]:
    """What stayed, what went and what came, in order."""
    a, b = _tokens(old), _tokens(new)
    pieces: list[Piece] = []
    kept: list[str] = []
    i = j = 0
    for x, y in [*chain(a, b), (len(a), len(b))]:
        if x > i or y > j:
            pieces += _told(kept, a[i:x], b[j:y])
            kept = []
        kept += a[x : x + 1]
        i, j = x + 1, y + 1
    return _joined([*pieces, *_told(kept, [], [])])


def _tokens(text: str) -> list[str]:
    made = _TOKEN.findall(text[:_LONGEST])
    return [*made, text[_LONGEST:]] if len(text) > _LONGEST else made


def _told(kept: list[str], gone: list[str], came: list[str]) -> list[Piece]:
    return [
        (sign, "".join(words)) for sign, words in (("=", kept), ("-", gone), ("+", came)) if words
    ]


def _joined(pieces: list[Piece]) -> list[Piece]:
    """A blank between two changes belongs to them: several words that changed read better as
    one."""
    made: list[Piece] = []
    gone: list[str] = []
    came: list[str] = []
    for place, (sign, words) in enumerate(pieces):
        is_bridge = (
            sign == "=" and words.isspace() and "\n" not in words and 0 < place < len(pieces) - 1
        )
        if sign == "-" or is_bridge:
            gone.append(words)
        if sign == "+" or is_bridge:
            came.append(words)
        if sign == "=" and not is_bridge:
            made += _told([], gone, came)
            made.append((sign, words))
            gone, came = [], []
    return made + _told([], gone, came)
