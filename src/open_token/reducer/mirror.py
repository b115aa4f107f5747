"""A client: what it knows of a session from what it was sent, in either dialect; a model for
clients, and a proof."""

from typing import Any

from open_token.entries import Json
from open_token.patched import Patched

_BESIDE = ("head", "reason", "mode", "session_id", "updated_at")


class Mirror:
    """A session as a subscriber sees it."""

    def __init__(self) -> None:
        self.seen = 0
        """The stream sequence from which to go on."""
        self.session: Json = {}
        self.head: str | None = None
        self.ended: Json | None = None
        """The last `chat:end`."""
        self._turns = Patched()
        self._ids: dict[str, str] = {}
        self._parents: dict[str, str | None] = {}

    def hear_raw(self, item: Json) -> None:
        """Take an item of `turn:events`; one that was there already is left out."""
        if item["stream_sequence"] > self.seen:
            self.seen = item["stream_sequence"]
            self.hear(item["type"], item["payload"])

    def hear(self, name: str, payload: Json) -> None:
        """Take an event."""
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
        self.session |= {name: value for name, value in payload.items() if name not in _BESIDE}

    def turns(self) -> list[Json]:
        """Every turn that it was told of."""
        return self._turns.whole()

    def branch(self) -> list[Json]:
        """The turns of the current branch."""
        way: list[Any] = []
        name = self.head
        while name is not None:
            way.append(self._turns.turn(self._ids[name]))
            name = self._parents[name]
        return way[::-1]
