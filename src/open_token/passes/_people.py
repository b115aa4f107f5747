"""Finds people's names in a line: capitalised words, what lists know of them, and what stands
around them."""

import functools
import re
from collections.abc import Container, Iterator
from typing import NamedTuple

from open_token.passes._late import late
from open_token.passes._people_cues import (
    ADDRESS_AFTER,
    FAMILY_ENDING,
    FIELD_SIGNS,
    FIELDS,
    HINT,
    HINT_AFTER,
    LIKELY,
    NOBODY,
    PATRONYMIC,
    PHRASE,
    PHRASE_ENDS,
    SAID_AFTER,
    SPEAKER,
    SURE,
    WORDS_BEFORE,
    YEARS,
)
from open_token.passes._people_lists import plain, words
from open_token.passes._people_table import Known, names

# Where capitals are; in between stand small letters too, which the shape of a word then tells.
_UPPER = "A-ZÀ-ÖØ-ÞĀ-ɏΆ-ΫЀ-ЯѠ-ӿԀ-ԯ"
_INITIALS = rf"\.(?:[{_UPPER}]\.){{0,2}}"
# Text from some systems has its accents apart from the letters.
_BARE = r"[^\W\d_]*(?:[\u0300-\u036f]+[^\W\d_]*)*"
_LETTERS = rf"{_BARE}(?:['’](?!s\b)[^\W\d_]{_BARE}|-[^\W\d_]{_BARE})*"
_UNIT = rf"[{_UPPER}](?:{_INITIALS}|{_LETTERS})"
_PARTICLES = "de|da|do|dos|das|del|della|di|du|des|la|le|van|von|der|den|ter|ten|zu|zum|zur|el|al|bin|ibn|ben|bint|af|av|y|e"
# It begins with the capital, so that the search can skip to one, and only then looks at what is
# before.
_FIRST = rf"[{_UPPER}](?<![\w@/\\.$#&%=~+^-].)(?<!\w['’].)"
_WORD = late(_FIRST + _LETTERS)
# The same in plain text, where letters are few and quickly told.
_PLAIN_WORD = late(
    r"[A-Z](?<![\w@/\\.$#&%=~+^-].)(?<!\w'.)[A-Za-z]*(?:'(?!s\b)[A-Za-z]+|-[A-Za-z]+)*", re.ASCII
)
_RUN = late(
    rf"{_FIRST}(?:{_INITIALS}|{_LETTERS})"
    rf"(?: (?:(?:{_PARTICLES}) ){{0,2}}{_UNIT}){{0,7}}"
)
_PART = late(_UNIT)
_CODE_AFTER = late(r"[\w(\[{/\\=@#$%^~+|]|\.\w|::|-\w|->| ?=[^=]|</")
_BIT = late("['’-]")
_PREFIX = late("(?:Mc|Mac|De|Di|Du|La|Le|Van|Fitz)(?=[^\\W\\d_a-z])")
_ENOUGH = 3.5
# What an initial or a father's name between two others adds.
_TELLING = 1.5
# Two words below this, with anything but a strong cue around them, are never enough.
_TELLING_WORD = 2.0
_LONGEST = 24
_MOST_DULL = 1 << 16
_TAIL = 48
_DULL: set[str] = set()
"""Capitalised words that are known to tell nothing: most of those that a text has, over and
over."""


class _Token(NamedTuple):
    start: int
    end: int
    given: float
    family: float
    is_initial: bool


def people(line: str) -> list[tuple[int, int]]:
    """Where names stand in a line, in order."""
    return [
        span
        for run in _RUN.finditer(line)
        if _may_name(run[0])
        for span in _names(line, run.start(), run.end())
    ]


def _may_name(run: str) -> bool:
    """Most capitalised words stand alone and are words: a look at the lists is enough."""
    return " " in run or len(run) > _LONGEST or speaks_for_a_name(run)


def capitalised(text: str) -> list[str]:
    """The words of a text that begin as names do."""
    return (_PLAIN_WORD if text.isascii() else _WORD).findall(text)


def telling_words(text: str) -> set[str]:
    """The words of a text that make a name likely; where there is none, only a strong cue opens a
    name."""
    found = set(capitalised(text))
    found -= _DULL
    if not found:
        return found
    telling = {
        word for word in found if len(word) <= _LONGEST and max(_weights(word)) >= _TELLING_WORD
    }
    if len(_DULL) > _MOST_DULL:
        _DULL.clear()
    _DULL.update(found - telling)
    return telling


def parts(name: str) -> list[str]:
    """The parts of a name that point to the same person wherever they stand alone."""
    if " " not in name:
        return []
    return [
        part
        for part in name.split()
        if len(part) >= 4 and part[0].isupper() and plain(part) not in words()
    ]


def speaks_for_a_name(word: str) -> bool:
    """Whether a word is no ordinary one, so that it may be a part of a name."""
    return max(_weights(word)) > 0


def _names(line: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    tokens = [
        _token(found[0], found.start(), found.end()) for found in _PART.finditer(line, start, end)
    ]
    if _CODE_AFTER.match(line, end):
        tokens.pop()
    place = 0
    while place < len(tokens):
        first = tokens[place]
        if max(first.given, first.family) > 0:
            last = _last(tokens, place)
            cue = _before(line, first.start)
            while last >= place and not _is_name(line, tokens[place : last + 1], cue):
                last -= 1
            if last >= place:
                yield first.start, tokens[last].end
                place = last
        place += 1


def _last(tokens: list[_Token], place: int) -> int:
    """The last token that may belong to the name which begins at a place."""
    last = place
    while (
        last + 1 < len(tokens)
        and last - place < 3
        and (tokens[last + 1].is_initial or tokens[last + 1].family > 0)
    ):
        last += 1
    while last > place and tokens[last].is_initial:
        last -= 1
    return last


def _is_name(line: str, tokens: list[_Token], cue: float) -> bool:
    first, last = tokens[0], tokens[-1]
    after = _after(line, last.end)
    around = max(cue, after) + (0.5 if cue and after else 0.0)
    if len(tokens) == 1:
        is_first = first.start < _TAIL and not line[: first.start].strip()
        if not around and is_first and SPEAKER.match(line, last.end):
            around = HINT
        known = max(first.given, first.family * 0.8)
        return bool(around) and known + around >= _ENOUGH + (
            0.0 if around >= SURE or known >= 2.5 else 0.5
        )
    if any(token.is_initial for token in tokens) or (
        len(tokens) > 1 and PATRONYMIC.search(line, first.end, last.end)
    ):
        around += _TELLING
    score = first.given + max(last.family, last.given * 0.8)
    if last.given >= 1:
        score = max(score, (first.family + last.given) * 0.9)
    return score + around >= _ENOUGH


def _before(line: str, start: int) -> float:
    """How much of a cue stands right before a place."""
    sign = line[start - 1 : start]
    if sign == " ":
        word = (
            line[line.rfind(" ", max(0, start - _TAIL), start - 1) + 1 : start - 1]
            .lower()
            .strip(".,(\"'*")
        )
        weight = WORDS_BEFORE.get(word, 0.0)
        if word in PHRASE_ENDS and PHRASE.search(line[max(0, start - _TAIL) : start]):
            return SURE
        if word[-1:].isdigit() and YEARS.search(line[max(0, start - _TAIL) : start]):
            return HINT
        if weight or word[-1:] not in FIELD_SIGNS:
            return weight
    elif sign not in FIELD_SIGNS:
        return 0.0
    tail = line[max(0, start - _TAIL) : start]
    return next((weight for weight, field in FIELDS if field.search(tail)), 0.0)


def _after(line: str, end: int) -> float:
    if ADDRESS_AFTER.match(line, end):
        return SURE
    if SAID_AFTER.match(line, end):
        return LIKELY
    return HINT if HINT_AFTER.match(line, end) else 0.0


@functools.lru_cache(maxsize=1 << 15)
def _weights(word: str) -> tuple[float, float]:
    """How much a word speaks for a given and for a family name; below 0 when it is a word like any
    other."""
    return _weighed(word, names())


def _weighed(word: str, known: Known) -> tuple[float, float]:
    small, bare = word.casefold(), plain(word)
    is_loud = word.isupper()
    if bare in NOBODY or not (_has_shape(word) or (is_loud and len(word) > 3)):
        return -3.0, -3.0
    pieces = bare.split("-")
    is_given, is_family = (_is_known(small, bare, pieces, listed) for listed in known[:2])
    if all(piece in known.ordinary for piece in pieces):
        return (1.0 if is_given else -3.0), (0.8 if is_family and len(word) > 3 else -3.0)
    if is_loud and not (is_given or is_family):
        return -3.0, -3.0
    looks = 2.0 if FAMILY_ENDING.search(small) or PATRONYMIC.search(small) else 0.5
    return (3.0 if is_given else 0.5), (2.5 if is_family else looks)


def _is_known(small: str, bare: str, pieces: list[str], listed: Container[str]) -> bool:
    if bare in listed or (small != bare and small in listed):
        return True
    return len(pieces) > 1 and all(piece in listed for piece in pieces)


def _has_shape(word: str) -> bool:
    """A capital and small letters, as in Anna, McCoy, O'Neill, Garcia-Lopez; not as in GitHub."""
    bits = _BIT.split(_PREFIX.sub("", word, count=1))
    return bits[0][:1].isupper() and all(
        bit[1:].islower() or (len(bit) == 1 and len(bits) > 1) for bit in bits
    )


def _token(word: str, start: int, end: int) -> _Token:
    if len(word) > _LONGEST:
        return _Token(start, end, -3.0, -3.0, False)
    if len(word) == 1 or word[1] == ".":
        return _Token(start, end, 0.0, 0.0, True)
    return _Token(start, end, *_weights(word), False)
