"""A reference client: rebuilds a session from the events it receives, in either dialect."""

from typing import Any

from open_token.model.log_events import Json
from open_token.model.patches import TurnPatcher

_NOT_SESSION_FIELDS = ("head", "reason", "mode", "session_id", "updated_at")


class ReferenceClient:
    """A session as a subscriber sees it."""

    def __init__(self) -> None:
        self.seen = 0
        """The stream sequence to resume from."""
        self.session: Json = {}
        self.head: str | None = None
        self.ended: Json | None = None
        """The last `chat:end`."""
        self._turns = TurnPatcher()
        self._ids: dict[str, str] = {}
        self._parents: dict[str, str | None] = {}

    def hear_raw(self, item: Json) -> None:
        """Apply an item of `turn:events`; repeated items are ignored."""
        if item["stream_sequence"] > self.seen:
            self.seen = item["stream_sequence"]
            self.hear(item["type"], item["payload"])

    def hear(self, name: str, payload: Json) -> None:
        """Apply an event."""
        if name == "turn:start":
            self._begin(payload)
        if name in ("turn:start", "turn:patch", "turn:end"):
            self._turns.take(payload)
        elif name == "memory:inject:done":
            self._turns.change(payload["turn_id"], memory_refs=payload["memory_refs"])
        elif name == "chat:start":
            self.session["status"] = "running"
        elif name == "chat:end":
            self.session["status"] = payload["session_status"]
            self.ended = payload
        elif name == "session:updated":
            self._update(payload)

    def _begin(self, turn: Json) -> None:
        name = turn["id"]
        self._ids[name] = turn["turn_id"]
        self._parents[name] = turn["parent_id"]
        self.head = name

    def _update(self, payload: Json) -> None:
        if "reason" in payload:
            self.head = payload["head"]
        self.session |= {
            name: value for name, value in payload.items() if name not in _NOT_SESSION_FIELDS
        }

    def turns(self) -> list[Json]:
        """Return all turns."""
        return self._turns.whole()

    def branch(self) -> list[Json]:
        """Return the turns of the current branch."""
        way: list[Any] = []
        name = self.head
        while name is not None:
            way.append(self._turns.turn(self._ids[name]))
            name = self._parents[name]
        return way[::-1]
