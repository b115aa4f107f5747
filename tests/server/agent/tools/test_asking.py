"""AskUserQuestion: which questions are questions."""

from typing import Any

import pytest

from open_token.server.agent.tools.asking import AskUserQuestion, questions_of
from open_token.server.agent.tools.interface import ToolFault


def test_questions_are_made_whole() -> None:
    (question,) = questions_of({"questions": [{"question": "Q", "options": [{"label": "A"}], "odd": 1}]})
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
    with pytest.raises(ToolFault):
        questions_of(given)
