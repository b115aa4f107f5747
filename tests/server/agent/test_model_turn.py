"""One model call as one turn: pieces, signatures, faults that pass and faults that do not."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.server.agent_session import (
    FakeTool,
    ScriptedModel,
    build_call_pieces,
    open_agent_session,
    run,
)
from open_token.server.agent import model_turn
from open_token.server.agent.model_interface import FinishPiece, ModelError, ThinkingPiece

Fakes = Callable[..., None]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_turn, "RETRY_DELAYS", (0.0, 0.0, 0.0))


def test_thoughts_keep_their_signature_for_the_next_call(tmp_path: Path, fakes: Fakes) -> None:
    async def scenario() -> None:
        thought = [ThinkingPiece("I "), ThinkingPiece("think"), ThinkingPiece("", "signed")]
        model = ScriptedModel([*thought, "so. ", *build_call_pieces("One")], "end")
        fakes(model, FakeTool("One", lambda _: 1))
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.send("go")
            block = room.turns()[1]["blocks"][0]
            assert (block["type"], block["content"], block["signature"]) == (
                "thinking",
                "I think",
                "signed",
            )
            back = model.requests[1].messages[2].parts[0]
            assert (back.text, back.signature) == ("I think", "signed")
            await room.check()

    run(scenario())


@pytest.mark.spec("attempts", "type-attempt")
def test_a_passing_fault_is_tried_again(tmp_path: Path, fakes: Fakes) -> None:
    async def scenario() -> None:
        fakes(
            ScriptedModel(
                ["some ", ModelError("overloaded", "server")],
                [ModelError("slow down", "rate")],
                "fine",
            )
        )
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.send("go")
            assert room.texts() == ["go", "fine"]
            turn = room.turns()[1]
            assert turn["status"] == "completed"
            assert "failure_reason" not in turn
            result = [
                (attempt["failure_reason"], attempt["code"], attempt["blocks"])
                for attempt in turn["attempts"]
            ]
            streamed = {"type": "text", "content": "some "}
            empty = {"tool_call_id": None, "tool_name": None, "display_name": None}
            assert result == [
                ("overloaded", "server", [streamed | empty]),
                ("slow down", "rate", []),
            ]
            assert room.mirror.session["status"] == "completed"
            await room.check()

    run(scenario())


def test_a_call_of_a_failed_attempt_is_not_executed(tmp_path: Path, fakes: Fakes) -> None:
    async def scenario() -> None:
        tool = FakeTool("One", lambda _: 1)
        broken = [*build_call_pieces("One"), "now ", ModelError("gone", "server")]
        half = [*build_call_pieces("One", arguments='{"a":'), ModelError("gone", "server")]
        model = ScriptedModel(broken, half, build_call_pieces("One"), "end")
        fakes(model, tool)
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.send("go")
            assert tool.called == [{}]
            first, second = room.turns()[1:]
            assert [call["id"] for call in first["tool_calls"]] == ["c1"]
            assert [len(attempt["blocks"]) for attempt in first["attempts"]] == [2, 0]
            assert second["blocks"][0]["content"] == "end"
            # The model is not shown what a failed attempt said.
            assert len(model.requests[-1].messages) == 4
            await room.check()

    run(scenario())


@pytest.mark.spec("chat-end", "early-end")
@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_an_answer_that_is_cut_off_says_so(tmp_path: Path, fakes: Fakes, reason: str) -> None:
    async def scenario() -> None:
        fakes(ScriptedModel(["half of", FinishPiece(reason)]))
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.send("go")
            turn = room.turns()[1]
            assert (turn["status"], turn["finish_reason"]) == ("completed", reason)
            text, notice = turn["blocks"]
            assert text["content"] == "half of"
            assert notice["type"] == "system_notification"
            assert notice["content"].startswith("The answer is incomplete")
            assert room.mirror.ended
            assert room.mirror.ended["finish_reason"] == reason
            assert room.mirror.ended["result"] == {"result": "half of"}
            await room.check()

    run(scenario())


@pytest.mark.parametrize(("kind", "tries"), [("auth", 1), ("request", 1), ("server", 4)])
def test_a_fault_that_stays_fails_the_run(
    tmp_path: Path, fakes: Fakes, kind: str, tries: int
) -> None:
    async def scenario() -> None:
        model = ScriptedModel(*([ModelError("no", kind)] for _ in range(9)))  # type: ignore[arg-type]
        fakes(model)
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.send("go")
            assert len(model.requests) == tries
            assert room.mirror.ended
            assert room.mirror.ended["result"] == {"err_msg": "no"}
            assert ("system:error", kind) in [
                (name, payload.get("code")) for name, payload in room.heard
            ]
            assert room.mirror.session["status"] == "failed"
            await room.check()

    run(scenario())


def test_a_silent_provider_has_failed(tmp_path: Path, fakes: Fakes) -> None:
    async def scenario() -> None:
        fakes(ScriptedModel(["a ", asyncio.Event().wait], "b"))
        async with open_agent_session(tmp_path, model_timeout=0.5) as opened:
            room = await opened()
            await room.send("go")
            assert "no response" in room.turns()[1]["attempts"][0]["failure_reason"]
            assert room.texts()[1:] == ["b"]

    run(scenario())


def test_pieces_are_put_together_but_not_held_back(tmp_path: Path, fakes: Fakes) -> None:
    async def scenario() -> None:
        gate = asyncio.Event()
        fakes(ScriptedModel(["one ", "two ", gate.wait, *("x" * 100 for _ in range(50))]))
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.send("go", wait=False)
            await room.until(lambda state: any(turn.blocks for turn in state.path[1:]))
            assert room.texts()[-1] == "one two "
            gate.set()
            await room.rest()
            grown = [entry for entry in room.entries if entry.kind == "text.delta"]
            assert 4 <= len(grown) <= 10
            await room.check()

    run(scenario())


def test_an_inner_fault_fails_the_run_without_content(tmp_path: Path, fakes: Fakes) -> None:
    async def scenario() -> None:
        fakes(ScriptedModel([RuntimeError("a secret")]))
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.send("go")
            assert room.mirror.session["status"] == "failed"
            assert room.mirror.ended
            assert room.mirror.ended["result"]["err_msg"].endswith("RuntimeError")
            assert "a secret" not in str(room.entries)

    run(scenario())


def test_a_history_begins_with_the_person(tmp_path: Path, fakes: Fakes) -> None:
    async def scenario() -> None:
        model = ScriptedModel("fine")
        fakes(model)
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            steps = [
                ("turn.opened", {"turn": {"turn_id": "t0", "role": "assistant"}}),
                ("text.delta", {"turn_id": "t0", "text": "Welcome."}),
                ("turn.ended", {"turn_id": "t0"}),
            ]
            await room.services.journal.write(room.caller.user.id, room.id, lambda _: steps)
            await room.send("hello")
            assert [message.role for message in model.requests[0].messages] == [
                "system",
                "user",
                "assistant",
                "user",
            ]

    run(scenario())
