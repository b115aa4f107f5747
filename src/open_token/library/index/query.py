"""Search queries: words, phrases, prefixes and exclusions."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from open_token.errors import UsageError
from open_token.library.index.text import compile_phrase, find_pairs, split_words

_MAX_TERMS = 32
_TERM = re.compile(r'(-?)"([^"]*)"?(\*?)|(\S+)')


@dataclass(frozen=True)
class Term:
    """One part of a query: words that follow each other, or are excluded."""

    words: tuple[str, ...]
    pairs: tuple[str, ...] = ()
    """Pairs of words that an identifier or a path joins; see `find_pairs`."""
    is_prefix: bool = False
    is_excluded: bool = False

    @property
    def pattern(self) -> re.Pattern[str]:
        """Finds the term in a folded text."""
        return compile_phrase(list(self.words), is_prefix=self.is_prefix)

    @property
    def is_phrase(self) -> bool:
        """Whether the order of its words must be checked in the text."""
        return len(self.words) > 1

    def to_fts(self) -> str:
        """Return the FTS5 expression for events that contain all words, in any order."""
        quoted = [f'"{word}"' for word in self.words]
        # The pairs come first: they are rarer. The last pair ends with the prefix.
        pairs = [f'"{pair}"' for pair in self.pairs]
        if self.is_prefix:
            quoted[-1] += "*"
            pairs = [pair + "*" for pair in pairs]
        return " AND ".join(pairs + quoted)


@dataclass(frozen=True)
class Query:
    """Terms that an event must contain, and terms that it must not."""

    wanted: tuple[Term, ...] = ()
    excluded: tuple[Term, ...] = ()

    @property
    def has_phrases(self) -> bool:
        """Whether texts must be read to decide."""
        return any(term.is_phrase for term in (*self.wanted, *self.excluded))

    def to_fts(self, markers: Sequence[Sequence[str]] = ()) -> str:
        """Return the FTS5 expression; empty if every event matches.

        `markers` are lists of words; an event must have one word of each list that is not empty.
        """
        parts = [f"({term.to_fts()})" for term in self.wanted]
        for words in filter(None, markers):
            parts.append("(" + " OR ".join(f'"{word}"' for word in words) + ")")
        expression = " AND ".join(parts)
        for term in self.excluded:
            # An excluded phrase is checked in the text: its words may also occur apart.
            if not term.is_phrase:
                expression = f"({expression}) NOT ({term.to_fts()})"
        return expression

    def matches(self, folded_text: str) -> bool:
        """Return whether the phrases of the query are in a text, and the excluded ones are not."""
        for term in self.wanted:
            if term.is_phrase and not term.pattern.search(folded_text):
                return False
        for term in self.excluded:
            if term.is_phrase and term.pattern.search(folded_text):
                return False
        return True


def parse_query(text: str) -> Query:
    """Parse `word "a phrase" prefix* -excluded`; a word with punctuation is a phrase."""
    wanted: list[Term] = []
    excluded: list[Term] = []
    for match in _TERM.finditer(text):
        sign, phrase, star, bare = match.groups()
        if bare is not None:
            sign = "-" if bare.startswith("-") and len(bare) > 1 else ""
            phrase = bare
            star = "*" if bare.endswith("*") else ""
        words = tuple(split_words(phrase))
        if not words:
            continue
        term = Term(words, tuple(find_pairs(phrase)), bool(star), bool(sign))
        (excluded if term.is_excluded else wanted).append(term)
    if len(wanted) + len(excluded) > _MAX_TERMS:
        raise UsageError(
            f"the query has more than {_MAX_TERMS} words", help="search for fewer words"
        )
    if excluded and not wanted:
        raise UsageError(
            "the query only excludes words", help="add a word that the text must contain"
        )
    return Query(tuple(wanted), tuple(excluded))
