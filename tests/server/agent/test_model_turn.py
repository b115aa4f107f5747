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
from open_token.server.agent.model_interface import ModelError, ThinkingPiece

Fakes = Callable[..., None]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_turn, "RETRY_DELAYS", (0.0, 0.0, 0.0))


def test_thoughts_keep_their_signature_for_the_next_call(tmp_path: Path, fakes: Fakes) -> None:
    async def talk() -> None:
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

    run(talk())


def test_a_passing_fault_is_tried_again(tmp_path: Path, fakes: Fakes) -> None:
    async def talk() -> None:
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
            assert [turn["status"] for turn in room.turns()[1:]] == [
                "failed",
                "failed",
                "completed",
            ]
            assert room.turns()[1]["failure_reason"] == "overloaded"
            assert room.texts() == ["go", "some ", "", "fine"]
            assert room.mirror.session["status"] == "completed"
            await room.check()

    run(talk())


@pytest.mark.parametrize(("kind", "tries"), [("auth", 1), ("request", 1), ("server", 4)])
def test_a_fault_that_stays_fails_the_run(
    tmp_path: Path, fakes: Fakes, kind: str, tries: int
) -> None:
    async def talk() -> None:
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

    run(talk())


def test_a_silent_provider_has_failed(tmp_path: Path, fakes: Fakes) -> None:
    async def talk() -> None:
        fakes(ScriptedModel(["a ", asyncio.Event().wait], "b"))
        async with open_agent_session(tmp_path, model_timeout=0.5) as opened:
            room = await opened()
            await room.send("go")
            assert "no response" in room.turns()[1]["failure_reason"]
            assert room.texts()[1:] == ["a ", "b"]

    run(talk())


def test_pieces_are_put_together_but_not_held_back(tmp_path: Path, fakes: Fakes) -> None:
    async def talk() -> None:
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

    run(talk())


def test_an_inner_fault_fails_the_run_without_content(tmp_path: Path, fakes: Fakes) -> None:
    async def talk() -> None:
        fakes(ScriptedModel([RuntimeError("a secret")]))
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.send("go")
            assert room.mirror.session["status"] == "failed"
            assert room.mirror.ended
            assert room.mirror.ended["result"]["err_msg"].endswith("RuntimeError")
            assert "a secret" not in str(room.entries)

    run(talk())


def test_a_history_begins_with_the_person(tmp_path: Path, fakes: Fakes) -> None:
    async def talk() -> None:
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

    run(talk())
