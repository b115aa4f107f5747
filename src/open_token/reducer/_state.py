"""One pure fold: entries in, state out; the same when it is done at once and when it is done entry
by entry."""

from collections.abc import Iterable, Iterator

from open_token.entries import Data, Entry, Json, LogFault, flat, shaped
from open_token.reducer._facts import Facts
from open_token.reducer._folds import FOLDS
from open_token.reducer._turn import Turn
from open_token.turns import TurnProjection, plain


class State(Facts):
    """The fold of a log. `add` writes the next entry, `apply` takes one that is written; both give
    the same state."""

    def apply(self, entry: Entry) -> Data:
        """Take the next entry of the log; gives what it says. LogFault, and no change, when it does
        not fit."""
        if entry.session_id != self.session_id or entry.seq <= self.seq:
            raise LogFault("an entry of another session, or out of order")
        shape = shaped(entry.kind, entry.data)
        self._fold(shape, entry.kind, entry.at)
        self.seq = entry.seq
        return shape

    def add(self, kind: str, data: Json, at: str) -> Entry:
        """Make the next entry: numbered, with what the log fills in, and folded. LogFault when it
        does not fit."""
        shape = shaped(kind, data)
        self._fold(shape, kind, at)
        self.seq += 1
        return Entry(self.session_id, self.seq, at, kind, flat(shape))

    def _fold(self, shape: Data, kind: str, at: str) -> None:
        FOLDS[kind](self, shape, at)
        self.session.updated_at = at

    def turn(self, turn_id: str) -> TurnProjection:
        """A turn as it is now."""
        return self.turns[turn_id].whole()

    def branch(self) -> list[TurnProjection]:
        """The turns of the current branch."""
        return [turn.whole() for turn in self.path]

    def whole(self) -> Json:
        """The whole state as JSON, for comparing."""
        return {
            "session": plain(self.session),
            "seq": self.seq,
            "mode": self.mode,
            "run": flat(self.run) if self.run else None,
            "queue": self.queue,
            "sent": self.sent,
            "turns": [
                {**plain(turn.whole()), "patches": turn.patches, **_place(turn)}
                for turn in self.turns.values()
            ],
            "branch": [turn.facts.id for turn in self.path],
            "checkpoints": [
                (mark.checkpoint_id, mark.turn_id, mark.before) for mark in self.marks.values()
            ],
            "callers": self.callers,
            "questions": {name: flat(question) for name, question in self.questions.items()},
            "asides": [(item.anchor, item.turns, item.at, item.data) for item in self.asides],
            "document": flat(self.document) if self.document else None,
            "kept": [{"anchor": item.anchor, "event": item.event} for item in self.kept],
        }


def _place(turn: Turn) -> Json:
    return {
        "parent_id": turn.parent_id,
        "checkpoint_id": turn.checkpoint_id,
        "deprecated": list(turn.deprecated),
    }


def fold(entries: Iterable[Entry]) -> State:
    """The state that a whole log comes to; LogFault when it is empty or an entry does not fit."""
    rest: Iterator[Entry] = iter(entries)
    first = next(rest, None)
    if first is None:
        raise LogFault("an empty log")
    state = State(first.session_id)
    state.apply(first)
    for entry in rest:
        state.apply(entry)
    return state
