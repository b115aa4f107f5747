"""What the settings of an agent do in a run: approvals, tools of the client, budgets, limits."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.server.agent_session import (
    AgentSession,
    FakeTool,
    ScriptedModel,
    build_call_pieces,
    open_agent_session,
    run,
)
from open_token.model.agent_settings import AgentSettings, ApprovalRule
from open_token.server.core import profiles
from open_token.server.errors import ApiError

Fakes = Callable[..., None]


async def change_settings(room: AgentSession, settings: dict[str, Any]) -> None:
    await profiles.change_agent(room.services, room.caller.user.id, room.id, None, settings)


def last_call(room: AgentSession) -> dict[str, Any]:
    calls = [call for turn in room.turns() for call in turn["tool_calls"]]
    return dict(calls[-1])


def test_the_first_rule_that_matches_decides() -> None:
    settings = AgentSettings(
        approvals=[
            ApprovalRule(tool="Bash", action="deny", arguments={"command": "rm *"}),
            ApprovalRule(tool="Bash", action="allow", arguments={"command": "ls*"}),
            ApprovalRule(tool="mcp__*", action="ask"),
            ApprovalRule(tool="Bash", action="ask"),
        ]
    )
    assert settings.decide("Bash", {"command": "rm -r ."}) == "deny"
    assert settings.decide("Bash", {"command": "ls -l"}) == "allow"
    assert settings.decide("Bash", {"command": 5}) == "ask"
    assert settings.decide("Bash", {}) == "ask"
    assert settings.decide("mcp__x__y", {"a": [1]}) == "ask"
    assert settings.decide("Read", {}) == "allow"


@pytest.mark.spec("tool-approvals")
@pytest.mark.parametrize(
    ("answer", "status", "runs"),
    [
        ({"askuser_answer": {"selections": {"0": [0]}}}, "done", 1),
        ({"askuser_answer": {"selections": {"0": [2]}}}, "error", 0),
        ({"message": "yes"}, "done", 1),
        ({"message": "use another file"}, "error", 0),
    ],
)
def test_a_call_waits_for_an_approval(
    tmp_path: Path, fakes: Fakes, answer: Any, status: str, runs: int
) -> None:
    async def scenario() -> None:
        tool = FakeTool("One", lambda _: "ran")
        model = ScriptedModel(build_call_pieces("One", "c1", '{"x": 1}'), "end")
        fakes(model, tool)
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await change_settings(room, {"approvals": [{"tool": "O*", "action": "ask"}]})
            await room.send("go")
            waiting = last_call(room)
            assert (waiting["status"], tool.called) == ("awaiting_answer", [])
            reference = waiting["pending_question_ref"]
            assert reference["child_tool_call_id"] == "c1"
            assert reference["kind"] == "approval"
            assert [option["label"] for option in reference["questions"][0]["options"]] == [
                "Allow",
                "Allow always in this session",
                "Deny",
            ]
            assert room.mirror.session["status"] == "waiting_for_input"
            await room.check()
            await room.send(**answer)
            answered = last_call(room)
            assert (answered["status"], len(tool.called)) == (status, runs)
            assert answered["pending_question_ref"] is None
            if status == "error":
                denial = answered["result"]["error"]
                assert denial.startswith("the user denied this call")
                assert answer.get("message", "") in denial
            assert room.texts()[-1] == "end"
            await room.check()

    run(scenario())


@pytest.mark.spec("tool-approvals")
def test_an_approval_for_the_session_asks_once(tmp_path: Path, fakes: Fakes) -> None:
    async def scenario() -> None:
        tool = FakeTool("One", lambda _: "ran")
        calls = [build_call_pieces("One", f"c{number}") for number in range(3)]
        fakes(ScriptedModel(calls[0], calls[1], "end", calls[2], "end"), tool)
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            rules = {"approvals": [{"tool": "One", "action": "ask"}]}
            await change_settings(room, rules)
            await room.send("go")
            await room.send(askuser_answer={"tool_call_id": "c0", "selections": {"0": [1]}})
            assert len(tool.called) == 2
            # Changed settings ask again.
            await change_settings(room, {**rules, "max_turns": 7})
            await room.send("again")
            assert last_call(room)["status"] == "awaiting_answer"
            await room.check()

    run(scenario())


@pytest.mark.spec("tool-approvals")
def test_what_is_denied_or_cannot_be_asked_does_not_run(tmp_path: Path, fakes: Fakes) -> None:
    async def scenario() -> None:
        tool = FakeTool("One", lambda _: "ran")
        fakes(ScriptedModel(build_call_pieces("One"), "end", build_call_pieces("One"), "e"), tool)
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await change_settings(room, {"approvals": [{"tool": "*", "action": "deny"}]})
            await room.send("go")
            assert "denies" in last_call(room)["result"]["error"]
            await change_settings(room, {"approvals": [{"tool": "*", "action": "ask"}]})
            await room.send("go", headless=True)
            assert "nobody to ask" in last_call(room)["result"]["error"]
            assert tool.called == []

    run(scenario())


@pytest.mark.spec("client-tools")
def test_the_client_executes_its_tools(tmp_path: Path, fakes: Fakes) -> None:
    async def scenario() -> None:
        both = build_call_pieces("look", "c1", '{"x": 1}') + build_call_pieces("look", "c2")
        model = ScriptedModel(both, "end")
        fakes(model)
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await change_settings(room, {"client_tools": [{"name": "look"}]})
            await room.send("go")
            assert "look" in [spec.name for spec in model.requests[0].tools]
            calls = room.turns()[-1]["tool_calls"]
            assert [call["status"] for call in calls] == ["awaiting_answer"] * 2
            assert calls[0]["pending_question_ref"]["kind"] == "client_tool"
            with pytest.raises(ApiError):
                await room.send(tool_results=[{"tool_call_id": "c9", "result": 1}])
            await room.send(tool_results=[{"tool_call_id": "c1", "result": {"found": 3}}])
            assert len(model.requests) == 1
            assert room.mirror.session["status"] == "waiting_for_input"
            failed = {"tool_call_id": "c2", "result": "gone", "is_error": True}
            await room.send("and go on", tool_results=[failed])
            results = [part for m in model.requests[1].messages for part in m.parts]
            found = [(r.call_id, r.content, r.is_error) for r in results if hasattr(r, "call_id")]
            assert found == [("c1", {"found": 3}, False), ("c2", "gone", True)]
            assert room.texts()[-2:] == ["and go on", "end"]
            blocks = [block for turn in room.turns() for block in turn["blocks"]]
            shown = [block for block in blocks if block["type"] == "tool_result"]
            assert [block["tool_call_id"] for block in shown] == ["c1", "c2"]
            await room.check()

    run(scenario())


@pytest.mark.spec("client-tools")
def test_a_message_withdraws_the_calls_that_wait(tmp_path: Path, fakes: Fakes) -> None:
    async def scenario() -> None:
        fakes(ScriptedModel(build_call_pieces("look", "c1"), "end"))
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await change_settings(room, {"client_tools": [{"name": "look"}]})
            await room.send("go")
            await room.send("never mind")
            assert room.turns()[1]["tool_calls"][0]["status"] == "cancelled"
            assert room.texts()[-1] == "end"
            await room.check()

    run(scenario())


@pytest.mark.spec("agent-settings")
def test_settings_reach_the_model_and_a_message_overrides_them(
    tmp_path: Path, fakes: Fakes
) -> None:
    async def scenario() -> None:
        model = ScriptedModel("one", "two")
        fakes(model, FakeTool("One", lambda _: 1), FakeTool("Two", lambda _: 2))
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            changes = {"instructions": "Speak as a pirate.", "temperature": 0.3, "tools": ["T*"]}
            await change_settings(room, changes)
            await room.send("go")
            await room.send("go", settings={"temperature": 1, "max_output_tokens": 9})
            first, second = model.requests
            assert first.messages[0].parts[0].text == "Speak as a pirate."
            assert first.settings.temperature == 0.3
            assert [spec.name for spec in first.tools] == ["Two"]
            assert (second.settings.temperature, second.settings.max_output_tokens) == (1.0, 9)

    run(scenario())


@pytest.mark.spec("agent-settings")
def test_a_budget_in_tokens_and_a_limit_of_turns(tmp_path: Path, fakes: Fakes) -> None:
    async def scenario() -> None:
        calls = [build_call_pieces("One", f"c{number}") for number in range(9)]
        fakes(ScriptedModel(*calls), FakeTool("One", lambda _: 1))
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await change_settings(room, {"max_turns": 1})
            await room.send("go")
            assert room.mirror.ended["finish_reason"] == "max_turns"
            await change_settings(room, {"max_turns": None, "budget": {"tokens": 40}})
            await room.send("go")
            assert room.mirror.ended["finish_reason"] == "budget"
            used = [turn["usage"] for turn in room.turns() if turn["usage"]]
            assert len(used) == 3

    run(scenario())
