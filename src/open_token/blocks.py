"""Blocks of text beside events: the pieces that events carry are references, also where each line
is set in."""

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

_LONGEST_MARGIN = 60
_SHORTEST_LINE = 3
_STRETCH = 160
_LINES = 24
_TRIES = 16
"""How often the first line of a text is looked at in vain."""


Reference = str | list[str | int]
"""The place of words in an event; of a stretch of them with where it begins and ends."""


class Blocks:
    """What events say, looked for in the blocks of a text; so long as it takes no more than so many
    steps in all."""

    def __init__(self, said: list[tuple[str, str]], budget: int = 1 << 31) -> None:
        firsts: dict[str, str] = {}
        for reference, words in said:
            firsts.setdefault(words, reference)
        self._said = sorted(firsts.items(), key=lambda item: (-len(item[0]), item[1]))
        self._stretches: dict[str, list[tuple[int, int]]] = {}
        self._budget = budget

    def fold(self, text: str) -> Any:
        """The block in its pieces: what an event says is a reference, the longest first; as it is,
        if none is."""
        taken = _Taken()
        for words, reference in self._said:
            if not self._look(text, words, reference, taken) and len(words) > _STRETCH <= len(text):
                for start, end in self._stretches_of(words):
                    if end - start <= len(text):
                        self._look(text, words[start:end], [reference, start, end], taken)
            if self._budget < 0:
                break
        return taken.pieces(text)

    def _stretches_of(self, words: str) -> list[tuple[int, int]]:
        known = self._stretches.get(words)
        if known is None:
            known = self._stretches[words] = list(_stretches(words))
        self._budget -= len(known)
        return known

    def _look(self, text: str, words: str, reference: Reference, taken: "_Taken") -> bool:
        if len(words) > len(text):  # and set in they are longer still
            return False
        self._budget -= len(text)
        found = list(_found(text, words, reference))
        for start, end, piece in found:
            taken.add(start, end, piece)
        return bool(found)


def _stretches(words: str) -> Iterator[tuple[int, int]]:
    """Pieces of a text that was put together from several, or is broken up: paragraphs, and of long
    ones some lines."""
    start = end = lines = 0
    for line in words.split("\n"):
        if (not line or lines == _LINES) and end - start >= _STRETCH:
            yield start, end - 1
        if not line or lines == _LINES:
            start, lines = end + (not line), 0
        end += len(line) + 1
        lines += 1
    if len(words) - start >= _STRETCH:
        yield start, len(words)


class _Taken:
    """Places of a text that are spoken for."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._found: list[tuple[int, int, Any]] = []

    def add(self, start: int, end: int, piece: Any) -> None:
        """One more, if it is free."""
        place = bisect_right(self._starts, start)
        is_free = place == 0 or self._found[place - 1][1] <= start
        if is_free and (place == len(self._starts) or end <= self._starts[place]):
            self._starts.insert(place, start)
            self._found.insert(place, (start, end, piece))

    def pieces(self, text: str) -> Any:
        """The whole text."""
        made: list[Any] = []
        place = 0
        for start, end, piece in self._found:
            if start > place:
                made.append(text[place:start])
            made.append(piece)
            place = end
        if not made:
            return text
        return {"$parts": [*made, text[place:]] if place < len(text) else made}


def _found(text: str, words: str, reference: Reference) -> Iterator[tuple[int, int, Any]]:
    """Where a text says these words, as they are or with every line set in."""
    found = text.find(words)
    while found >= 0:
        yield (
            found,
            found + len(words),
            {"$ref": reference} if isinstance(reference, str) else {"$cut": reference},
        )
        found = text.find(words, found + len(words))
    first = words[: max(0, words.find("\n"))]
    place = text.find(first) if len(first) >= _SHORTEST_LINE else -1
    if place < 0:
        return
    _, *others = words.split("\n")
    follower = next((number for number, line in enumerate(others) if line), None)
    if follower is None:
        return
    tries = _TRIES
    while place >= 0 and tries:
        margins = _margins(text, place + len(first), follower, others[follower])
        end = 0
        for bare in (True, False) if margins else ():
            assert margins is not None
            made = set_in(words, *margins, bare)
            if text.startswith(made, place):
                end = place + len(made)
                yield place, end, {"$lines": [reference, *margins, bare]}
                break
        tries -= not end
        place = text.find(first, end or place + len(first))


def _margins(text: str, place: int, blank: int, follower: str) -> tuple[str, str] | None:
    """What stands before and behind every line, seen behind the first and before the next that says
    something."""
    end = text.find("\n", place)
    behind = text[place:end]
    if end < 0 or len(behind) > _LONGEST_MARGIN or behind.strip(" \t\r"):
        return None
    for _ in range(blank):
        end = text.find("\n", end + 1)
        if end < 0:
            return None
    found = text.find(follower, end + 1, end + 1 + _LONGEST_MARGIN + len(follower))
    before = text[end + 1 : found] if found >= 0 else "\n"
    return (before, behind) if "\n" not in before and (before or behind) else None


def set_in(words: str, before: str, behind: str, bare: bool) -> str:
    """Words with something before and behind every line, but not before the first and behind the
    last of them.

    With `bare`, nothing stands beside lines that are empty."""
    first, *others = words.split("\n")
    if not bare:
        return f"{behind}\n{before}".join([first, *others])
    made = [first + behind] if others and first else [first]
    for number, line in enumerate(others, 1):
        is_last = number == len(others)
        made.append(f"{before}{line}{'' if is_last else behind}" if line else "")
    return "\n".join(made)
