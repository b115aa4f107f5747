"""A model of characters: how much a string looks random, and not like words, names or paths.

It adds the logarithms of the odds of every three consecutive characters, as a naive Bayes classifier
does. `scripts/train_character_model.py` trains it from program texts and generated strings.
"""

import functools
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

PATH = Path(__file__).resolve().parent.parent / "rules" / "characters.txt"
_FIRST_LEVEL = ord("0")
_LEVELS = 64
_STEP = 0.25
_END = "^"
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_DIGIT = re.compile("[0-9]")
_UPPER = re.compile("[A-Z]")
_LOWER = re.compile("[a-z]")
_OTHER = re.compile("[^a-z0-9]")
_MAX_LENGTH = 200


def _view_letters(text: str) -> str:
    """Return a text with all digits alike, and all signs."""
    return _OTHER.sub("-", _DIGIT.sub("0", text.lower()))


def _view_classes(text: str) -> str:
    """Return the kinds of the characters of a text: small, capital, digit, sign."""
    kinds = _DIGIT.sub("0", _UPPER.sub("A", _LOWER.sub("a", text)))
    return re.sub("[^aA0]", "-", kinds)


VIEWS = {"letters": _view_letters, "classes": _view_classes}
ALPHABETS = {"letters": _LETTERS + "0-" + _END, "classes": "aA0-" + _END}


def list_trigrams(view: str) -> list[str]:
    """Return every three consecutive characters of a view, with its ends."""
    padded = _END + view + _END
    return [padded[index : index + 3] for index in range(len(padded) - 2)]


def iter_trigrams(alphabet: str) -> Iterator[str]:
    """Yield all trigrams of an alphabet in the order of the file."""
    return map("".join, itertools.product(alphabet, repeat=3))


def encode_level(odds: float) -> str:
    """Return a logarithm of odds as one character."""
    level = round(odds / _STEP) + _LEVELS // 2
    return chr(_FIRST_LEVEL + min(max(level, 0), _LEVELS - 1))


@functools.cache
def _load_odds() -> list[tuple[str, dict[str, float]]]:
    lines = PATH.read_text(encoding="ascii").split("\n")
    tables = []
    for name, line in zip(VIEWS, lines, strict=False):
        odds = [(ord(level) - _FIRST_LEVEL - _LEVELS // 2) * _STEP for level in line]
        tables.append((name, dict(zip(iter_trigrams(ALPHABETS[name]), odds, strict=True))))
    return tables


def measure_randomness(text: str) -> float:
    """Return the mean log-odds of a text: above 0 if it is rather random than words."""
    text = text[:_MAX_LENGTH]
    if not text:
        return 0.0
    total = 0.0
    for name, odds in _load_odds():
        total += sum(map(odds.__getitem__, list_trigrams(VIEWS[name](text))))
    return total / len(text)
