"""The tree of records in a Qwen Code file, and the branches that were rewound."""

from array import array
from collections.abc import Iterator
from functools import cached_property
from typing import Any


class RecordTree:
    """The records by uuid and parentUuid, as hashes, with the positions of their events."""

    def __init__(self) -> None:
        self._ids = array("q")
        self._parents = array("q")
        self._starts = array("q")
        self._stops = array("q")
        self._indexes: dict[int, int] = {}
        self._roots: set[int] = set()
        """The records whose parent is explicitly null."""
        self._rewinds: set[int] = set()
        self._messages: set[int] = set()

    def add(
        self, uuid: str, parent: Any, positions: range, *, is_message: bool, is_rewind: bool
    ) -> None:
        """Add a record with the positions of its events."""
        index = len(self._ids)
        own_id = hash(uuid)
        self._ids.append(own_id)
        self._parents.append(hash(parent) if isinstance(parent, str) else 0)
        self._starts.append(positions.start)
        self._stops.append(positions.stop)
        self._indexes[own_id] = index
        if parent is None:
            self._roots.add(index)
        if is_rewind:
            self._rewinds.add(index)
        if is_message:
            self._messages.add(index)

    def _find_active_chain(self) -> tuple[bytearray, int]:
        """Return which records lead to the last one, and the first of them."""
        is_active = bytearray(len(self._ids))
        first = -1
        index: int | None = len(self._ids) - 1 if self._ids else None
        while index is not None and not is_active[index]:
            is_active[index] = 1
            first = index
            index = self._indexes.get(self._parents[index])
        return is_active, first

    @cached_property
    def _abandoned(self) -> set[int]:
        """The records of each branch with messages that left the active chain.

        Records whose parent is missing were not rewound. Use it only when all records were added.
        """
        is_active, first = self._find_active_chain()
        # A rewind to before the first message starts a new root.
        is_restarted = first in self._roots and first in self._rewinds
        branches: dict[int, int] = {}
        for index in range(len(self._ids)):
            if is_active[index]:
                continue
            parent = self._indexes.get(self._parents[index])
            if parent is not None and parent < index:
                # A record below the active chain starts a branch, others continue one.
                branches[index] = index if is_active[parent] else branches.get(parent, -1)
            elif is_restarted and index in self._roots and index < first:
                branches[index] = index
        with_messages = {branch for index, branch in branches.items() if index in self._messages}
        with_messages.discard(-1)
        return {index for index, branch in branches.items() if branch in with_messages}

    def find_abandoned(self) -> Iterator[range]:
        """Yield the positions of the events that a rewind left behind."""
        start = 0
        stop = 0
        for index in sorted(self._abandoned):
            if self._starts[index] != stop:
                if start < stop:
                    yield range(start, stop)
                start = self._starts[index]
            stop = self._stops[index]
        if start < stop:
            yield range(start, stop)

    def is_abandoned(self, uuid: str) -> bool:
        """Return whether a record was left behind."""
        return self._indexes.get(hash(uuid), -1) in self._abandoned
