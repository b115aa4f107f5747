"""Full-text search: prepare text for the index, and build queries.

Scripts without spaces between words are indexed character by character and searched as phrases.
"""

import re
from collections.abc import Iterator

# Kana, Han, Hangul and related blocks, where no space separates one word from the next.
_UNSPACED = (
    "\u2e80-\u2fdf\u3005-\u3007\u3040-\u312f\u31a0-\u9fff\ua960-\ua97f\uac00-\ud7ff"
    "\uf900-\ufaff\U00020000-\U0003ffff"
)
_UNSPACED_CHARACTER = re.compile(f"[{_UNSPACED}]")
_RUN = re.compile(f"[{_UNSPACED}]+|[^\\W_{_UNSPACED}]+")
_MAX_WORDS = 24
_MAX_CHARACTERS = 400
_MIN_PREFIX_LENGTH = 3


def to_index_text(text: str) -> str:
    """Return the text with spaces around every character of an unspaced script."""
    if text.isascii():
        return text
    spaced = _UNSPACED_CHARACTER.sub(r" \g<0> ", text)
    return spaced.encode("utf-8", "replace").decode()


def split_query(text: str) -> tuple[list[str], bool]:
    """Return the parts of a query that contain words, and whether the last word is a prefix."""
    parts = [part for part in text[:_MAX_CHARACTERS].split() if _RUN.search(part)]
    parts = parts[:_MAX_WORDS]
    if not parts:
        return [], False
    last_word = _RUN.findall(parts[-1])[-1]
    is_prefix = (
        parts[-1].endswith(last_word)
        and len(last_word) >= _MIN_PREFIX_LENGTH
        and not _UNSPACED_CHARACTER.match(last_word)
    )
    return parts, is_prefix


def extract_words(text: str) -> list[str]:
    """Return the distinct words of a text."""
    words: dict[str, None] = {}
    for run in _RUN.findall(text):
        for word in _split_run(run):
            words[word.lower()] = None
    return list(words)[:_MAX_WORDS]


def match_all_query(text: str) -> str | None:
    """Return an FTS query for rows with every word, the last of which may be a prefix.

    None when the text has no words.
    """
    parts, is_prefix = split_query(text)
    if not parts:
        return None
    query = " AND ".join(_quote(to_index_text(part)) for part in parts)
    return f"{query} *" if is_prefix else query


def match_any_query(text: str) -> str | None:
    """Return an FTS query for rows with some of the words; None when the text has no words."""
    words = extract_words(text)
    return " OR ".join(_quote(to_index_text(word)) for word in words) or None


def _split_run(run: str) -> Iterator[str]:
    """Yield a word, or the character pairs of an unspaced run: most of its words have two."""
    if _UNSPACED_CHARACTER.match(run) and len(run) > 2:
        for index in range(len(run) - 1):
            yield run[index : index + 2]
    else:
        yield run


def _quote(text: str) -> str:
    bare = text.replace('"', " ").replace("\0", " ")
    return '"' + bare.encode("utf-8", "replace").decode() + '"'
