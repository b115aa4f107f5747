"""Steps of several entries: messages, questions that bubble up, answers in both shapes, and
stopping."""

from typing import Any

import pytest

from open_token.model.log_events import LogError, NewEvent, QuestionAsked
from open_token.session import SessionState, actions, to_stream_item

AT = "2026-01-01T00:00:00Z"
QUESTIONS = [
    {"question": "Which?", "options": [{"label": "A"}, {"label": "B"}]},
    {"question": "Why?"},
]


def opened(name: str, call: str | None = None, status: str = "streaming") -> NewEvent:
    turn = {"turn_id": name, "loop_id": f"loop_{name}" if call else "root", "status": status}
    return "turn.opened", {"turn": turn | ({"parent_fork_tool_call_id": call} if call else {})}


def called(turn: str, name: str) -> NewEvent:
    return "tool.called", {"turn_id": turn, "call": {"id": name, "tool_name": "Agent"}}


def put(state: SessionState, *made: NewEvent) -> list[Any]:
    return [to_stream_item(state.add(kind, data, AT), state) for kind, data in made]


def asked() -> SessionState:
    """A subagent of a subagent asks."""
    state = SessionState("s")
    put(
        state,
        ("run.started", {"run_id": "r"}),
        opened("a"),
        called("a", "1"),
        opened("b", "1"),
        called("b", "2"),
    )
    put(state, opened("c", "2"), called("c", "3"))
    put(state, *actions.ask_question(state, "c", "3", QUESTIONS))
    put(state, *(("turn.ended", {"turn_id": name, "status": "paused"}) for name in "cba"))
    put(state, ("run.ended", {"run_id": "r"}))
    return state


def calls(state: SessionState) -> dict[str, tuple[str, Any]]:
    made = [call for turn in state.branch() for call in turn.tool_calls]
    return {call.id: (call.status, call.pending_question_ref) for call in made}


def test_a_question_bubbles_up() -> None:
    state = asked()
    assert state.session.status == "waiting_for_input"
    assert list(state.questions) == ["3"]
    assert {name: status for name, (status, _) in calls(state).items()} == dict.fromkeys(
        "123", "awaiting_answer"
    )
    for name in "12":
        ref = calls(state)[name][1]
        assert (ref.child_loop_name, ref.child_tool_call_id, ref.description) == (
            "loop_c",
            "3",
            "Which?",
        )
    assert calls(state)["3"][1] is None


def test_an_answer_lets_all_go_on() -> None:
    state = asked()
    put(state, *actions.answer_question(state, "3", {"answers": ["A"]}))
    assert calls(state) == dict.fromkeys("123", ("pending", None))
    assert state.questions == {}
    with pytest.raises(LogError):
        actions.answer_question(state, "3", {})


def test_a_question_that_nobody_will_answer() -> None:
    state = asked()
    put(state, *actions.withdraw_question(state, "3"))
    assert calls(state) == dict.fromkeys("123", ("cancelled", None))
    assert {turn.status for turn in state.branch()} == {"interrupted"}
    assert state.questions == {}


def test_a_question_on_a_branch_that_was_left_does_not_wait() -> None:
    state = asked()
    put(state, ("branch.moved", {"head": None, "reason": "rewind"}))
    assert state.session.status == "completed"


@pytest.mark.parametrize(
    ("given", "answers"),
    [
        ({"selections": {"0": [1]}, "custom": {"1": "because"}}, ["B", "because"]),
        ({"selections": {"0": [0, 1]}}, ["A, B", ""]),
        ({"selections": {"0": 1}}, ["B", ""]),
        ({"prompt_id": "p", "answer": "free"}, ["free", ""]),
        ({"selections": {"0": [7, -1, "x", True]}, "custom": 5}, ["", ""]),
        ({"selections": []}, ["", ""]),
        ({}, ["", ""]),
    ],
)
def test_answers_in_words(given: dict[str, Any], answers: list[str]) -> None:
    question = QuestionAsked(turn_id="t", tool_call_id="c", questions=QUESTIONS)
    assert actions.normalize_answer(question, given)["answers"] == answers


@pytest.mark.spec("turn-events")
def test_stopping_keeps_what_was_said() -> None:
    state = SessionState("s")
    put(
        state,
        ("run.started", {"run_id": "r"}),
        opened("a"),
        ("text.delta", {"turn_id": "a", "text": "half a w"}),
    )
    put(state, called("a", "1"), opened("b", "1"), called("b", "2"))
    result = put(state, *actions.interrupt_run(state))
    assert [item["type"] for item in result] == [
        *["turn:patch", "turn:patch", "turn:end"] * 2,
        "chat:end",
    ]
    assert result[1]["payload"]["patch_type"] == "set_status"
    assert result[1]["payload"]["data"] == {"status": "interrupted"}
    assert [turn.status for turn in state.branch()] == ["interrupted", "interrupted"]
    assert state.turn("a").blocks[0].content == "half a w"
    assert {status for status, _ in calls(state).values()} == {"cancelled"}
    assert (state.session.status, state.run) == ("interrupted", None)
    assert actions.interrupt_run(state) == []


@pytest.mark.spec("turn-events")
def test_failing_says_why() -> None:
    state = SessionState("s")
    put(state, ("run.started", {"run_id": "r"}), opened("a"))
    result = put(state, *actions.interrupt_run(state, status="failed", reason="overloaded"))
    assert state.turn("a").failure_reason == "overloaded"
    assert result[0]["payload"]["data"] == {"status": "failed", "failure_reason": "overloaded"}
    assert result[-1]["payload"]["result"] == {"err_msg": "overloaded"}
    assert state.session.status == "failed"


def test_messages_become_blocks() -> None:
    assert [block.content for block in actions.build_text_blocks("words")] == ["words"]
    texts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert [block.content for block in actions.build_text_blocks(texts)] == ["a", "b"]
    mixed = [*texts, {"type": "image_url", "image_url": {"url": "u"}}]
    blocks = actions.build_text_blocks(mixed)
    assert [block.content for block in blocks] == ["a", "b", "[image]"]
    assert blocks[-1].more == {"parts": [mixed[-1]]}
    files = [{"type": "file", "name": "a.csv"}, {"type": "file", "file": "b"}, 5, {"type": "text"}]
    texts = [block.content for block in actions.build_text_blocks(files)]
    assert texts == ["[file: a.csv]", "[file: b]", "[data]", "[text]"]


def test_a_message_is_a_turn_that_is_over() -> None:
    state = SessionState("s")
    made = actions.send_user_message(
        "t",
        actions.build_text_blocks("hi"),
        checkpoint_id="cp",
        client_message_id="m",
        quotes=["q"],
    )
    result = put(state, *made)
    assert [item["type"] for item in result if item] == ["turn:start", "turn:end"]
    assert state.sent == {"m": "t"}
    assert state.turns["t"].checkpoint_id == "cp"
    assert state.turn("t").more == {"quotes": ["q"]}


def test_a_question_of_nobody() -> None:
    with pytest.raises(LogError):
        actions.ask_question(SessionState("s"), "t", "c", [])
