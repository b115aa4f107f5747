"""Words of texts, as the index stores and compares them."""

import re
import unicodedata
from functools import lru_cache

_WORD = re.compile(r"[^\W_]+")
_JOINED = re.compile(r"([a-z0-9]+)(?=[_./:\\-]{1,2}([a-z0-9]+))")
_PAIR = "x0x"
# Scripts that put no spaces between words: every character is a word, and a query for several of
# them is a phrase.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f]"
)
# Longer ones are base64 or minified code; a SHA-512 in hexadecimal has 128 digits.
_MAX_WORD = 128


def fold(text: str) -> str:
    """Return a text in lower case without accents; every character keeps its position."""
    lower = text.lower()
    if lower.isascii():
        return lower
    if len(lower) != len(text):
        # A few characters have longer lower-case forms.
        lower = "".join(character.lower()[:1] for character in text)
    changed = {}
    for character in set(lower):
        base = _strip_accent(character)
        if base != character:
            changed[ord(character)] = base
    return lower.translate(changed) if changed else lower


@lru_cache(maxsize=1 << 16)
def _strip_accent(character: str) -> str:
    return character if character.isascii() else unicodedata.normalize("NFD", character)[0]


def split_words(text: str) -> list[str]:
    """Return the words of a text, folded and in order."""
    folded = fold(text)
    if not folded.isascii():
        folded = _UNSPACED.sub(r" \g<0> ", folded)
    return [word for word in _WORD.findall(folded) if len(word) <= _MAX_WORD]


def find_pairs(text: str) -> list[str]:
    """Return the pairs of words that one identifier or path joins, such as get_user, each as a word.

    The words of an identifier alone are common; together they are rare, so that few texts have to
    be read to find it.
    """
    pairs = _JOINED.findall(fold(text))
    return [f"{first}{_PAIR}{second}" for first, second in pairs if len(first + second) < _MAX_WORD]


def compile_phrase(words: list[str], *, is_prefix: bool) -> re.Pattern[str]:
    """Return a pattern for words that follow each other in a folded text.

    It is linear: between two words stand only characters that no word contains.
    """
    between = r"[\W_]*" if any(_UNSPACED.fullmatch(word) for word in words) else r"[\W_]+"
    pattern = between.join(map(re.escape, words))
    start = "" if _UNSPACED.match(words[0]) else r"(?<![^\W_])"
    is_open = is_prefix or _UNSPACED.match(words[-1])
    end = "" if is_open else r"(?![^\W_])"
    return re.compile(start + pattern + end)
