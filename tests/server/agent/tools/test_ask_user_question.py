"""AskUserQuestion: which questions are questions."""

from typing import Any

import pytest

from open_token.server.agent.tools.ask_user_question import (
    AskUserQuestion,
    add_source_loop,
    is_valid_question,
    parse_questions,
)
from open_token.server.agent.tools.interface import ToolError


@pytest.mark.spec("ask-user-question", "type-question", "type-option")
def test_questions_are_made_whole() -> None:
    (question,) = parse_questions(
        {"questions": [{"question": "Q", "options": [{"label": "A"}], "odd": 1}]}
    )
    assert question["multiSelect"] is False
    assert question["odd"] == 1
    assert AskUserQuestion.spec.name == "AskUserQuestion"


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"questions": []},
        {"questions": "Q"},
        {"questions": ["Q"]},
        {"questions": [{}] * 11},
        {"questions": [{"question": 1}]},
    ],
)
def test_what_is_no_question(given: Any) -> None:
    with pytest.raises(ToolError):
        parse_questions(given)


@pytest.mark.parametrize(
    "given", ["", "{", "[]", "null", '"x"', '{"questions": []}', "[" * 100_000]
)
def test_arguments_that_ask_nothing(given: str) -> None:
    assert not is_valid_question(given)


def test_the_loop_that_asks_is_named() -> None:
    asked = '{"questions":[{"question":"Q","options":[]}]}'
    assert is_valid_question(asked)
    assert add_source_loop(asked, "loop_1") == asked[:-1] + ',"source_loop":"loop_1"}'
    assert is_valid_question(add_source_loop(asked, "loop_1"))
    assert [add_source_loop(odd, "loop_1") for odd in ("", "[]", "{")] == ["", "[]", "{"]
