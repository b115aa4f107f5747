"""The account of a redaction: its level, its strategy, and how many of what were masked; never a
value."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from open_token.model import REDACTION_MODES, STRATEGIES, Redaction
from open_token.passes._extra import lacking
from open_token.passes._late import late

_COUNT = late(r"masked (\d+) ([\w-]+) \((\d+) distinct values?\)")


def stronger(one: str, other: str) -> str:
    """The level that masks more."""
    return max(one, other, key=REDACTION_MODES.index)


def redaction_of(
    before: Redaction | None,
    level: str,
    strategy: str,
    marks: Counter[str],
    distinct: Mapping[str, int],
    remarks: list[str],
) -> Redaction | None:
    """What conversation.redaction says now; what an earlier redaction said stays, and new counts
    are added to it."""
    before = before if isinstance(before, dict) else None
    if level == "none" and not marks:
        return before
    earlier = before.get("mode") if before else None
    notes = _texts(before.get("notes")) if before else []
    if marks:
        notes = _counted(notes, marks, distinct)
    told = (remarks if marks else []) + lacking(level)
    notes = notes + [remark for remark in told if remark not in notes]
    kept = before.get("strategy") if before and not marks else None
    return {
        "mode": stronger(level, earlier if earlier in REDACTION_MODES else "none"),
        "strategy": kept if kept in STRATEGIES else strategy,
        "notes": notes,
    }


def _texts(notes: Any) -> list[str]:
    return [note for note in notes if isinstance(note, str)] if isinstance(notes, list) else []


def _counted(notes: list[str], marks: Counter[str], distinct: Mapping[str, int]) -> list[str]:
    """One line a type, with the marks of this and any earlier redaction together."""
    lines: dict[str, str] = {}
    for note in notes:
        found = _COUNT.fullmatch(note)
        lines[found[2] if found else note] = note
    for kind in sorted(marks):
        found = _COUNT.fullmatch(lines.get(kind, ""))
        count = marks[kind] + (int(found[1]) if found else 0)
        values = distinct[kind] + (int(found[3]) if found else 0)
        lines[kind] = f"masked {count} {kind} ({values} distinct value{'s' if values != 1 else ''})"
    return list(lines.values())
