"""Text as PostgreSQL finds it: words folded by ourselves, so that both stores find the same
whatever its locale is."""

import re
import unicodedata
from collections.abc import Iterable, Sequence

from msgspec import Struct

from open_token.server.store import _words

_WORD = re.compile(r"[^\W_]+")
_MARKS = re.compile("[\u0300-\u036f]")
_LONGEST_WORD = 200
_MOST_BYTES = 400_000
"""What one row is found by: PostgreSQL takes a megabyte of different words and no more."""


class Sought(Struct, frozen=True):
    """What to look for: phrases, of the last of which the last word may be only begun."""

    phrases: Sequence[Sequence[str]]
    is_begun: bool = False

    def query(self, glue: str) -> str:
        """The words for the index, with `&` or `|` between the phrases."""
        parts = ["(" + " & ".join(f"'{word}'" for word in phrase) + ")" for phrase in self.phrases]
        if self.is_begun:
            parts[-1] = parts[-1][:-1] + ":*)"
        return f" {glue} ".join(parts)

    def patterns(self) -> list[str]:
        """The phrases for LIKE, as the stored words have them."""
        made = [f"% {' '.join(phrase)} %" for phrase in self.phrases]
        if self.is_begun:
            made[-1] = made[-1][:-2] + "%"
        return made


def words(text: str) -> list[str]:
    """The words of a text without case and accents; signs of unspaced scripts are words of their
    own."""
    spaced = _words.indexed(text).lower()
    if not spaced.isascii():
        spaced = unicodedata.normalize("NFC", _MARKS.sub("", unicodedata.normalize("NFD", spaced)))
    return [word[:_LONGEST_WORD] for word in _WORD.findall(spaced)]


def stored(text: str) -> str:
    """The words of a text as a row keeps them, each with a space before and behind it."""
    whole = " ".join(words(text)).encode()
    if len(whole) > _MOST_BYTES:
        whole = whole[: whole.rindex(b" ", 0, _MOST_BYTES)]
    return f" {whole.decode()} " if whole else ""


def all_of(text: str) -> Sought | None:
    """Rows that have every word, the last of which may be only begun; None when there is no
    word."""
    parts, is_begun = _words.parts_of(text)
    phrases = _phrases(parts)
    return Sought(phrases, is_begun) if phrases else None


def any_of(text: str) -> Sought | None:
    """Rows that have some of the words; None when there is no word."""
    phrases = _phrases(_words.some_of(text))
    return Sought(phrases) if phrases else None


def _phrases(parts: Iterable[str]) -> list[list[str]]:
    return [phrase for part in parts if (phrase := words(part))]
