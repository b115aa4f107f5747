"""Which entries of a Pi session are on the current branch: the last entry and all it follows
from."""

from array import array
from collections.abc import Iterator
from typing import Any

_ROOT, _FREE = -1, -2


class Tree:
    """The entries by id and parentId, with the places at which their events begin."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self._parent = array("q")
        self._place = array("q")
        self._last = _ROOT

    def enter(self, entry: dict[str, Any], place: int) -> bool:
        """Take an entry whose events start at a place; False when what it follows is not there.

        Such an entry follows the one before it, and so does one of version 1, which has no parents.
        """
        above = entry.get("parentId")
        parent = self._last
        is_there = above is None
        if isinstance(above, str):
            is_there = above in self._known
            parent = self._known.get(above, self._last)
        elif "parentId" in entry and above is None:
            parent = _ROOT
        self._last = len(self._parent)
        self._parent.append(parent)
        self._place.append(place)
        if isinstance(name := entry.get("id"), str):
            self._known[name] = self._last
        return is_there

    def free(self, place: int) -> None:
        """The events from this place on are of no entry and stay: a header."""
        self._parent.append(_FREE)
        self._place.append(place)

    def abandoned(self, end: int) -> Iterator[range]:
        """The places of the events of each branch that was left; `end` is behind the last event."""
        kept = self._current()
        first: int | None = None
        places = [*self._place, end]
        for number, parent in enumerate(self._parent):
            is_left = parent != _FREE and not kept[number]
            if first is not None and (not is_left or parent != number - 1):
                yield range(first, places[number])
                first = None
            if is_left and first is None:
                first = places[number]
        if first is not None:
            yield range(first, end)

    def _current(self) -> bytearray:
        """Which entries the last one follows from, itself included. A parent always stands before
        its children."""
        kept = bytearray(len(self._parent))
        number = self._last
        while number >= 0:
            kept[number] = 1
            number = self._parent[number]
        return kept
