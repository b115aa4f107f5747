"""Recognize the name of a person in that of an account: torvild.enqvist, tenqvist7, torvildenqvist."""

import functools
import re

from open_token.redaction.person_names.name_lists import load_common_words, load_names

_PART = re.compile("[A-Za-z]+")
_MIN_LENGTH = 4
_MIN_FAMILY_LENGTH = 5


@functools.lru_cache(maxsize=4096)
def is_name_like(account: str) -> bool:
    """Return whether an account has a given name, or an initial and a family name."""
    parts = [part.lower() for part in _PART.findall(account)]
    if any(_is_given(part) for part in parts):
        return True
    if len(parts) > 1 and any(_is_family(part) for part in parts):
        # The other part is an initial or a rarer given name.
        return not any(part in load_common_words() for part in parts)
    return len(parts) == 1 and _is_joined(parts[0])


def _is_joined(word: str) -> bool:
    """Return whether a word is a given name or an initial, and a family name, without a sign."""
    if len(word) > _MIN_FAMILY_LENGTH and _is_family(word[1:]) and word not in load_common_words():
        return True
    for size in range(_MIN_LENGTH - 1, len(word) - 2):
        first = word[:size]
        rest = word[size:]
        if first in load_names().given and _is_family(rest):
            return True
        if _is_given(first) and rest in load_names().family and rest not in load_common_words():
            return True
    return False


def _is_given(word: str) -> bool:
    is_listed = len(word) >= _MIN_LENGTH and word in load_names().given
    return is_listed and word not in load_common_words()


def _is_family(word: str) -> bool:
    is_listed = len(word) >= _MIN_FAMILY_LENGTH and word in load_names().family
    return is_listed and word not in load_common_words()
