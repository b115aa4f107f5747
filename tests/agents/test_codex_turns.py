"""Rollback of turns: what is dropped, what stays, and that each part is dropped once."""

from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from open_token.agents.codex.thread import Turns
from open_token.builder.draft import Draft


class Counting:
    """As much of a draft as turns need."""

    branches = "active"

    def __init__(self) -> None:
        self.count = 0
        self.parts: list[range] = []

    def drop_branch(self, first: int, end: int, data: dict[str, Any], actor: str) -> None:
        self.parts.append(range(first, end))


def turns() -> tuple[Turns, Counting]:
    draft = Counting()
    return Turns(cast(Draft, draft)), draft


Steps = list[tuple[str, int]]
STEPS = st.lists(
    st.tuples(st.sampled_from(("turn", "event", "late", "back")), st.integers(1, 4)), max_size=40
)


def taken_back(steps: Steps) -> set[int]:
    """What goes, by the plain rule: all from the first turn on, but for what belongs to an event
    before it."""
    count, starts, late, gone = 0, list[int](), list[tuple[int, int]](), set[int]()
    for step, size in steps:
        if step == "turn":
            starts.append(count)
        elif step == "back" and starts:
            first = starts[-size:][0]
            del starts[-size:]
            stay = {place for origin, place in late if origin < first <= place}
            gone |= set(range(first, count)) - stay
        elif step in ("event", "late"):
            origin = count - size * 2
            if step == "late" and origin >= 0 and starts and origin < starts[-1]:
                late.append((origin, count))
            count += 1
    return gone


@given(STEPS)
def test_what_belongs_to_an_earlier_turn_stays(steps: Steps) -> None:
    made, draft = turns()
    for step, size in steps:
        if step == "turn":
            made.begin()
        elif step == "back":
            made.roll_back(size, "act_001")
        else:
            draft.count += 1
            if step == "late" and (origin := draft.count - 1 - size * 2) >= 0:
                made.assign(origin, draft.count - 1)
    assert {place for part in draft.parts for place in part} == taken_back(steps)


def test_many_turns_taken_back_one_by_one_go_once() -> None:
    made, draft = turns()
    draft.count = 500
    for origin in range(500):
        made.begin()
        draft.count += 2
        made.assign(origin, draft.count - 1)
    for _ in range(500):
        made.roll_back(1, "act_001")
    assert len([part for part in draft.parts if part]) <= 1000
    assert sum(map(len, draft.parts)) == 500
