"""What is told of two runs that were compared: sentence, figures, every difference, for people and
for scripts."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from open_token.comparing.deeds import change
from open_token.comparing.judging import ALONE, EQUAL, ORDER, Parting, Row
from open_token.comparing.keys import Face, digest
from open_token.comparing.steps import Run, Step

SCHEMA = "open-token/diff/1"
_ABSENT: Any = object()
_DEEPEST = 20


class Side(msgspec.Struct, frozen=True):
    """One of the two runs, in figures."""

    name: str
    conversation_id: str | None
    title: str | None
    models: list[str]
    events: int
    steps: int
    calls: int
    failed: int
    tokens: dict[str, int]
    seconds: float | None
    files: list[str]


class Change(msgspec.Struct, frozen=True):
    """One value that differs: where it stands in the step, and what it is on either side, if it is
    there."""

    path: str
    a: Any
    b: Any

    @property
    def in_a(self) -> bool:
        """Whether the first run has it."""
        return self.a is not _ABSENT

    @property
    def in_b(self) -> bool:
        """Whether the second run has it."""
        return self.b is not _ABSENT

    def as_json(self) -> dict[str, Any]:
        """For scripts."""
        told = {"path": self.path, "a": self.a, "b": self.b}
        return {name: value for name, value in told.items() if value is not _ABSENT}


class Difference:
    """What `open_token.diff` gives: whether two runs are the same, where they part, and every row
    of both."""

    def __init__(
        self, level: str, runs: tuple[Run, Run], names: tuple[str, str], rows: list[Row]
    ) -> None:
        self.level = level
        self.rows = rows
        self.a, self.b = (_side(run, name) for run, name in zip(runs, names, strict=True))
        self.files = _files(*runs)
        self.counts = {
            kind: count
            for kind, count in Counter(row.kind for row in rows).items()
            if kind != EQUAL
        }
        self.equal = sum(row.kind == EQUAL for row in rows)
        self.parting: Parting | None = None
        self.first: int | None = None
        self.notes: list[str] = []
        self.sentence = ""
        self.faces: tuple[Callable[[Step], Face], Callable[[Step], Face]]

    @property
    def same(self) -> bool:
        """Whether nothing differs; calls made side by side in another order are the same, but for
        level exact."""
        return not (self.counts if self.level == "exact" else self.counts.keys() - {ORDER})

    @property
    def ratio(self) -> float:
        """The part of all steps that differs."""
        different = sum(
            count for kind, count in self.counts.items() if kind != ORDER or self.level == "exact"
        )
        return round(different / len(self.rows), 4) if self.rows else 0.0

    def changes(self, row: Row) -> list[Change]:
        """The values that differ in a row that both runs have."""
        if row.a is None or row.b is None or row.kind in (EQUAL, ORDER):
            return []
        (called_a, came_a), (called_b, came_b) = self.faces[0](row.a), self.faces[1](row.b)
        only_came = row.kind in ("result_changed", "error_state")
        old, new = (came_a, came_b) if only_came else (called_a, called_b)
        return _changes("", old, new, 0)

    def _parting(self, parting: Parting) -> dict[str, Any]:
        kind = self.rows[parting.row].kind
        if kind in ALONE and parting.a and parting.b:
            kind = "missing"
        told = {"class": kind, "cause": parting.cause}
        return told | {"a": _step(parting.a), "b": _step(parting.b)}

    def as_json(self) -> dict[str, Any]:
        """All of it, for scripts."""
        parting = self.parting if not self.same else None
        return {
            "schema": SCHEMA,
            "same": self.same,
            "level": self.level,
            "sentence": self.sentence,
            "a": msgspec.to_builtins(self.a),
            "b": msgspec.to_builtins(self.b),
            "equal": self.equal,
            "counts": self.counts,
            "first": None if self.same or self.first is None else _row(self.rows[self.first]),
            "parting": None if parting is None else self._parting(parting),
            "resync": None
            if parting is None or parting.met is None
            else _row(self.rows[parting.met]),
            "divergence_ratio": self.ratio,
            "blast_radius": 0 if parting is None else parting.radius,
            "files": self.files,
            "notes": self.notes,
            "differences": [
                _row(row) | {"changes": [change.as_json() for change in self.changes(row)]}
                for row in self.rows
                if row.kind != EQUAL
            ],
        }


def _row(row: Row) -> dict[str, Any]:
    return {"class": row.kind, "a": _step(row.a), "b": _step(row.b)}


def _step(step: Step | None) -> dict[str, Any] | None:
    if step is None:
        return None
    told: dict[str, Any] = {
        "step": step.number,
        "seq": step.event.get("seq"),
        "id": step.event.get("id"),
    }
    told |= {"kind": step.kind, "role": step.role or None}
    if step.kind == "call":
        deed = step.deed.name if step.deed.known else None
        told |= {
            "tool": step.tool,
            "deed": deed,
            "target": step.deed.target or None,
            "failed": step.failed,
        }
    return told


def _side(run: Run, name: str) -> Side:
    calls = [step for step in run.steps if step.kind == "call"]
    seconds = None if run.ms is None else run.ms / 1000
    files = dict.fromkeys(path for step in calls for path in step.deed.files)
    title, conversation = run.conversation.get("title"), run.conversation.get("id")
    return Side(
        name=name,
        conversation_id=conversation if isinstance(conversation, str) else None,
        title=title if isinstance(title, str) else None,
        models=run.models,
        events=run.events,
        steps=len(run.steps),
        calls=len(calls),
        failed=sum(step.failed for step in calls),
        tokens=run.tokens,
        seconds=seconds,
        files=list(files),
    )


def _files(a: Run, b: Run) -> dict[str, list[str]]:
    """The files that both runs changed, alike or not, and those that one of them did."""
    one, other = _edits(a), _edits(b)
    both = [path for path in one if path in other]
    return {
        "same": [path for path in both if one[path] == other[path]],
        "differ": [path for path in both if one[path] != other[path]],
        "only_a": [path for path in one if path not in other],
        "only_b": [path for path in other if path not in one],
    }


def _edits(run: Run) -> dict[str, list[str]]:
    made: dict[str, list[str]] = {}
    for step in run.steps:
        if step.deed.files and not step.failed:
            told = digest(change(step.arguments))
            for path in step.deed.files:
                made.setdefault(path, []).append(told)
    return made


def _changes(path: str, old: Any, new: Any, depth: int) -> list[Change]:
    """Objects are compared key by key; anything else is one value."""
    if not isinstance(old, dict) or not isinstance(new, dict) or depth > _DEEPEST:
        return [] if _is_same(old, new) else [Change(path or "/", old, new)]
    made: list[Change] = []
    for name in [*old, *(name for name in new if name not in old)]:
        place = f"{path}/{str(name).replace('~', '~0').replace('/', '~1')}"
        one, other = old.get(name, _ABSENT), new.get(name, _ABSENT)
        made += _changes(place, one, other, depth + 1)
    return made


def _is_same(old: Any, new: Any) -> bool:
    """As the keys have it, for which 1 and true are two things."""
    return old is not _ABSENT and new is not _ABSENT and old == new and digest(old) == digest(new)
