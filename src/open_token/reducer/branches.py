"""The tree of a session: history, checkpoints, and the steps that go back, across or aside; nothing
is deleted."""

from typing import Any, Literal

from open_token.entries import Json, LogFault, Step
from open_token.reducer._facts import Mark
from open_token.reducer._state import State
from open_token.reducer._turn import Turn
from open_token.turns import ROOT, Checkpoint, HistoryNode, TurnProjection


def history(state: State) -> list[HistoryNode]:
    """Every turn of the tree, in the order in which they began."""
    active = {turn.facts.id for turn in state.path}
    return [
        HistoryNode(
            id=turn.facts.id,
            parent_id=turn.parent_id,
            kind=turn.facts.kind,
            turn_id=turn.facts.turn_id,
            role=turn.facts.role,
            created_at=turn.created_at,
            checkpoint_id=turn.checkpoint_id,
            active=turn.facts.id in active,
            turn=turn.whole(),
        )
        for turn in state.turns.values()
    ]


def checkpoints(state: State) -> tuple[list[Checkpoint], str | None]:
    """The checkpoints, each with the one before it, and the last one of the current branch."""
    nearest: dict[str | None, str | None] = {None: None}
    for name, turn in state.nodes.items():
        nearest[name] = turn.checkpoint_id or nearest[turn.parent_id]
    parents = {mark.checkpoint_id: nearest[mark.before] for mark in state.marks.values()}
    inner = set(parents.values())
    made = [
        Checkpoint(
            checkpoint_id=name,
            turn_id=mark.turn_id,
            parent_id=parents[name],
            label=mark.label,
            created_at=mark.created_at,
            is_leaf=name not in inner,
        )
        for name, mark in state.marks.items()
    ]
    return made, nearest[state.head]


def deprecated(state: State) -> set[str]:
    """The entry ids that the current branch leaves out of what the model sees."""
    return {name for turn in state.path for name in turn.deprecated}


def rewind(state: State, checkpoint_id: str) -> Step:
    """Go back to the point before a turn of the person's."""
    return _moved(_mark(state, checkpoint_id).before, "rewind", checkpoint_id=checkpoint_id)


def switch(state: State, checkpoint_id: str) -> Step:
    """Go to the newest end of the branch that has a checkpoint."""
    way = _way_through(state, _mark(state, checkpoint_id))
    return _moved(way[-1].facts.id if way else None, "switch", checkpoint_id=checkpoint_id)


def checkout(
    state: State, checkpoint_id: str, position: Literal["before", "turn_end"] = "before"
) -> list[TurnProjection]:
    """The turns as they stood before a turn of the person's, or when it had been answered; nothing
    changes."""
    mark = _mark(state, checkpoint_id)
    way = state.way_to(mark.before)
    if position == "turn_end":
        way = _answered(_way_through(state, mark), len(way))
    return [turn.whole() for turn in way]


def whatif(state: State, from_step: int, quotes: list[Any], deprecate: list[str]) -> Step:
    """Keep the first steps of the current branch, which are turns of the root loop with all that
    they set off."""
    if from_step < 0:
        raise LogFault("a step below 0")
    if not all(name in state.nodes for name in deprecate):
        raise LogFault("an entry that is not in the log")
    steps = [place for place, turn in enumerate(state.path) if turn.facts.loop_id == ROOT]
    kept = state.path[: steps[from_step]] if from_step < len(steps) else state.path
    head = kept[-1].facts.id if kept else None
    return _moved(head, "whatif", from_step=from_step, quotes=quotes, deprecated=deprecate)


def _moved(head: str | None, reason: str, **more: Any) -> Step:
    data: Json = {"head": head, "reason": reason, **more}
    return "branch.moved", data


def _mark(state: State, checkpoint_id: str) -> Mark:
    mark = state.marks.get(checkpoint_id)
    if mark is None:
        raise LogFault("a checkpoint that is not in the log")
    return mark


def _way_through(state: State, mark: Mark) -> list[Turn]:
    """The way to the newest end behind a checkpoint; the current branch when the checkpoint is on
    it."""
    turn = state.turns.get(mark.turn_id or "")
    if turn is None:
        return state.way_to(mark.before)
    if any(known is turn for known in state.path):
        return state.path
    below = {turn.facts.id}
    last = turn.facts.id
    for name, node in state.nodes.items():
        if node.parent_id in below:
            below.add(name)
            last = name
    return state.way_to(last)


def _answered(way: list[Turn], start: int) -> list[Turn]:
    """The way up to where the person speaks again."""
    for place in range(start + 1, len(way)):
        facts = way[place].facts
        if facts.role == "user" and facts.loop_id == ROOT:
            return way[:place]
    return way
