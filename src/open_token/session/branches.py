"""The tree of a session: history, checkpoints, and moves between branches.

Nothing is ever deleted: going back or across only moves the head of the session.
"""

from typing import Any, Literal

from open_token.model.log_events import Json, LogError, NewEvent
from open_token.model.session_types import ROOT_LOOP, Checkpoint, HistoryNode, TurnProjection
from open_token.session.state import CheckpointNode, SessionState
from open_token.session.turn import Turn


def build_history(state: SessionState) -> list[HistoryNode]:
    """Return every turn of the tree, in the order in which they were opened."""
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
            turn=turn.snapshot(),
        )
        for turn in state.turns.values()
    ]


def list_checkpoints(state: SessionState) -> tuple[list[Checkpoint], str | None]:
    """Return the checkpoints, each with its parent, and the last one of the current branch."""
    nearest: dict[str | None, str | None] = {None: None}
    for entry_id, turn in state.nodes.items():
        nearest[entry_id] = turn.checkpoint_id or nearest[turn.parent_id]
    parents = {node.checkpoint_id: nearest[node.before] for node in state.checkpoints.values()}
    inner = set(parents.values())
    checkpoints = [
        Checkpoint(
            checkpoint_id=checkpoint_id,
            turn_id=node.turn_id,
            parent_id=parents[checkpoint_id],
            label=node.label,
            created_at=node.created_at,
            is_leaf=checkpoint_id not in inner,
        )
        for checkpoint_id, node in state.checkpoints.items()
    ]
    return checkpoints, nearest[state.head]


def find_deprecated(state: SessionState) -> set[str]:
    """Return the ids of the entries that the current branch hides from the model."""
    return {entry_id for turn in state.path for entry_id in turn.deprecated}


def rewind(state: SessionState, checkpoint_id: str) -> NewEvent:
    """Go back to the point before a user turn."""
    node = _get_checkpoint(state, checkpoint_id)
    return _build_move(node.before, "rewind", checkpoint_id=checkpoint_id)


def switch_branch(state: SessionState, checkpoint_id: str) -> NewEvent:
    """Go to the newest end of the branch that contains a checkpoint."""
    path = _find_path_through(state, _get_checkpoint(state, checkpoint_id))
    head = path[-1].facts.id if path else None
    return _build_move(head, "switch", checkpoint_id=checkpoint_id)


def checkout_turns(
    state: SessionState, checkpoint_id: str, position: Literal["before", "turn_end"] = "before"
) -> list[TurnProjection]:
    """Return the turns before a user turn, or up to the end of its answer; nothing changes."""
    node = _get_checkpoint(state, checkpoint_id)
    path = state.path_to(node.before)
    if position == "turn_end":
        path = _cut_before_next_message(_find_path_through(state, node), len(path))
    return [turn.snapshot() for turn in path]


def start_whatif(
    state: SessionState, from_step: int, quotes: list[Any], deprecate: list[str]
) -> NewEvent:
    """Keep the first steps of the current branch and go on from there.

    A step is a turn of the root loop together with the subagent turns that it caused.
    """
    if from_step < 0:
        raise LogError("step is negative")
    if not all(entry_id in state.nodes for entry_id in deprecate):
        raise LogError("entry is not in the log")
    steps = [index for index, turn in enumerate(state.path) if turn.facts.loop_id == ROOT_LOOP]
    path = state.path
    if from_step < len(steps):
        path = path[: steps[from_step]]
    head = path[-1].facts.id if path else None
    return _build_move(head, "whatif", from_step=from_step, quotes=quotes, deprecated=deprecate)


def _build_move(head: str | None, reason: str, **more: Any) -> NewEvent:
    data: Json = {"head": head, "reason": reason, **more}
    return "branch.moved", data


def _get_checkpoint(state: SessionState, checkpoint_id: str) -> CheckpointNode:
    node = state.checkpoints.get(checkpoint_id)
    if node is None:
        raise LogError("checkpoint is not in the log")
    return node


def _find_path_through(state: SessionState, node: CheckpointNode) -> list[Turn]:
    """Return the path through a checkpoint to the newest end behind it.

    If the checkpoint is on the current branch, that is the current branch.
    """
    turn = state.turns.get(node.turn_id or "")
    if turn is None:
        return state.path_to(node.before)
    if any(known is turn for known in state.path):
        return state.path
    descendants = {turn.facts.id}
    last = turn.facts.id
    for entry_id, other in state.nodes.items():
        if other.parent_id in descendants:
            descendants.add(entry_id)
            last = entry_id
    return state.path_to(last)


def _cut_before_next_message(path: list[Turn], start: int) -> list[Turn]:
    """Return the path up to the next user message after the one at `start`."""
    for index in range(start + 1, len(path)):
        facts = path[index].facts
        if facts.role == "user" and facts.loop_id == ROOT_LOOP:
            return path[:index]
    return path
