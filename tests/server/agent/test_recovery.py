"""What is under way after a crash is brought to where the loop goes on; `test_runs` does it with
real crashes."""

from typing import Any

from helpers.server.agent_session import FakeTool
from open_token.server.agent.runner import recover_run
from open_token.session import SessionState


class Hands:
    def __init__(self) -> None:
        self.tools = {
            "Safe": FakeTool("Safe", lambda _: 1),
            "Once": FakeTool("Once", lambda _: 1, is_idempotent=False),
        }


def steps(*given: Any) -> list[Any]:
    state = SessionState("sess_1")
    opened = ("turn.opened", {"turn": {"turn_id": "t", "role": "assistant"}})
    for kind, data in [("session.created", {"session": {}}), opened, *given]:
        state.add(kind, data, "2026-01-01T00:00:00.000Z")
    return list(recover_run(Hands(), state))  # type: ignore[arg-type]


def call(name: str, tool: str) -> Any:
    return "tool.called", {"turn_id": "t", "call": {"id": name, "tool_name": tool}}


COUNTED = ("usage.counted", {"turn_id": "t", "usage": {"input_tokens": 1}})


def test_an_answer_that_was_not_complete_is_closed() -> None:
    made = steps(("text.delta", {"turn_id": "t", "text": "half"}), call("c", "Once"))
    assert [(kind, data["status"]) for kind, data in made] == [
        ("tool.status", "cancelled"),
        ("turn.status", "interrupted"),
        ("turn.ended", "interrupted"),
    ]


def test_only_the_call_under_way_is_answered_for() -> None:
    assert steps(call("c1", "Safe"), call("c2", "Once"), COUNTED) == []
    (kind, data), *rest = steps(call("c1", "Once"), call("c2", "Once"), COUNTED)
    assert (kind, data["tool_call_id"], data["status"], rest) == ("tool.result", "c1", "error", [])
    assert steps(call("c1", "Unknown"), COUNTED) == []
    assert steps(COUNTED, ("turn.ended", {"turn_id": "t"})) == []
