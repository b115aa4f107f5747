"""Pairing of tool calls with their results: open calls, call ids, places of missing results."""

from collections.abc import Iterator

import msgspec


class Run(msgspec.Struct):
    """Consecutive tool events of one message; a missing result is inserted after the last."""

    group: object
    last: int


class Call(msgspec.Struct):
    """One call: its id in the export, its tool, and the span it is in."""

    call_id: str
    tool: str
    span: str | None
    run: Run
    place: int
    """The position of its event."""


class CallTracker:
    """The calls of a conversation, by the ids of the source."""

    def __init__(self) -> None:
        self._open: dict[str, Call] = {}
        self._answered: dict[str, str] = {}
        self._count = 0
        self._run: Run | None = None

    def create_id(self) -> str:
        """Return the next call_id."""
        self._count += 1
        return f"call_{self._count:06d}"

    def is_open(self, key: str) -> bool:
        """Return whether a call was added and has no result yet."""
        return key in self._open

    def get_answered_id(self, key: str | None) -> str | None:
        """Return the call_id of a call that has its result already."""
        return self._answered.get(key) if key else None

    def get_open(self, key: str | None) -> Call | None:
        """Return an open call."""
        return self._open.get(key) if key else None

    def open_call(
        self, key: str | None, tool: str, span: str | None, group: object, place: int
    ) -> tuple[str, Call]:
        """Open a call whose event is at `place`; return the key for its result."""
        call_id = self.create_id()
        # A key that no source can have, for calls without an id.
        key = key or f"\0{call_id}"
        run = self._run
        if run is None or run.last != place - 1 or (group is not None and run.group != group):
            run = self._run = Run(group, place)
        run.last = place
        call = self._open[key] = Call(call_id, tool, span, run, place)
        self._answered.pop(key, None)
        return key, call

    def close_call(self, key: str | None, place: int) -> Call | None:
        """Close a call whose result is at `place`; return None if there is no such call."""
        call = self._open.pop(key, None) if key else None
        if call is None or key is None:
            return None
        self._answered[key] = call.call_id
        if call.run.last == place - 1:
            call.run.last = place
        return call

    def extend_run(self, place: int) -> None:
        """Count the event at `place` among the tool events before it."""
        run = self._run
        if run is not None and run.last == place - 1:
            run.last = place

    def move_missing_result(self, key: str, place: int) -> None:
        """Set the place after which a missing result of this call is inserted."""
        call = self._open.get(key)
        if call is not None:
            call.run = self._run = Run(call.run.group, place)

    def list_unanswered(self) -> Iterator[Call]:
        """Return the calls that never got a result, in order."""
        return iter(self._open.values())
