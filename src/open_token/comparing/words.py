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
    i = j = 0
    for x, y in [*chain(a, b), (len(a), len(b))]:
        for sign, words in (("-", a[i:x]), ("+", b[j:y]), ("=", a[x : x + 1])):
            _add(pieces, sign, "".join(words))
        i, j = x + 1, y + 1
    return _joined(pieces)


def _tokens(text: str) -> list[str]:
    made = _TOKEN.findall(text[:_LONGEST])
    return [*made, text[_LONGEST:]] if len(text) > _LONGEST else made


def _add(pieces: list[Piece], sign: str, words: str) -> None:
    if words:
        pieces.append((sign, words))


def _joined(pieces: list[Piece]) -> list[Piece]:
    """A blank between two changes belongs to them: several words that changed read better as one."""
    made: list[Piece] = []
    gone: list[str] = []
    came: list[str] = []
    for place, (sign, words) in enumerate(pieces):
        is_bridge = sign == "=" and not words.strip() and "\n" not in words and (gone or came)
        follows = place + 1 < len(pieces) and pieces[place + 1][0] != "="
        if sign == "-" or (is_bridge and follows):
            gone.append(words)
        if sign == "+" or (is_bridge and follows):
            came.append(words)
        if sign != "=" or (is_bridge and follows):
            continue
        made += _flushed(gone, came)
        if made and made[-1][0] == "=":
            made[-1] = "=", made[-1][1] + words
        else:
            made.append((sign, words))
    return made + _flushed(gone, came)


def _flushed(gone: list[str], came: list[str]) -> list[Piece]:
    made = [(sign, "".join(words)) for sign, words in (("-", gone), ("+", came)) if words]
    gone.clear()
    came.clear()
    return made
