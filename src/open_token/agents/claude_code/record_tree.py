"""Who follows whom in a Claude Code file: tells repeated records and the branches that a later
prompt superseded."""

from array import array
from collections.abc import Iterable, Iterator
from typing import Any


class Tree:
    """The records by uuid and parentUuid, at some 100 bytes a record however large they are.

    Ids are kept as the interpreter's own hashes, cut to 60 bits to take 32 bytes: among a million
    records two share one with a chance of one in two million, and no file can be made to do it."""

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._own = array("q")
        self._parent = array("q")
        self._place = array("q")
        self._kinds: dict[str, int] = {}
        self._prompts: dict[int, tuple[int, object]] = {}
        self._left: set[int] = set()

    def enter(self, uuid: Any, parent: Any, kind: str, place: int) -> bool:
        """Take a record whose events start at a place; False when it is a repetition.

        A record of another kind is no repetition, whatever its uuid says.
        """
        own = 0
        if type(uuid) is str:
            own = hash(uuid) >> 4
            mark = own + self._kinds.setdefault(kind, len(self._kinds))
            if mark in self._seen:
                return False
            self._seen.add(mark)
        self._own.append(own)
        self._parent.append(hash(parent) >> 4 if type(parent) is str else 0)
        self._place.append(place)
        return True

    def insert(self, place: int, until: int) -> None:
        """The events from a place on are nobody's; those of the last record start only at
        `until`."""
        self._own.insert(len(self._own) - 1, 0)
        self._parent.insert(len(self._parent) - 1, 0)
        self._place[-1] = until
        self._place.insert(len(self._place) - 1, place)

    def hang(self, parent: str) -> None:
        """The last record follows this one, though it does not say so."""
        self._parent[-1] = hash(parent) >> 4

    def prompt(self, prompt_id: object) -> None:
        """The last record is what a person typed; it supersedes an earlier prompt with the same
        parent."""
        own, above = self._own[-1], self._parent[-1]
        if not own or not above or own == above:
            return
        earlier = self._prompts.get(above)
        if earlier and earlier[0] != own and (prompt_id is None or earlier[1] != prompt_id):
            self._left.add(earlier[0])
        self._prompts[above] = (own, prompt_id)

    def held(self, uuids: Iterable[str]) -> set[str]:
        """Those of these uuids that a record has."""
        wanted = {hash(uuid) >> 4: uuid for uuid in uuids}
        return {wanted[own] for own in self._own if own in wanted}

    def abandoned(self, end: int) -> Iterator[range]:
        """The places of the events of superseded prompts and of all that followed them; `end` is
        behind the last."""
        if not self._left:
            return
        gone = set(self._left)
        first: int | None = None
        for own, above, place in zip(self._own, self._parent, self._place, strict=True):
            if above in gone and own:
                gone.add(own)
            if own in gone or above in gone:
                first = place if first is None else first
            elif first is not None:
                if first < place:
                    yield range(first, place)
                first = None
        if first is not None and first < end:
            yield range(first, end)
