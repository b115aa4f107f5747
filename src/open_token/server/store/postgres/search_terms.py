"""Full-text search in PostgreSQL.

Words are folded here, not by the database, so that both stores find the same whatever the locale
of the database is.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence

from msgspec import Struct

from open_token.server.store import search_text

_WORD = re.compile(r"[^\W_]+")
_COMBINING_MARKS = re.compile("[\u0300-\u036f]")
_MAX_WORD_LENGTH = 200
_MAX_BYTES = 400_000
"""The words of one row: PostgreSQL takes at most a megabyte of different words."""


class SearchQuery(Struct, frozen=True):
    """Phrases to search for; the last word of the last phrase may be a prefix."""

    phrases: Sequence[Sequence[str]]
    is_prefix: bool = False

    def to_tsquery(self, operator: str) -> str:
        """Return the words for the index, with `&` or `|` between the phrases."""
        parts = []
        for phrase in self.phrases:
            words = " & ".join(f"'{word}'" for word in phrase)
            parts.append(f"({words})")
        if self.is_prefix:
            parts[-1] = parts[-1].removesuffix(")") + ":*)"
        return f" {operator} ".join(parts)

    def to_like_patterns(self) -> list[str]:
        """Return the phrases as LIKE patterns over the stored words."""
        patterns = [f"% {' '.join(phrase)} %" for phrase in self.phrases]
        if self.is_prefix:
            patterns[-1] = patterns[-1].removesuffix(" %") + "%"
        return patterns


def split_words(text: str) -> list[str]:
    """Return the words of a text without case and accents.

    Characters of unspaced scripts are words by themselves.
    """
    spaced = search_text.to_index_text(text).lower()
    if not spaced.isascii():
        bare = _COMBINING_MARKS.sub("", unicodedata.normalize("NFD", spaced))
        spaced = unicodedata.normalize("NFC", bare)
    return [word[:_MAX_WORD_LENGTH] for word in _WORD.findall(spaced)]


def to_stored_words(text: str) -> str:
    """Return the words of a text as a row stores them, each between spaces."""
    words = " ".join(split_words(text)).encode()
    if len(words) > _MAX_BYTES:
        words = words[: words.rindex(b" ", 0, _MAX_BYTES)]
    return f" {words.decode()} " if words else ""


def match_all_query(text: str) -> SearchQuery | None:
    """Return a query for rows with every word; None when the text has no words."""
    parts, is_prefix = search_text.split_query(text)
    phrases = _split_phrases(parts)
    if phrases:
        return SearchQuery(phrases, is_prefix)
    return None


def match_any_query(text: str) -> SearchQuery | None:
    """Return a query for rows with some of the words; None when the text has no words."""
    phrases = _split_phrases(search_text.extract_words(text))
    return SearchQuery(phrases) if phrases else None


def _split_phrases(parts: Iterable[str]) -> list[list[str]]:
    phrases = (split_words(part) for part in parts)
    return [phrase for phrase in phrases if phrase]
