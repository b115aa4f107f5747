"""Text as the full-text index takes it: scripts without spaces are cut into single signs and
searched as phrases."""

import re
from collections.abc import Iterator

# Kana, Han, Hangul and their neighbours, where no space tells one word from the next.
_UNSPACED = "\u2e80-\u2fdf\u3005-\u3007\u3040-\u312f\u31a0-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
_SIGN = re.compile(f"[{_UNSPACED}]")
_RUN = re.compile(f"[{_UNSPACED}]+|[^\\W_{_UNSPACED}]+")
_MOST_WORDS = 24
_MOST_LETTERS = 400
_SHORTEST_START = 3


def indexed(text: str) -> str:
    """The text with a space on both sides of every sign that is a word of its own."""
    return (
        text if text.isascii() else _SIGN.sub(r" \g<0> ", text).encode("utf-8", "replace").decode()
    )


def parts_of(text: str) -> tuple[list[str], bool]:
    """The parts of a query that have words, and whether the last word may be only begun."""
    parts = [part for part in text[:_MOST_LETTERS].split() if _RUN.search(part)][:_MOST_WORDS]
    if not parts:
        return [], False
    last = _RUN.findall(parts[-1])[-1]
    return parts, parts[-1].endswith(last) and (
        len(last) >= _SHORTEST_START and not _SIGN.match(last)
    )


def some_of(text: str) -> list[str]:
    """The different words of a text, by any of which something may be found."""
    words = dict.fromkeys(word.lower() for run in _RUN.findall(text) for word in _words(run))
    return list(words)[:_MOST_WORDS]


def all_of(text: str) -> str | None:
    """A query for rows that have every word, the last of which may be only begun; None when there
    is no word."""
    parts, is_begun = parts_of(text)
    return (
        " AND ".join(_quoted(indexed(part)) for part in parts) + (" *" if is_begun else "")
        if parts
        else None
    )


def any_of(text: str) -> str | None:
    """A query for rows that have some of the words; None when there is no word."""
    return " OR ".join(_quoted(indexed(word)) for word in some_of(text)) or None


def _words(run: str) -> Iterator[str]:
    """A word, or the pairs of neighbours in a run of signs: most words of such scripts have two."""
    if _SIGN.match(run) and len(run) > 2:
        yield from (run[at : at + 2] for at in range(len(run) - 1))
    else:
        yield run


def _quoted(words: str) -> str:
    return (
        '"' + words.replace('"', " ").replace("\0", " ").encode("utf-8", "replace").decode() + '"'
    )
