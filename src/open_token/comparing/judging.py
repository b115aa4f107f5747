"""What the differences of two runs are, where the runs part, why, and whether they meet again."""

from collections.abc import Sequence

import msgspec

from open_token.comparing.chain import Pair
from open_token.comparing.steps import Step

EQUAL, ORDER = "equal", "order_change"
CLASSES = (
    "tool_changed",
    "args_changed",
    "result_changed",
    "error_state",
    "text_changed",
    "missing",
    "extra",
    ORDER,
)
ALONE = ("missing", "extra")
CAUSES = ("decision", "environment", "input")
_MODEL = ("assistant", "assistant_thought")
_TOGETHER = 2
"""Equal steps in a row after which two runs have met again; one alone may be chance."""


class Row(msgspec.Struct, frozen=True):
    """One step of the one run, of the other, or of both."""

    kind: str
    """equal, or one of CLASSES."""
    a: Step | None
    b: Step | None

    @property
    def step(self) -> Step:
        """The step of the first run, where it has one."""
        step = self.a or self.b
        assert step is not None
        return step

    @property
    def is_soft(self) -> bool:
        """Whether only the model's words beside its deeds differ, or the order of calls made side
        by side."""
        return self.kind == ORDER or (
            self.kind in ("text_changed", "missing", "extra")
            and self.step.kind == "message"
            and self.step.role in _MODEL
        )


class Parting(msgspec.Struct, frozen=True):
    """Where two runs part."""

    row: int
    """Its place among the rows."""
    a: Step | None
    b: Step | None
    """What each did there; none where it had ended, or had nothing in place of what the other
    did."""
    cause: str
    met: int | None
    """The row from which they go together again."""
    radius: int
    """Rows from the parting until then."""


def rows_of(
    a: Sequence[Step], b: Sequence[Step], pairs: list[Pair], moved: list[Pair]
) -> list[Row]:
    """Every step of both, in the order of the first; the second's own stand where they came."""
    there = dict(moved)
    taken = set(there.values())
    rows: list[Row] = []
    i = j = 0
    for x, y in [*pairs, (len(a), len(b))]:
        for place in range(i, x):
            other = b[there[place]] if place in there else None
            rows.append(
                Row("missing", a[place], None) if other is None else _moved(a[place], other)
            )
        rows += [Row("extra", None, b[place]) for place in range(j, y) if place not in taken]
        if x < len(a):
            rows.append(Row(_kind(a[x], b[y]), a[x], b[y]))
        i, j = x + 1, y + 1
    return rows


def _moved(one: Step, other: Step) -> Row:
    kind = _kind(one, other)
    return Row(ORDER if kind == EQUAL else kind, one, other)


def _kind(one: Step, other: Step) -> str:
    if one.key == other.key:
        return EQUAL
    if one.kind != "call":
        return "result_changed" if one.kind == "result" else "text_changed"
    if one.call_key != other.call_key:
        same = one.tool == other.tool or (one.deed.known and one.deed.name == other.deed.name)
        return "args_changed" if same else "tool_changed"
    return "error_state" if one.failed != other.failed else "result_changed"


def first_difference(rows: Sequence[Row]) -> int | None:
    """The first row that is not equal; another order of calls made side by side is only that if
    nothing else is."""
    first = next((place for place, row in enumerate(rows) if row.kind not in (EQUAL, ORDER)), None)
    return (
        next((place for place, row in enumerate(rows) if row.kind == ORDER), None)
        if first is None
        else first
    )


def parting_of(rows: Sequence[Row]) -> Parting | None:
    """Where the runs part: at the first deed or input that differs.

    Words that differ and are followed by the same deed are only worded otherwise. Where other input
    follows them, it is the answer to them, and they are where the ways parted."""
    waiting: int | None = None
    for place, row in enumerate(rows):
        if row.kind == EQUAL:
            waiting = None if row.step.kind == "call" or row.step.role not in _MODEL else waiting
        elif not row.is_soft:
            return _parted(rows, place if waiting is None or _cause(row) != "input" else waiting)
        elif row.kind != ORDER and waiting is None:
            waiting = place
    first = first_difference(rows)
    return None if first is None else _parted(rows, first)


def _parted(rows: Sequence[Row], place: int) -> Parting:
    row = rows[place]
    met = _met(rows, place + 1)
    end = len(rows) if met is None else met
    if row.kind not in ALONE:
        return Parting(place, row.a, row.b, _cause(row), met, end - place)
    begin = place
    while begin and rows[begin - 1].kind in ALONE:
        begin -= 1
    instead = _instead(rows, begin, row)
    causes = [_cause(one) for one in (row, instead) if one is not None]
    both = (row, instead or row)
    a, b = (
        next((step for step in steps if step), None)
        for steps in ([one.a for one in both], [one.b for one in both])
    )
    return Parting(place, a, b, max(causes, key=CAUSES.index), met, end - begin)


def _instead(rows: Sequence[Row], begin: int, row: Row) -> Row | None:
    """What the other run did in place of a step that it does not have."""
    for place in range(begin, len(rows)):
        other = rows[place]
        if other.kind not in ALONE:
            return None
        if other.kind != row.kind and not other.is_soft:
            return other
    return None


def _met(rows: Sequence[Row], begin: int) -> int | None:
    """Where equal steps begin, enough of them or all that is left; words in between may differ."""
    start, count = None, 0
    for place in range(begin, len(rows)):
        row = rows[place]
        if row.kind in (EQUAL, ORDER):
            start = place if start is None else start
            count += 1
            if count == _TOGETHER:
                return start
        elif not row.is_soft:
            start, count = None, 0
    return start


def _cause(row: Row) -> str:
    """Who made the difference: the model, what it works with, or who speaks to it."""
    step = row.step
    if row.kind in ("result_changed", "error_state") or step.kind in ("result", "note", "span"):
        return "environment"
    return "decision" if step.kind == "call" or step.role in _MODEL else "input"
