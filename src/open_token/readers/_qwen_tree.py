"""Who follows whom in a Qwen Code file: finds the records that a rewind left behind."""

from array import array
from collections.abc import Iterator
from functools import cached_property
from typing import Any


class Tree:
    """The records by uuid and parentUuid as hashes, and the places of their events."""

    def __init__(self) -> None:
        self._own = array("q")
        self._parent = array("q")
        self._start = array("q")
        self._end = array("q")
        self._at: dict[int, int] = {}
        self._roots: set[int] = set()
        """The records that say they have no parent."""
        self._rewinds: set[int] = set()
        self._talk: set[int] = set()
        """The records in which someone speaks."""

    def enter(
        self, uuid: str, parent: Any, places: range, *, is_talk: bool, is_rewind: bool
    ) -> None:
        """Take a record whose events stand at these places."""
        number, own = len(self._own), hash(uuid)
        self._own.append(own)
        self._parent.append(hash(parent) if isinstance(parent, str) else 0)
        self._start.append(places.start)
        self._end.append(places.stop)
        self._at[own] = number
        for is_one, group in (
            (parent is None, self._roots),
            (is_rewind, self._rewinds),
            (is_talk, self._talk),
        ):
            if is_one:
                group.add(number)

    def _chain(self) -> tuple[bytearray, int]:
        """The records that lead to the last one, and the first of them."""
        chain, top = bytearray(len(self._own)), -1
        number: int | None = len(self._own) - 1 if self._own else None
        while number is not None and not chain[number]:
            chain[number], top = 1, number
            number = self._at.get(self._parent[number])
        return chain, top

    @cached_property
    def _left(self) -> set[int]:
        """The records of each branch that left the chain and in which someone spoke, once all are
        entered.

        What no chain reaches, for its parent is missing, was not rewound: it stays."""
        chain, top = self._chain()
        branches: dict[int, int] = {}
        restarted = top in self._roots and top in self._rewinds
        for number in range(len(self._own)):
            above = self._at.get(self._parent[number])
            if chain[number]:
                continue
            if above is not None and above < number:
                branches[number] = number if chain[above] else branches.get(above, -1)
            elif restarted and number in self._roots and number < top:
                branches[number] = number
        spoken = {branch for number, branch in branches.items() if number in self._talk} - {-1}
        return {number for number, branch in branches.items() if branch in spoken}

    def abandoned(self) -> Iterator[range]:
        """The places of the events that a rewind left behind."""
        start = end = 0
        for number in sorted(self._left):
            if self._start[number] != end:
                if start < end:
                    yield range(start, end)
                start = self._start[number]
            end = self._end[number]
        if start < end:
            yield range(start, end)

    def is_left(self, uuid: str) -> bool:
        """Whether a record was left behind."""
        return self._at.get(hash(uuid), -1) in self._left
