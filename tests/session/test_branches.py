"""Branches: rewinding, switching, looking back, asking what if; a tree from which nothing is ever
deleted."""

import pytest
from hypothesis import given

from helpers.server.random_sessions import SessionLog, session_logs
from open_token.model.log_events import LogError
from open_token.session import SessionState, actions, branches

AT = "2026-01-01T00:00:00Z"


def build_state(*words: str) -> SessionState:
    state = SessionState("s")
    for word in words:
        say(state, word)
    return state


def say(state: SessionState, word: str) -> None:
    """A word of the person's, and an answer."""
    made = [
        *actions.send_user_message(
            f"turn_{word}", actions.build_text_blocks(word), checkpoint_id=f"cp_{word}"
        ),
        ("turn.opened", {"turn": {"turn_id": f"turn_{word}!"}}),
        ("text.delta", {"turn_id": f"turn_{word}!", "text": f"{word}!"}),
        ("turn.ended", {"turn_id": f"turn_{word}!"}),
    ]
    for kind, data in made:
        state.add(kind, data, AT)


def words(state: SessionState) -> list[str]:
    return [turn.blocks[0].content for turn in state.branch()]


def test_rewind_and_go_on_and_switch_back() -> None:
    state = build_state("a", "b")
    state.add(*branches.rewind(state, "cp_b"), AT)
    assert words(state) == ["a", "a!"]
    say(state, "c")
    assert words(state) == ["a", "a!", "c", "c!"]
    state.add(*branches.switch_branch(state, "cp_b"), AT)
    assert words(state) == ["a", "a!", "b", "b!"]
    state.add(*branches.switch_branch(state, "cp_c"), AT)
    assert words(state) == ["a", "a!", "c", "c!"]
    assert [(node.turn_id, node.active) for node in branches.build_history(state)][2:4] == [
        ("turn_b", False),
        ("turn_b!", False),
    ]
    state.add(*branches.rewind(state, "cp_a"), AT)
    assert words(state) == []
    assert state.head is None


@pytest.mark.spec("rewind-and-switch")
def test_a_question_waits_wherever_its_branch_is_current() -> None:
    state = build_state("a")
    made = [
        *actions.send_user_message(
            "turn_q", actions.build_text_blocks("ask"), checkpoint_id="cp_q"
        ),
        ("run.started", {"run_id": "run_1"}),
        ("turn.opened", {"turn": {"turn_id": "turn_q!"}}),
        (
            "tool.called",
            {"turn_id": "turn_q!", "call": {"id": "tc_1", "tool_name": "AskUserQuestion"}},
        ),
        (
            "question.asked",
            {"turn_id": "turn_q!", "tool_call_id": "tc_1", "questions": [{"question": "Which?"}]},
        ),
        ("turn.ended", {"turn_id": "turn_q!", "status": "paused"}),
        ("run.ended", {"run_id": "run_1"}),
    ]
    for kind, data in made:
        state.add(kind, data, AT)
    assert state.session.status == "waiting_for_input"
    state.add(*branches.rewind(state, "cp_q"), AT)
    assert state.session.status == "completed"
    state.add(*branches.switch_branch(state, "cp_q"), AT)
    assert state.session.status == "waiting_for_input"
    assert (
        branches.checkout_turns(state, "cp_q", "turn_end")[-1].tool_calls[0].status
        == "awaiting_answer"
    )


def test_checkpoints_are_a_tree() -> None:
    state = build_state("a", "b")
    state.add(*branches.rewind(state, "cp_b"), AT)
    say(state, "c")
    nodes, leaf = branches.list_checkpoints(state)
    assert [(node.checkpoint_id, node.parent_id, node.is_leaf) for node in nodes] == [
        ("cp_a", None, False),
        ("cp_b", "cp_a", True),
        ("cp_c", "cp_a", True),
    ]
    assert leaf == "cp_c"
    assert branches.list_checkpoints(SessionState("s")) == ([], None)


def test_checkout_changes_nothing() -> None:
    state = build_state("a", "b", "c")
    before = state.snapshot()
    for position, expected in (("before", ["a", "a!"]), ("turn_end", ["a", "a!", "b", "b!"])):
        shown = branches.checkout_turns(state, "cp_b", position)  # type: ignore[arg-type]
        assert [turn.blocks[0].content for turn in shown] == expected
    state.add(*branches.rewind(state, "cp_a"), AT)
    assert len(branches.checkout_turns(state, "cp_c", "turn_end")) == 6
    assert state.turns.keys() == {turn["turn_id"] for turn in before["turns"]}


def test_what_if() -> None:
    state = build_state("a", "b")
    state.add(*branches.start_whatif(state, 1, ["quoted"], ["entry_a"]), AT)
    assert words(state) == ["a"]
    say(state, "c")
    assert words(state) == ["a", "c", "c!"]
    assert branches.find_deprecated(state) == {"entry_a"}
    state.add(*branches.switch_branch(state, "cp_b"), AT)
    assert branches.find_deprecated(state) == set()
    assert branches.start_whatif(state, 99, [], [])[1]["head"] == state.head


def test_a_step_takes_what_it_set_off_along() -> None:
    state = build_state("a")
    state.add("tool.called", {"turn_id": "turn_a!", "call": {"id": "c", "tool_name": "Agent"}}, AT)
    for name in ("x", "y"):
        turn = {"turn_id": name, "loop_id": "child", "parent_fork_tool_call_id": "c"}
        state.add("turn.opened", {"turn": turn}, AT)
    say(state, "b")
    assert branches.start_whatif(state, 2, [], [])[1]["head"] == "entry_y"


def test_what_is_not_there() -> None:
    state = build_state("a")
    for wrong in (
        lambda: branches.rewind(state, "cp_z"),
        lambda: branches.switch_branch(state, "cp_z"),
        lambda: branches.checkout_turns(state, "cp_z"),
        lambda: branches.start_whatif(state, -1, [], []),
        lambda: branches.start_whatif(state, 0, [], ["entry_z"]),
    ):
        with pytest.raises(LogError):
            wrong()


def test_a_checkpoint_without_a_turn() -> None:
    state = build_state("a")
    state.add("checkpoint.made", {"checkpoint_id": "cp", "label": "here"}, AT)
    say(state, "b")
    state.add(*branches.switch_branch(state, "cp"), AT)
    assert words(state) == ["a", "a!"]


@given(session_logs())
def test_nothing_is_deleted(build_state: SessionLog) -> None:
    opened = [
        entry.data["turn"]["turn_id"]
        for entry in build_state.entries
        if entry.kind == "turn.opened"
    ]
    nodes = branches.build_history(build_state.state)
    assert [node.turn_id for node in nodes] == opened
    known: set[str | None] = {None}
    for node in nodes:
        assert node.parent_id in known
        known.add(node.id)
    assert [node.id for node in nodes if node.active] == [
        turn.id for turn in build_state.state.branch()
    ]
    checkpoints, leaf = branches.list_checkpoints(build_state.state)
    assert leaf is None or leaf in {checkpoint.checkpoint_id for checkpoint in checkpoints}
    for checkpoint in checkpoints:
        before = branches.checkout_turns(build_state.state, checkpoint.checkpoint_id, "before")
        after = branches.checkout_turns(build_state.state, checkpoint.checkpoint_id, "turn_end")
        assert [turn.id for turn in after][: len(before)] == [turn.id for turn in before]
