"""The agent's loop as a client sees it: turns, calls, subagents, planning, limits."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.server.agent_session import (
    FakeTool,
    ScriptedModel,
    build_call_pieces,
    open_agent_session,
    run,
)
from open_token.server.agent.model_interface import ModelError, UsagePiece
from open_token.server.agent.tool_calls import NOT_WHILE_PLANNING
from open_token.server.store.interface import ConflictError
from open_token.server.store.rows import NewMemory

Fakes = Callable[..., None]


@pytest.mark.spec("turn-boundaries")
def test_calls_of_one_turn_run_in_order_and_the_next_turn_sees_them(
    tmp_path: Path, fakes: Fakes
) -> None:
    async def scenario() -> None:
        order: list[str] = []
        one = FakeTool("One", lambda _: order.append("one") or {"files": ["a"]})
        two = FakeTool("Two", lambda _: order.append("two") or "text")
        model = ScriptedModel(
            [
                "I look. ",
                *build_call_pieces("One", "c1", '{"x": 1}'),
                *build_call_pieces("Two", "c2", ""),
            ],
            "seen",
        )
        fakes(model, one, two)
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.send("go")
            assert order == ["one", "two"]
            assert one.called == [{"x": 1}]
            first, last = room.turns()[1:]
            assert [(c["status"], c["result"], c["display_name"]) for c in first["tool_calls"]] == [
                ("done", {"files": ["a"]}, "One!"),
                ("done", "text", "Two!"),
            ]
            assert first["usage"] == {"input_tokens": 10, "output_tokens": 5}
            assert [block["type"] for block in first["blocks"]] == ["text", "tool_use", "tool_use"]
            assert last["status"] == "completed"
            tool = model.requests[1].messages[-1]
            assert (tool.role, [part.content for part in tool.parts]) == (
                "tool",
                [{"files": ["a"]}, "text"],
            )
            await room.check()

    run(scenario())


def test_calls_that_change_nothing_run_at_the_same_time(tmp_path: Path, fakes: Fakes) -> None:
    async def scenario() -> None:
        meeting = asyncio.Barrier(2)
        order: list[str] = []

        async def read(arguments: dict[str, Any]) -> str:
            # Alone, a call would wait for ever.
            async with asyncio.timeout(30):
                await meeting.wait()
            order.append("read")
            return str(arguments["x"])

        def change(_: dict[str, Any]) -> str:
            order.append("change")
            return "changed"

        reading = FakeTool("Read1", read, is_read_only=True)
        changing = FakeTool("Change", change)
        model = ScriptedModel(
            [
                *build_call_pieces("Read1", "c1", '{"x": 1}'),
                *build_call_pieces("Read1", "c2", '{"x": 2}'),
                *build_call_pieces("Change", "c3"),
                *build_call_pieces("Read1", "c4", '{"x": 4}'),
                *build_call_pieces("Read1", "c5", '{"x": 5}'),
            ],
            "seen",
        )
        fakes(model, reading, changing)
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.send("go")
            assert order == ["read", "read", "change", "read", "read"]
            results = [call["result"] for call in room.turns()[1]["tool_calls"]]
            assert results == ["1", "2", "changed", "4", "5"]
            parts = model.requests[1].messages[-1].parts
            assert [part.content for part in parts] == results
            await room.check()

    run(scenario())


def test_an_id_that_is_taken_gets_another(tmp_path: Path, fakes: Fakes) -> None:
    async def scenario() -> None:
        fakes(
            ScriptedModel(build_call_pieces("One", "c"), build_call_pieces("One", "c"), "end"),
            FakeTool("One", lambda _: 1),
        )
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.send("go")
            names = [call["id"] for turn in room.turns() for call in turn["tool_calls"]]
            assert len(set(names)) == 2
            await room.check()

    run(scenario())


@pytest.mark.spec("chat-end", "early-end")
def test_turns_have_an_end(tmp_path: Path, fakes: Fakes) -> None:
    async def scenario() -> None:
        fakes(
            ScriptedModel(*(build_call_pieces("One", f"c{n}") for n in range(9))),
            FakeTool("One", lambda _: 1),
        )
        async with open_agent_session(tmp_path, max_turns=3) as opened:
            room = await opened()
            await room.send("go")
            assert len(room.turns()) == 5
            last = room.turns()[-1]
            assert (last["role"], last["status"], last["finish_reason"]) == (
                "system",
                "completed",
                "max_turns",
            )
            assert last["blocks"][0]["type"] == "system_notification"
            assert room.mirror.ended
            assert room.mirror.ended["finish_reason"] == "max_turns"
            assert room.mirror.ended["status"] == "completed"

    run(scenario())


@pytest.mark.spec("subagent-turns")
def test_a_subagent_has_a_loop_of_its_own(tmp_path: Path, fakes: Fakes) -> None:
    async def scenario() -> None:
        model = ScriptedModel(
            build_call_pieces("Agent", "c1", '{"prompt": "look"}'),
            build_call_pieces("One", "c2"),
            "child done",
            "parent done",
        )
        fakes(model, FakeTool("One", lambda _: "found"))
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.send("go")
            loops = [
                (turn["loop_id"], turn["role"], turn["parent_fork_tool_call_id"])
                for turn in room.turns()
            ]
            child = "loop_c1"
            assert loops == [
                ("root", "user", None),
                ("root", "assistant", None),
                (child, "user", "c1"),
                (child, "assistant", "c1"),
                (child, "assistant", "c1"),
                ("root", "assistant", None),
            ]
            assert room.turns()[1]["tool_calls"][0]["result"] == "child done"
            assert [request.depth for request in model.requests] == [0, 1, 1, 0]
            said = [part for message in model.requests[1].messages for part in message.parts]
            assert [getattr(part, "text", "") for part in said][1:] == ["look"]
            await room.check()

    run(scenario())


def test_agents_go_only_so_deep(tmp_path: Path, fakes: Fakes) -> None:
    async def scenario() -> None:
        deeper = [build_call_pieces("Agent", f"c{n}", '{"prompt": "deeper"}') for n in range(4)]
        model = ScriptedModel(*deeper, "d3", "d2", "d1", "d0")
        fakes(model)
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.send("go")
            assert "depth" in room.turns()[7]["tool_calls"][0]["result"]["error"]
            assert "Agent" not in {spec.name for spec in model.requests[3].tools}
            assert room.texts()[-1] == "d0"

    run(scenario())


@pytest.mark.spec("subagent-turns")
def test_a_childs_question_shows_on_the_parents_call(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.send("subagent ask")
            parent, child = room.turns()[1], room.turns()[3]
            ref = parent["tool_calls"][0]["pending_question_ref"]
            assert ref["child_tool_call_id"] == child["tool_calls"][0]["id"]
            assert ref["child_loop_name"] == child["loop_id"]
            assert [turn["status"] for turn in (parent, child)] == ["paused", "paused"]
            assert (
                json.loads(child["tool_calls"][0]["arguments"])["source_loop"] == child["loop_id"]
            )
            await room.send("the left one")
            assert "the left one" in room.texts()[-1]
            assert room.turns()[1]["tool_calls"][0]["pending_question_ref"] is None
            assert {turn["status"] for turn in room.turns()} == {"completed"}
            await room.check()

    run(scenario())


def test_a_child_that_fails_is_a_result(tmp_path: Path, fakes: Fakes) -> None:
    async def scenario() -> None:
        fakes(
            ScriptedModel(
                build_call_pieces("Agent", "c1", '{"prompt": "p"}'),
                [ModelError("no key", "auth")],
                "so be it",
            )
        )
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.send("go")
            assert room.mirror.session["status"] == "completed"
            assert room.turns()[1]["tool_calls"][0]["result"] == {
                "error": "the subagent failed: no key"
            }
            await room.check()

    run(scenario())


def test_two_questions_of_one_turn_come_one_after_the_other(tmp_path: Path, fakes: Fakes) -> None:
    async def scenario() -> None:
        ask = '{"questions": [{"question": "Q", "options": [{"label": "A"}]}]}'
        tool = FakeTool("One", lambda _: 1)
        model = ScriptedModel(
            [
                *build_call_pieces("AskUserQuestion", "c1", ask),
                *build_call_pieces("One", "c2"),
                *build_call_pieces("AskUserQuestion", "c3", ask),
            ],
            "end",
        )
        fakes(model, tool)
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.send("go")
            assert tool.called == []
            await room.send(askuser_answer={"tool_call_id": "c1", "selections": {"0": [0]}})
            assert room.mirror.session["status"] == "waiting_for_input"
            assert len(tool.called) == 1
            await room.send(askuser_answer={"tool_call_id": "c3", "custom": {"0": "B"}})
            assert room.texts()[-1] == "end"
            results = [part.content for part in model.requests[-1].messages[3].parts]
            assert [result["answers"][0]["answer"] for result in (results[0], results[2])] == [
                "A",
                "B",
            ]
            await room.check()

    run(scenario())


@pytest.mark.spec("planning-mode", "type-mode", "type-plan-status")
def test_planning_runs_no_tool_and_ends_with_a_plan(tmp_path: Path, fakes: Fakes) -> None:
    async def scenario() -> None:
        look = FakeTool("Look", lambda _: "there")
        child = build_call_pieces("Agent", "c2", '{"prompt": "look"}')
        model = ScriptedModel(
            [*build_call_pieces("Look", "c1"), *child],
            "1. Do it",
            "2. Do that",
            build_call_pieces("Look", "c3"),
            "done",
        )
        fakes(model, look)
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.send("how?", mode="planning")
            assert look.called == []
            assert [spec.name for spec in model.requests[0].tools] == ["AskUserQuestion"]
            first, plan = room.turns()[1:]
            assert [call["result"] for call in first["tool_calls"]] == [
                {"error": NOT_WHILE_PLANNING}
            ] * 2
            assert [b["type"] for b in first["blocks"]][:3] == [
                "mode_change",
                "planning_enter",
                "plan_status",
            ]
            assert plan["blocks"][-1]["content"] == {"status": "ready", "plan": "1. Do it"}
            await room.send("rather not", mode="planning")
            other = [
                block["content"]
                for block in room.turns()[-1]["blocks"]
                if block["type"] == "plan_status"
            ]
            assert [(block["status"], block["plan"]) for block in other] == [
                ("rejected", "1. Do it"),
                ("drafting", ""),
                ("ready", "2. Do that"),
            ]
            await room.send("do it", mode="executing")
            shown = room.turns()[6]["blocks"]
            assert [block["type"] for block in shown][:3] == [
                "mode_change",
                "planning_exit",
                "plan_status",
            ]
            assert shown[2]["content"] == {"status": "approved", "plan": "2. Do that"}
            assert len(look.called) == 1
            await room.send("again", mode="planning")
            await room.send("never mind", mode="executing")
            await room.check()

    run(scenario())


@pytest.mark.spec("memory-injected-event", "type-memory-ref")
def test_memories_are_given_and_reported(tmp_path: Path, fakes: Fakes) -> None:
    async def scenario() -> None:
        model = ScriptedModel("a", "b")
        fakes(model)
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            store, owner = room.services.store, room.caller.user.id
            new = NewMemory(
                content="Anna drinks tea", type="feedback", created_at=room.services.clock.now()
            )
            row = await store.add_memory(owner, new)
            await room.send("what does Anna drink: tea?")
            assert "memory:inject:done" in room.names()
            assert [ref["id"] for ref in room.turns()[1]["memory_refs"]] == [row.id]
            assert "Anna drinks tea" in model.requests[0].messages[0].parts[0].text
            silent = await opened(memory_enabled=False)
            await silent.send("tea for Anna?")
            assert "Anna" not in model.requests[1].messages[0].parts[0].text
            await room.check()

    run(scenario())


def test_memories_are_reported_also_when_another_node_wrote_first(
    tmp_path: Path, fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        fakes(ScriptedModel(build_call_pieces("One"), "a"), FakeTool("One", lambda _: 1))
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            store, owner = room.services.store, room.caller.user.id
            new = NewMemory(
                content="Anna drinks tea", type="feedback", created_at=room.services.clock.now()
            )
            row = await store.add_memory(owner, new)
            append, refused = store.append, []

            async def first(step: Any) -> Any:
                if not refused and any(entry.kind == "memory.recalled" for entry in step.entries):
                    refused.append(step)
                    raise ConflictError("another was first")
                return await append(step)

            monkeypatch.setattr(store, "append", first)
            await room.send("tea for Anna?")
            assert refused
            refs = [turn["memory_refs"] for turn in room.turns()]
            assert [[ref["id"] for ref in held or ()] for held in refs] == [[], [row.id], []]
            await room.check()

    run(scenario())


def test_usage_is_estimated_when_the_provider_says_nothing(tmp_path: Path, fakes: Fakes) -> None:
    async def scenario() -> None:
        class Silent(ScriptedModel):
            async def stream(self, request):  # type: ignore[no-untyped-def]
                async for piece in super().stream(request):
                    if not isinstance(piece, UsagePiece):
                        yield piece

        fakes(Silent("twelve chars"))
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.send("go")
            usage = room.turns()[1]["usage"]
            assert usage["estimated"] == 1
            assert usage["output_tokens"] == 3
            assert usage["input_tokens"] > 20

    run(scenario())
