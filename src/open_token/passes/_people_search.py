"""Lets the search for names stand where the pattern of a rule would: the next name in a text, and
what recurs of it."""

import re
from bisect import bisect_right
from itertools import accumulate

from open_token.passes._gate import confirmation
from open_token.passes._people import capitalised, parts, people, speaks_for_a_name, telling_words
from open_token.passes._people_asian import asian_people
from open_token.passes._people_table import keep_in

__all__ = ["PeopleSearch", "keep_in", "name_parts", "names_of_address", "telling_lines"]
# How addresses spell names: torvild.enqvist, torvild_enqvist7, TorvildEnqvist.
_SPELLED = re.compile(
    r"([A-Za-z]{3,16})[._-]([A-Za-z]{3,16})[0-9]{0,4}|([A-Z][a-z]{2,15})([A-Z][a-z]{2,15})[0-9]{0,4}"
)
_FEW = 64


class PeopleSearch:
    """Looks through a text once and then tells its names one by one; only where the pattern matches
    may any be."""

    def __init__(self, pattern: str) -> None:
        self._may_hold = confirmation(pattern).spans
        self._text = b""
        self._spans: list[tuple[int, int]] = []

    def spans(self, text: bytes, place: int) -> list[tuple[int, int]] | None:
        """The next name from a place on, in bytes; None when there is none."""
        if text is not self._text:
            self._text, self._spans = text, _spans(text) if self._may_hold(text, 0) else []
            self._spans.reverse()
        while self._spans:
            start, end = self._spans.pop()
            if start >= place:
                return [(start, end)]
        return None


def telling_lines(data: bytes, likely: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Those lines in which a word makes a name likely, of the ones in which alone a name may
    stand."""
    lines = [data[start:end] for start, end in likely]
    joined = b"\n".join(lines)
    words = telling_words(joined.decode("utf-8", "surrogatepass"))
    if not words:
        return []
    # Of many words, as in a list of people, to look for each would take ever longer.
    numbers = _numbers_of(words, joined, lines) if len(words) <= _FEW else range(len(lines))
    return [
        likely[number] for number in numbers if not words.isdisjoint(_capitalised(lines[number]))
    ]


def _numbers_of(words: set[str], joined: bytes, lines: list[bytes]) -> list[int]:
    """The numbers of the lines in which the letters of one of the words stand, be it within
    another."""
    ends = list(accumulate(len(line) + 1 for line in lines))
    numbers = set()
    for word in map(str.encode, words):
        place = joined.find(word)
        while place >= 0:
            number = bisect_right(ends, place)
            numbers.add(number)
            place = joined.find(word, ends[number])
    return sorted(numbers)


def _capitalised(line: bytes) -> list[str]:
    return capitalised(line.decode("utf-8", "surrogatepass"))


def _spans(text: bytes) -> list[tuple[int, int]]:
    line = text.decode("utf-8", "surrogatepass")
    if len(line) == len(text):
        return people(line)
    found = sorted(people(line) + asian_people(line))
    spans, last, size = [], 0, 0
    for start, end in found:
        size += _size(line[last:start])
        spans.append((size, size + _size(line[start:end])))
        last = start
    return spans


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def name_parts(raw: bytes) -> list[str]:
    """A full name, and its parts that point to the same person wherever they stand."""
    name = raw.decode("utf-8", "surrogatepass")
    return [name, *parts(name)] if " " in name else []


def names_of_address(raw: bytes) -> list[str]:
    """The full name that an e-mail address spells, as it stands elsewhere."""
    found = _SPELLED.fullmatch(raw.decode("utf-8", "replace").partition("@")[0].partition("+")[0])
    words = [part.capitalize() for part in found.groups() if part] if found else []
    if not words or not all(map(speaks_for_a_name, words)):
        return []
    return [" ".join(words), "  ".join(words)]
