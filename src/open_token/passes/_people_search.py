"""Lets the search for names stand where the pattern of a rule would: the next name in a text, and what recurs of it."""

import re
from collections.abc import Iterator

from open_token.passes._gate import confirmation
from open_token.passes._people import capitalised, parts, people, speaks_for_a_name, telling_words
from open_token.passes._people_asian import asian_people
from open_token.passes._people_table import keep_in

__all__ = ["PeopleSearch", "keep_in", "name_parts", "names_of_address", "telling_leaves"]
# How addresses spell names: torvild.enqvist, torvild_enqvist7, TorvildEnqvist.
_SPELLED = re.compile(r"([A-Za-z]{3,16})[._-]([A-Za-z]{3,16})[0-9]{0,4}|([A-Z][a-z]{2,15})([A-Z][a-z]{2,15})[0-9]{0,4}")
_FEW = 64


class PeopleSearch:
    """Looks through a text once and then tells its names one by one; only where the pattern matches may any be."""

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


def telling_leaves(leaves: list[str], pieces: list[bytes]) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """The texts with a word that makes a name likely, by number, and the lines, in bytes, in which such words stand."""
    for number, leaf in enumerate(leaves):
        if words := telling_words(leaf):
            lines = _lines_of(words, pieces[number]) if len(words) <= _FEW else _lines_one_by_one(words, leaf)
            yield number, list(lines)


def _lines_one_by_one(words: set[str], text: str) -> Iterator[tuple[int, int]]:
    """The same of many words, as in a list of people: to look for each of them would take ever longer."""
    start = 0
    for line in text.split("\n"):
        end = start + len(line.encode("utf-8", "surrogatepass"))
        if not words.isdisjoint(capitalised(line)):
            yield start, end
        start = end + 1


def _lines_of(words: set[str], raw: bytes) -> Iterator[tuple[int, int]]:
    places = sorted(place for word in words for place in _places(word.encode(), raw))
    behind = -1
    for place in places:
        if place >= behind:
            end = raw.find(b"\n", place)
            behind = len(raw) if end < 0 else end
            yield raw.rfind(b"\n", 0, place) + 1, behind


def _places(word: bytes, raw: bytes) -> Iterator[int]:
    """Where a word stands, once a line."""
    place = raw.find(word)
    while place >= 0:
        yield place
        line_end = raw.find(b"\n", place)
        place = raw.find(word, line_end) if line_end >= 0 else -1


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
