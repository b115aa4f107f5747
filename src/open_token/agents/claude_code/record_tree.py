"""The tree of records in a Claude Code file: repeated records and superseded branches."""

from array import array
from collections.abc import Iterable, Iterator
from typing import Any


class RecordTree:
    """The records by uuid and parentUuid, at about 100 bytes a record.

    Ids are stored as the interpreter's own hashes, shifted to 60 bits so that an int takes 32
    bytes. Among a million records two collide with a chance of one in two million, and since hashes
    are seeded, no file can be crafted to collide.
    """

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._ids = array("q")
        self._parents = array("q")
        self._positions = array("q")
        self._kinds: dict[str, int] = {}
        self._prompts: dict[int, tuple[int, object]] = {}
        """The last prompt below each record, and its promptId."""
        self._superseded: set[int] = set()

    def add(self, uuid: Any, parent: Any, kind: str, position: int) -> bool:
        """Add a record whose events start at a position; return False if it is a repetition.

        A record of another kind is no repetition, even with the same uuid.
        """
        own_id = 0
        if type(uuid) is str:
            own_id = hash(uuid) >> 4
            key = own_id + self._kinds.setdefault(kind, len(self._kinds))
            if key in self._seen:
                return False
            self._seen.add(key)
        self._ids.append(own_id)
        self._parents.append(hash(parent) >> 4 if type(parent) is str else 0)
        self._positions.append(position)
        return True

    def has(self, uuid: Any, kind: str) -> bool:
        """Return whether a record of this kind was added."""
        if type(uuid) is not str or kind not in self._kinds:
            return False
        return (hash(uuid) >> 4) + self._kinds[kind] in self._seen

    def insert_unowned(self, start: int, stop: int) -> None:
        """Assign the events from start to stop to no record; the last record starts at stop."""
        last = len(self._ids) - 1
        self._ids.insert(last, 0)
        self._parents.insert(last, 0)
        self._positions[-1] = stop
        self._positions.insert(last, start)

    def set_parent(self, parent: str) -> None:
        """Set the parent of the last record, which names none itself."""
        self._parents[-1] = hash(parent) >> 4

    def add_prompt(self, prompt_id: object) -> None:
        """Treat the last record as typed by a person.

        It supersedes an earlier prompt with the same parent, unless both are parts of one prompt.
        """
        own_id = self._ids[-1]
        parent_id = self._parents[-1]
        if not own_id or not parent_id or own_id == parent_id:
            return
        earlier = self._prompts.get(parent_id)
        if earlier and earlier[0] != own_id and (prompt_id is None or earlier[1] != prompt_id):
            self._superseded.add(earlier[0])
        self._prompts[parent_id] = (own_id, prompt_id)

    def find_known(self, uuids: Iterable[str]) -> set[str]:
        """Return those of the uuids that a record has."""
        wanted = {hash(uuid) >> 4: uuid for uuid in uuids}
        return {wanted[own_id] for own_id in self._ids if own_id in wanted}

    def find_abandoned(self, end: int) -> Iterator[range]:
        """Yield the positions of superseded prompts and all that followed from them.

        `end` is the number of events.
        """
        if not self._superseded:
            return
        abandoned = set(self._superseded)
        start: int | None = None
        for own_id, parent_id, position in zip(
            self._ids, self._parents, self._positions, strict=True
        ):
            if parent_id in abandoned and own_id:
                abandoned.add(own_id)
            if own_id in abandoned or parent_id in abandoned:
                if start is None:
                    start = position
            elif start is not None:
                if start < position:
                    yield range(start, position)
                start = None
        if start is not None and start < end:
            yield range(start, end)
