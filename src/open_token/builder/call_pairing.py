"""Pairs calls with their results: which call is open, its number, and where a result that never
came must stand."""

from collections.abc import Iterator

import msgspec


class Run(msgspec.Struct):
    """Consecutive tool events of one message; a missing result stands behind the last of them."""

    group: object
    last: int


class Call(msgspec.Struct):
    """One call: its id in the export, its tool, the span it is in."""

    call_id: str
    tool: str
    span: str | None
    run: Run
    place: int
    """Where its event stands."""


class Calls:
    """The calls of a conversation, by the runtime's own ids."""

    def __init__(self) -> None:
        self._open: dict[str, Call] = {}
        self._answered: dict[str, str] = {}
        self._count = 0
        self._run: Run | None = None

    def new_id(self) -> str:
        """The next call_id."""
        self._count += 1
        return f"call_{self._count:06d}"

    def is_open(self, key: str) -> bool:
        """Whether a call was made and has no result yet."""
        return key in self._open

    def answered(self, key: str | None) -> str | None:
        """The call_id of a call that has its result already."""
        return self._answered.get(key) if key else None

    def get(self, key: str | None) -> Call | None:
        """An open call."""
        return self._open.get(key) if key else None

    def make(
        self, key: str | None, tool: str, span: str | None, group: object, place: int
    ) -> tuple[str, Call]:
        """Open a call whose event stands at a place; gives the key by which its result is told."""
        self._count += 1
        call_id = f"call_{self._count:06d}"
        key = key or f"\0{call_id}"
        run = self._run
        if run is None or run.last != place - 1 or (group is not None and run.group != group):
            run = self._run = Run(group, place)
        run.last = place
        call = self._open[key] = Call(call_id, tool, span, run, place)
        self._answered.pop(key, None)
        return key, call

    def answer(self, key: str | None, place: int) -> Call | None:
        """Close an open call with the result that stands at a place; None when there is no such
        call."""
        call = self._open.pop(key, None) if key else None
        if call is None or key is None:
            return None
        self._answered[key] = call.call_id
        if call.run.last == place - 1:
            call.run.last = place
        return call

    def extend(self, run: Run | None, place: int) -> None:
        """An event at a place belongs to the tool events before it."""
        run = run or self._run
        if run is not None and run.last == place - 1:
            run.last = place

    def move(self, key: str, place: int) -> None:
        """A result of this call that never comes shall stand behind this place."""
        call = self._open.get(key)
        if call is not None:
            call.run = self._run = Run(call.run.group, place)

    def unanswered(self) -> Iterator[Call]:
        """The calls that never got a result, in order."""
        return iter(self._open.values())
