"""Agent: which tasks are tasks, and how deep they go."""

from typing import Any

import pytest

from open_token.server.agent.tools.interface import ToolError
from open_token.server.agent.tools.subagent import MAX_DEPTH, get_loop_id, parse_prompt


def test_a_task_and_its_loop() -> None:
    assert parse_prompt({"prompt": "look"}, 0) == "look"
    assert get_loop_id("c1") == get_loop_id("c1") != get_loop_id("c2")


@pytest.mark.parametrize(
    ("given", "depth"),
    [({}, 0), ({"prompt": " "}, 0), ({"prompt": 1}, 0), ({"prompt": "x"}, MAX_DEPTH)],
)
def test_what_is_no_task(given: Any, depth: int) -> None:
    with pytest.raises(ToolError):
        parse_prompt(given, depth)
