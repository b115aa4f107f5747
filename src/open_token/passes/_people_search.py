"""Lets the search for names stand where the pattern of a rule would: the next name in a text, and what recurs of it."""

import re
from collections.abc import Callable, Iterator

from open_token.passes._gate import confirmation
from open_token.passes._people import capitalised, parts, people, speaks_for_a_name, telling_words
from open_token.passes._people_asian import asian_people
from open_token.passes._people_table import keep_in

__all__ = ["PeopleSearch", "keep_in", "name_parts", "names_of_address", "telling_leaves"]
# How addresses spell names: torvild.enqvist, torvild_enqvist7, TorvildEnqvist.
_SPELLED = re.compile(r"([A-Za-z]{3,16})[._-]([A-Za-z]{3,16})[0-9]{0,4}|([A-Z][a-z]{2,15})([A-Z][a-z]{2,15})[0-9]{0,4}")
_FEW = 64
Search = Callable[[bytes, int], list[tuple[int, int]] | None]


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


def telling_leaves(pattern: str, pieces: list[bytes]) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """The texts with a word that makes a name likely, by number, and the lines, in bytes, in which such words stand.

    Only lines in which the pattern matches can hold a name; to look for those first is faster than to weigh words.
    """
    may_hold = confirmation(pattern).spans
    for number, raw in enumerate(pieces):
        if (likely := list(_likely_lines(may_hold, raw))) and (lines := list(_telling_lines(likely, raw))):
            yield number, lines


def _likely_lines(may_hold: Search, raw: bytes) -> Iterator[tuple[int, int]]:
    place = 0
    while found := may_hold(raw, place):
        first, last = found[0]
        start = raw.rfind(b"\n", place, first) + 1
        end = raw.find(b"\n", last)
        place = len(raw) if end < 0 else end
        yield start, place


def _telling_lines(likely: list[tuple[int, int]], raw: bytes) -> Iterator[tuple[int, int]]:
    lines = [raw[start:end] for start, end in likely]
    words = telling_words(b"\n".join(lines).decode("utf-8", "surrogatepass"))
    if not words:
        return
    few = [word.encode() for word in words] if len(words) <= _FEW else None
    for place, line in zip(likely, lines, strict=True):
        if any(word in line for word in few) if few else _has_any(words, line):
            yield place


def _has_any(words: set[str], line: bytes) -> bool:
    """The same of many words, as in a list of people: to look for each of them would take ever longer."""
    return not words.isdisjoint(capitalised(line.decode("utf-8", "surrogatepass")))


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
