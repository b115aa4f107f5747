"""How an exchange begins and ends in the log."""

from pathlib import Path
from typing import Any

import pytest

from open_token.server.agent.run_context import RunRequest
from open_token.server.bus.local import LocalBus
from open_token.server.clock import Clock
from open_token.server.config import ServerConfig
from open_token.server.core.chat_request import parse_chat_request
from open_token.server.core.exchanges import (
    NewExchange,
    build_order,
    find_open_questions,
)
from open_token.server.core.services import Services
from open_token.server.errors import ApiError
from open_token.session import SessionState, actions

AT = "2026-01-01T00:00:00.000Z"


def waiting(*questions: dict[str, Any]) -> SessionState:
    state = SessionState("sess_1")
    call = {"id": "c1", "tool_name": "AskUserQuestion"}
    for kind, data in [
        ("session.created", {"session": {"intent": "named", "model": "m"}}),
        ("turn.opened", {"turn": {"turn_id": "t1", "role": "assistant"}}),
        ("tool.called", {"turn_id": "t1", "call": call}),
    ]:
        state.add(kind, data, AT)
    for kind, data in actions.ask_question(state, "t1", "c1", list(questions)):
        state.add(kind, data, AT)
    state.add("turn.ended", {"turn_id": "t1", "status": "paused"}, AT)
    return state


def begun(state: SessionState, message_id: str | None = None, **sent: Any) -> list[tuple[str, Any]]:
    services = Services(ServerConfig(data=Path("x")), None, LocalBus(), Clock(), None, {})  # type: ignore[arg-type]
    begins = NewExchange(
        services,
        parse_chat_request({"session_id": "sess_1", **sent}),
        RunRequest(model="demo"),
        message_id,
    )
    made = []
    for kind, data in begins.steps(state):
        state.add(kind, data, AT)
        made.append((kind, data))
    return made


ONE = {"question": "Q", "options": [{"label": "A"}]}


@pytest.mark.parametrize(
    ("questions", "sent", "message_id", "is_answer"),
    [
        ([ONE], {"message": "words"}, None, True),
        ([ONE], {"message": "words"}, "msg_1", False),
        ([ONE, ONE], {"message": "words"}, None, False),
        ([ONE], {"message": [{"type": "text", "text": "words"}]}, None, False),
        ([ONE], {"askuser_answer": {"selections": {"0": [0]}}}, None, True),
        ([ONE], {"message": "beside", "askuser_answer": {"selections": {"0": [0]}}}, None, True),
    ],
)
def test_words_and_questions(
    questions: Any, sent: Any, message_id: str | None, is_answer: bool
) -> None:
    state = waiting(*questions)
    kinds = [kind for kind, _ in begun(state, message_id, **sent)]
    assert ("question.answered" in kinds) == is_answer
    assert find_open_questions(state) == []
    turn = state.path[-1].snapshot()
    expected = ["ask_user_answer"] * is_answer + ["text"] * (
        not is_answer or "beside" in sent.values()
    )
    assert [block.type for block in turn.blocks] == expected
    assert state.turn("t1").tool_calls[0].status == ("done" if is_answer else "cancelled")


def test_an_answer_to_nothing_is_refused() -> None:
    state = waiting(ONE)
    with pytest.raises(ApiError):
        begun(state, askuser_answer={"tool_call_id": "other", "answer": "x"})


def test_the_model_is_the_messages_the_sessions_or_the_servers() -> None:
    state = waiting(ONE)
    said = {"session_id": "s", "message": "x"}
    assert (
        build_order(parse_chat_request({**said, "model": "own"}), state, default="d").model == "own"
    )
    assert build_order(parse_chat_request(said), state, default="d").model == "m"
    assert build_order(parse_chat_request(said), SessionState("s"), default="d").model == "d"
