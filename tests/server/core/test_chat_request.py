"""What clients send with chat:send: every wrong shape is refused with its place and without its
content."""

from typing import Any

import pytest

from open_token.model.agent_settings import dump_settings
from open_token.server.core.chat_request import Answer, parse_chat_request, validate_answer
from open_token.server.errors import ApiError

GOOD: dict[str, Any] = {"session_id": "sess_1", "message": "hi"}


@pytest.mark.spec("chat-send-fields")
def test_a_whole_message() -> None:
    sent = parse_chat_request(
        {
            "session_id": "s",
            "message": [
                {"type": "text", "text": "a"},
                {"type": "image_url", "image_url": {"url": "https://x"}},
            ],
            "mode": "planning",
            "model": None,
            "headless": True,
            "output_schema": {"type": "object"},
            "whatif": {"from_step": 2},
            "replay_decision": "keep",
            "runtime_env": {"A": "b"},
            "client_message_id": "m",
            "compaction_ratio": 0.5,
            "thinking_override": False,
            "settings": {"temperature": 1, "compaction_ratio": 0.9},
            "app_context": {"page": 3},
        }
    )
    assert (sent.text, sent.mode, sent.headless, sent.whatif and sent.whatif.from_step) == (
        "a",
        "planning",
        True,
        2,
    )
    assert dump_settings(sent.settings) == {
        "temperature": 1.0,
        "compaction_ratio": 0.5,
        "thinking": False,
    }
    assert sent.app_context == {"page": 3}


@pytest.mark.spec("chat-send-fields", "type-mode")
@pytest.mark.parametrize(
    "payload",
    [
        None,
        [],
        "secret",
        {},
        {"session_id": 3, "message": "secret"},
        {"session_id": "s"},
        {**GOOD, "message": " \n"},
        {**GOOD, "message": []},
        {**GOOD, "message": {"secret": 1}},
        {**GOOD, "message": ["secret"]},
        {**GOOD, "message": [{"type": "secret"}]},
        {**GOOD, "message": [{"type": "text"}]},
        {**GOOD, "message": [{"type": "image_url", "image_url": {"url": "file:///secret"}}]},
        {**GOOD, "message": [{"type": "file", "file": 3}]},
        {**GOOD, "message": [{"type": "text", "text": "x"}] * 300},
        {**GOOD, "mode": "secret"},
        {**GOOD, "unknown": "secret"},
        {**GOOD, "more": {}},
        {**GOOD, "settings": {"temperature": "secret"}},
        {**GOOD, "settings": {"unknown": "secret"}},
        {**GOOD, "compaction_ratio": 2},
        {**GOOD, "tool_results": [{"result": "secret"}]},
        {**GOOD, "tool_results": [{"tool_call_id": "c"}], "askuser_answer": {"answer": "x"}},
        {**GOOD, "headless": "yes"},
        {**GOOD, "output_schema": "secret"},
        {**GOOD, "output_schema": {"type": "secret"}},
        {**GOOD, "whatif": {"from_step": -1}},
        {**GOOD, "whatif": {}},
        {**GOOD, "whatif": {"from_step": 0}, "askuser_answer": {"answer": "x"}},
        {**GOOD, "runtime_env": {"A": 1}},
        {**GOOD, "runtime_env": {"A=B": "x"}},
        {**GOOD, "runtime_env": {"A": "\0"}},
        {**GOOD, "client_message_id": ""},
        {**GOOD, "client_message_id": "x" * 201},
        {**GOOD, "askuser_answer": {"selections": {"0": ["secret"]}}},
        {**GOOD, "askuser_answer": "secret"},
    ],
)
def test_what_does_not_fit_is_refused(payload: Any) -> None:
    with pytest.raises(ApiError) as refused:
        parse_chat_request(payload)
    assert refused.value.status == 422
    assert "secret" not in refused.value.detail


@pytest.mark.spec("ask-user-answer")
def test_an_answer_fits_its_questions() -> None:
    questions = [
        {"options": [{"label": "A"}, {"label": "B"}], "multiSelect": True},
        {"options": []},
    ]
    good = Answer(selections={"0": [0, 1]}, custom={"1": "words"})
    assert validate_answer(good, questions) == {
        "selections": {"0": [0, 1]},
        "custom": {"1": "words"},
    }
    assert validate_answer(Answer(answer="x"), questions) == {"answer": "x"}
    with pytest.raises(ApiError):
        validate_answer(Answer(selections={"0": [0]}), questions)
