"""The report on two compared sessions: a summary sentence, totals, and every difference."""

from collections import Counter
from typing import Any

import msgspec

from open_token.comparison.actions import extract_changed_lines
from open_token.comparison.divergence import EQUAL, ONE_SIDED, ORDER, Divergence, Row
from open_token.comparison.keys import Projector, hash_value
from open_token.comparison.steps import Step, Transcript
from open_token.jsontools.objects import escape_pointer

SCHEMA = "open-token/diff/1"
_ABSENT: Any = object()
_MAX_DEPTH = 20
_REASONS = {
    "tool_changed": "the model did something else",
    "args_changed": "the model called the same tool with different arguments",
    "text_changed": "the model said something else",
    "result_changed": "the same call had a different result",
    "error_state": "the same call failed in only one of them",
}


class Side(msgspec.Struct, frozen=True):
    """The totals of one session."""

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


class ValueChange(msgspec.Struct, frozen=True):
    """One value that differs: its path in the step, and the value on each side that has it."""

    path: str
    a: Any
    b: Any

    @property
    def in_a(self) -> bool:
        """Whether the first session has it."""
        return self.a is not _ABSENT

    @property
    def in_b(self) -> bool:
        """Whether the second session has it."""
        return self.b is not _ABSENT

    def as_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        encoded = {"path": self.path}
        if self.in_a:
            encoded["a"] = self.a
        if self.in_b:
            encoded["b"] = self.b
        return encoded


class Difference:
    """The result of `open_token.diff`: whether two sessions are the same, and where they diverge."""

    def __init__(
        self,
        level: str,
        transcripts: tuple[Transcript, Transcript],
        names: tuple[str, str],
        rows: list[Row],
    ) -> None:
        self.level = level
        self.transcripts = transcripts
        self.rows = rows
        self.a = _build_side(transcripts[0], names[0])
        self.b = _build_side(transcripts[1], names[1])
        self.files = _compare_files(*transcripts)
        self.counts = dict(Counter(row.kind for row in rows))
        self.equal = self.counts.pop(EQUAL, 0)
        self.divergence: Divergence | None = None
        self.first: int | None = None
        self.notes: list[str] = []
        self.sentence = ""
        self.projections: tuple[Projector, Projector]

    @property
    def differing(self) -> int:
        """The number of rows that differ; the order of parallel calls counts in level exact."""
        return sum(
            count for kind, count in self.counts.items() if kind != ORDER or self.level == "exact"
        )

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return self.differing == 0

    @property
    def ratio(self) -> float:
        """The share of rows that differ."""
        if self.rows:
            return round(self.differing / len(self.rows), 4)
        return 0.0

    def changes(self, row: Row) -> list[ValueChange]:
        """Return the values that differ in a row that both sessions have."""
        if row.a is None or row.b is None or row.kind in (EQUAL, ORDER):
            return []
        project_a, project_b = self.projections
        called_a, result_a = project_a(row.a)
        called_b, result_b = project_b(row.b)
        if row.kind in ("result_changed", "error_state"):
            return _diff_values("", result_a, result_b, 0)
        return _diff_values("", called_a, called_b, 0)

    def as_json(self) -> dict[str, Any]:
        """Return everything as a JSON object."""
        divergence = None if self.same else self.divergence
        first = None if self.same or self.first is None else self.rows[self.first]
        resync = None
        if divergence is not None and divergence.resync_row is not None:
            resync = self.rows[divergence.resync_row]
        differences = []
        for row in self.rows:
            if row.kind != EQUAL:
                changes = [change.as_json() for change in self.changes(row)]
                differences.append(_encode_row(row) | {"changes": changes})
        return {
            "schema": SCHEMA,
            "same": self.same,
            "level": self.level,
            "sentence": self.sentence,
            "a": msgspec.to_builtins(self.a),
            "b": msgspec.to_builtins(self.b),
            "equal": self.equal,
            "counts": self.counts,
            "first": _encode_row(first) if first else None,
            "divergence": self._encode_divergence(divergence) if divergence else None,
            "resync": _encode_row(resync) if resync else None,
            "divergence_ratio": self.ratio,
            "blast_radius": divergence.radius if divergence else 0,
            "files": self.files,
            "notes": self.notes,
            "differences": differences,
        }

    def _encode_divergence(self, divergence: Divergence) -> dict[str, Any]:
        kind = self.rows[divergence.row].kind
        if kind in ONE_SIDED and divergence.a and divergence.b:
            kind = "missing"
        return {
            "class": kind,
            "cause": divergence.cause,
            "a": _encode_step(divergence.a),
            "b": _encode_step(divergence.b),
        }


def _encode_row(row: Row) -> dict[str, Any]:
    return {"class": row.kind, "a": _encode_step(row.a), "b": _encode_step(row.b)}


def _encode_step(step: Step | None) -> dict[str, Any] | None:
    if step is None:
        return None
    encoded: dict[str, Any] = {
        "step": step.number,
        "seq": step.event.get("seq"),
        "id": step.event.get("id"),
        "kind": step.kind,
        "role": step.role or None,
    }
    if step.kind == "call":
        encoded["tool"] = step.tool
        encoded["action"] = step.action.name if step.action.known else None
        encoded["target"] = step.action.target or None
        encoded["failed"] = step.failed
    return encoded


def _build_side(transcript: Transcript, name: str) -> Side:
    calls = [step for step in transcript.steps if step.kind == "call"]
    # A dictionary keeps the order in which the files were first changed.
    files: dict[str, None] = {}
    for call in calls:
        files.update(dict.fromkeys(call.action.files))
    title = transcript.conversation.get("title")
    conversation_id = transcript.conversation.get("id")
    return Side(
        name=name,
        conversation_id=conversation_id if isinstance(conversation_id, str) else None,
        title=title if isinstance(title, str) else None,
        models=transcript.models,
        events=transcript.events,
        steps=len(transcript.steps),
        calls=len(calls),
        failed=sum(step.failed for step in calls),
        tokens=transcript.tokens,
        seconds=None if transcript.ms is None else transcript.ms / 1000,
        files=list(files),
    )


def _compare_files(a: Transcript, b: Transcript) -> dict[str, list[str]]:
    """Return the files that both sessions changed, equally or not, and those of only one."""
    edits_a = _hash_edits(a)
    edits_b = _hash_edits(b)
    in_both = [path for path in edits_a if path in edits_b]
    return {
        "same": [path for path in in_both if edits_a[path] == edits_b[path]],
        "differ": [path for path in in_both if edits_a[path] != edits_b[path]],
        "only_a": [path for path in edits_a if path not in edits_b],
        "only_b": [path for path in edits_b if path not in edits_a],
    }


def _hash_edits(transcript: Transcript) -> dict[str, list[str]]:
    """Return the hashes of the successful edits of each file, in order."""
    edits: dict[str, list[str]] = {}
    for step in transcript.steps:
        if step.action.files and not step.failed:
            edit_hash = hash_value(extract_changed_lines(step.arguments))
            for path in step.action.files:
                edits.setdefault(path, []).append(edit_hash)
    return edits


def _diff_values(path: str, old: Any, new: Any, depth: int) -> list[ValueChange]:
    """Compare objects key by key, anything else as one value."""
    if not isinstance(old, dict) or not isinstance(new, dict) or depth > _MAX_DEPTH:
        if _is_same_value(old, new):
            return []
        return [ValueChange(path or "/", old, new)]
    changes: list[ValueChange] = []
    for name in dict.fromkeys((*old, *new)):
        escaped = escape_pointer(str(name))
        changes += _diff_values(
            f"{path}/{escaped}", old.get(name, _ABSENT), new.get(name, _ABSENT), depth + 1
        )
    return changes


def _is_same_value(old: Any, new: Any) -> bool:
    if old is _ABSENT or new is _ABSENT or old != new:
        return False
    # In Python 1 == True; in JSON they differ, and so do their hashes.
    return hash_value(old) == hash_value(new)


def write_sentence(difference: Difference) -> str:
    """Return the summary of a comparison in a sentence or two; it quotes no content."""
    divergence = difference.divergence
    if difference.same or divergence is None:
        return _describe_same(difference)
    if all(row.kind == EQUAL or row.is_cosmetic for row in difference.rows):
        return _describe_cosmetic(difference, divergence)
    start = _describe_start(difference, divergence)
    position = _describe_position(divergence.a, divergence.b)
    reason = _describe_reason(difference, divergence)
    return f"{start} {position}: {reason}. {_describe_end(difference, divergence)}"


def _describe_start(difference: Difference, divergence: Divergence) -> str:
    """Return how long the sessions were in step; reworded messages are counted."""
    before = difference.rows[: divergence.row]
    if all(row.kind in ONE_SIDED for row in before):
        return "They diverge"
    reworded = sum(row.is_cosmetic and row.kind != ORDER for row in before)
    wording = f", {reworded:,} of them worded differently" if reworded else ""
    return f"Same start for {_count_steps(len(before))}{wording}, then they diverge"


def _describe_same(difference: Difference) -> str:
    reordered = difference.counts.get(ORDER, 0)
    count = _count_steps(difference.equal + reordered)
    except_order = ""
    if reordered:
        except_order = ", and except for the order of parallel calls"
    return f"Same: {count}, equal except for ids, times and counts{except_order}."


def _describe_cosmetic(difference: Difference, divergence: Divergence) -> str:
    texts = sum(count for kind, count in difference.counts.items() if kind != ORDER)
    if not texts:
        count = _count_steps(difference.equal)
        return f"Same: all {count}, but parallel calls are in a different order."
    position = _describe_position(divergence.a, divergence.b)
    if texts == 1:
        details = f"1 text differs {position}"
    else:
        details = f"{texts} texts differ, the first {position}"
    return f"Same actions; only message text of the model differs: {details}."


def _describe_position(a: Step | None, b: Step | None) -> str:
    if a is not None and b is not None:
        if a.number == b.number:
            return f"at step {a.number:,}"
        return f"at step {a.number:,} of A and {b.number:,} of B"
    if a is not None:
        return f"at step {a.number:,} of A"
    if b is not None:
        return f"at step {b.number:,} of B"
    return ""


def _describe_reason(difference: Difference, divergence: Divergence) -> str:
    row = difference.rows[divergence.row]
    if divergence.cause == "input":
        return "the input differs"
    if row.kind in ONE_SIDED:
        if divergence.a and divergence.b:
            return "they do different things"
        return "one does something that the other does not"
    if row.step.kind in ("call", "message"):
        return _REASONS[row.kind]
    return "something else happened around them"


def _describe_end(difference: Difference, divergence: Divergence) -> str:
    if divergence.resync_row is not None:
        row = difference.rows[divergence.resync_row]
        return f"They are in step again {_describe_position(row.a, row.b)}."
    remaining = {row.kind for row in difference.rows[divergence.row :]}
    if remaining == {"missing"}:
        return "B ends there."
    if remaining == {"extra"}:
        return "A ends there."
    return "They stay apart."


def _count_steps(count: int) -> str:
    if count == 1:
        return f"{count:,} step"
    return f"{count:,} steps"
