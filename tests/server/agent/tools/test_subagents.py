"""Agent: which tasks are tasks, and how deep they go."""

from typing import Any

import pytest

from open_token.server.agent.tools.interface import ToolFault
from open_token.server.agent.tools.subagents import DEEPEST, loop_of, prompt_of


def test_a_task_and_its_loop() -> None:
    assert prompt_of({"prompt": "look"}, 0) == "look"
    assert loop_of("c1") == loop_of("c1") != loop_of("c2")


@pytest.mark.parametrize(
    ("given", "depth"),
    [({}, 0), ({"prompt": " "}, 0), ({"prompt": 1}, 0), ({"prompt": "x"}, DEEPEST)],
)
def test_what_is_no_task(given: Any, depth: int) -> None:
    with pytest.raises(ToolFault):
        prompt_of(given, depth)
