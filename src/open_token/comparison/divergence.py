"""Classes of differences, where two sessions diverge, why, and whether they resynchronize."""

from collections.abc import Sequence

import msgspec

from open_token.comparison.steps import Step
from open_token.jsontools.anchors import Pair

EQUAL = "equal"
ORDER = "order_change"
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
ONE_SIDED = ("missing", "extra")
CAUSES = ("decision", "environment", "input")
_MODEL_ROLES = ("assistant", "assistant_thought")
_RESYNC_STEPS = 2
"""Equal steps in a row after which two sessions are in step again; one may be chance."""


class Row(msgspec.Struct, frozen=True):
    """A step of one session or a pair of steps of both."""

    kind: str
    """`equal` or one of CLASSES."""
    a: Step | None
    b: Step | None

    @property
    def step(self) -> Step:
        """The step of the first session, where it has one."""
        step = self.a or self.b
        assert step is not None
        return step

    @property
    def is_cosmetic(self) -> bool:
        """Whether only message text of the model differs, or the order of parallel calls."""
        if self.kind == ORDER:
            return True
        if self.kind not in ("text_changed", *ONE_SIDED):
            return False
        return self.step.kind == "message" and self.step.role in _MODEL_ROLES


class Divergence(msgspec.Struct, frozen=True):
    """Where two sessions diverge."""

    row: int
    """Its position among the rows."""
    a: Step | None
    b: Step | None
    """What each did there; None where it had ended or did nothing instead."""
    cause: str
    resync_row: int | None
    """The row from which they are in step again."""
    radius: int
    """Rows from the divergence until then."""

    @property
    def met(self) -> int | None:
        """The former name of `resync_row`."""
        return self.resync_row


def build_rows(
    a: Sequence[Step], b: Sequence[Step], pairs: list[Pair], moved: list[Pair]
) -> list[Row]:
    """Return every step of both sessions, in the order of the first."""
    moved_from_a = dict(moved)
    moved_in_b = set(moved_from_a.values())
    rows: list[Row] = []
    next_a = 0
    next_b = 0
    for index_a, index_b in [*pairs, (len(a), len(b))]:
        for index in range(next_a, index_a):
            if index in moved_from_a:
                rows.append(_build_moved_row(a[index], b[moved_from_a[index]]))
            else:
                rows.append(Row("missing", a[index], None))
        for index in range(next_b, index_b):
            if index not in moved_in_b:
                rows.append(Row("extra", None, b[index]))
        if index_a < len(a):
            rows.append(Row(_classify(a[index_a], b[index_b]), a[index_a], b[index_b]))
        next_a = index_a + 1
        next_b = index_b + 1
    return rows


def _build_moved_row(a: Step, b: Step) -> Row:
    kind = _classify(a, b)
    return Row(ORDER if kind == EQUAL else kind, a, b)


def _classify(a: Step, b: Step) -> str:
    if a.key == b.key:
        return EQUAL
    if a.kind == "result":
        return "result_changed"
    if a.kind != "call":
        return "text_changed"
    if a.call_key == b.call_key:
        if a.failed != b.failed:
            return "error_state"
        return "result_changed"
    has_same_action = a.action.known and a.action.name == b.action.name
    if a.tool == b.tool or has_same_action:
        return "args_changed"
    return "tool_changed"


def find_first_difference(rows: Sequence[Row]) -> int | None:
    """Return the first row that differs; the order of parallel calls counts only by itself."""
    first_reordered = None
    for index, row in enumerate(rows):
        if row.kind not in (EQUAL, ORDER):
            return index
        if row.kind == ORDER and first_reordered is None:
            first_reordered = index
    return first_reordered


def find_divergence(rows: Sequence[Row]) -> Divergence | None:
    """Return the first action or input that differs.

    Model text that differs before the same action is a matter of wording. Where different input
    follows it, the input is the answer to it, and the text is the divergence.
    """
    first_text: int | None = None
    for index, row in enumerate(rows):
        if row.kind == EQUAL:
            if row.step.kind == "call" or row.step.role not in _MODEL_ROLES:
                first_text = None
        elif not row.is_cosmetic:
            if first_text is not None and _find_cause(row) == "input":
                return _build_divergence(rows, first_text)
            return _build_divergence(rows, index)
        elif row.kind != ORDER and first_text is None:
            first_text = index
    first = find_first_difference(rows)
    if first is None:
        return None
    return _build_divergence(rows, first)


def _build_divergence(rows: Sequence[Row], index: int) -> Divergence:
    """Describe the divergence at a row; its radius ends where the sessions agree again."""
    row = rows[index]
    resync_row = _find_resync(rows, index + 1)
    end = len(rows) if resync_row is None else resync_row
    if row.kind not in ONE_SIDED:
        return Divergence(index, row.a, row.b, _find_cause(row), resync_row, end - index)
    # Several steps in a row that only one session has are one divergence, from the first of them.
    begin = index
    while begin and rows[begin - 1].kind in ONE_SIDED:
        begin -= 1
    other = _find_replacement(rows, begin, row)
    cause = _find_cause(row)
    if other is None:
        return Divergence(index, row.a, row.b, cause, resync_row, end - begin)
    cause = max(cause, _find_cause(other), key=CAUSES.index)
    return Divergence(index, row.a or other.a, row.b or other.b, cause, resync_row, end - begin)


def _find_replacement(rows: Sequence[Row], begin: int, row: Row) -> Row | None:
    """Return what the other session did instead of a step that it does not have."""
    for other in rows[begin:]:
        if other.kind not in ONE_SIDED:
            return None
        if other.kind != row.kind and not other.is_cosmetic:
            return other
    return None


def _find_resync(rows: Sequence[Row], begin: int) -> int | None:
    """Return where enough equal steps begin, or all that are left; text between may differ."""
    start: int | None = None
    count = 0
    for index in range(begin, len(rows)):
        row = rows[index]
        if row.kind in (EQUAL, ORDER):
            if start is None:
                start = index
            count += 1
            if count == _RESYNC_STEPS:
                return start
        elif not row.is_cosmetic:
            start = None
            count = 0
    return start


def _find_cause(row: Row) -> str:
    """Return what made the difference: the model, its environment, or its input."""
    step = row.step
    if row.kind in ("result_changed", "error_state") or step.kind in ("result", "note", "span"):
        return "environment"
    if step.kind == "call" or step.role in _MODEL_ROLES:
        return "decision"
    return "input"
