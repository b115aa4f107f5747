"""One sentence about two runs: how long they went together, where and why they parted, and whether
they met again."""

from open_token.comparing.judging import ALONE, EQUAL, ORDER, Parting
from open_token.comparing.report import Difference
from open_token.comparing.steps import Step

_WHY = {
    "tool_changed": "the model did something else",
    "args_changed": "the model gave the same tool other arguments",
    "text_changed": "the model said something else",
    "result_changed": "the same call had another result",
    "error_state": "the same call failed in one of them only",
}
_ONE_ONLY = "one of them does what the other does not"
_INSTEAD = "they do different things"


def sentence(difference: Difference) -> str:
    """What somebody wants to hear first; it quotes nothing of the runs."""
    parting = difference.parting
    if difference.same or parting is None:
        return _same(difference)
    if all(row.kind == EQUAL or row.is_soft for row in difference.rows):
        return _worded(difference, parting)
    return (
        f"{_start(difference, parting)} {_at(parting.a, parting.b)}: {_why(difference, parting)}. "
        + _end(difference, parting)
    )


def _start(difference: Difference, parting: Parting) -> str:
    """How far they went together; that the model found other words on the way is told beside it."""
    before = difference.rows[: parting.row]
    if all(row.kind in ALONE for row in before):
        return "They part"
    words = sum(row.is_soft and row.kind != ORDER for row in before)
    also = f", {words:,} of them in other words" if words else ""
    return f"Same start for {_steps(len(before))}{also}, then they part"


def _same(difference: Difference) -> str:
    also = (
        ", and but for the order of calls made side by side" if difference.counts.get(ORDER) else ""
    )
    count = difference.equal + difference.counts.get(ORDER, 0)
    return f"Same: {_steps(count)}, equal but for ids, times and counts{also}."


def _worded(difference: Difference, parting: Parting) -> str:
    texts = sum(count for kind, count in difference.counts.items() if kind != ORDER)
    if not texts:
        return f"Same: all {_steps(difference.equal)}, but calls made side by side stand in another order."
    what = "text differs" if texts == 1 else f"texts differ, the first {_at(parting.a, parting.b)}"
    place = f" {_at(parting.a, parting.b)}" if texts == 1 else ""
    return f"The same was done; only words of the model differ: {texts} {what}{place}."


def _at(a: Step | None, b: Step | None) -> str:
    if a is None or b is None:
        step, name = (a, "A") if a is not None else (b, "B")
        return f"at step {step.number:,} of {name}" if step is not None else ""
    if a.number == b.number:
        return f"at step {a.number:,}"
    return f"at step {a.number:,} of A and {b.number:,} of B"


def _why(difference: Difference, parting: Parting) -> str:
    row = difference.rows[parting.row]
    if parting.cause == "input":
        return "the input differs"
    if row.kind in ALONE:
        return _INSTEAD if parting.a and parting.b else _ONE_ONLY
    if row.step.kind == "call" or row.step.kind == "message":
        return _WHY[row.kind]
    return "something else happened around them"


def _end(difference: Difference, parting: Parting) -> str:
    if parting.met is not None:
        row = difference.rows[parting.met]
        return f"They meet again {_at(row.a, row.b)}."
    rest = {row.kind for row in difference.rows[parting.row :]}
    if rest == {"missing"}:
        return "B ends there."
    return "A ends there." if rest == {"extra"} else "They do not meet again."


def _steps(count: int) -> str:
    return f"{count:,} step" if count == 1 else f"{count:,} steps"
