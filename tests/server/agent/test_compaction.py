"""Compaction: by itself when the window is nearly full, after a provider's word, and what stays."""

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
from open_token.server.agent.history import SUMMARY_HEADER
from open_token.server.agent.model_interface import ModelError, UsagePiece
from open_token.server.errors import ApiError

Fakes = Callable[..., None]


@pytest.mark.spec("compaction-turn")
def test_a_window_that_is_nearly_full_is_compacted_first(tmp_path: Path, fakes: Fakes) -> None:
    async def scenario() -> None:
        full = ["an answer", UsagePiece({"input_tokens": 900, "output_tokens": 20})]
        model = ScriptedModel("first", full, "the summary", "third", context_window=1000)
        model.stream = _counting(model)  # type: ignore[method-assign]
        fakes(model)
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.send("one")
            await room.send("two")
            await room.send("three")
            turn = room.turns()[5]
            assert (turn["kind"], turn["role"], turn["trigger"]) == ("compaction", "system", "auto")
            assert (turn["summary_full"], turn["tokens_before"], turn["archived_count"]) == (
                "the summary",
                920,
                5,
            )
            assert 0.9 < turn["saved_ratio"] < 1
            result = model.requests[-1].messages
            words = [part.text for part in result[1].parts]
            assert [message.role for message in result] == ["system", "user"]
            assert (words[0], words[-1]) == (f"{SUMMARY_HEADER}the summary", "three")
            assert room.texts()[-1] == "third"
            assert [turn["kind"] for turn in room.turns()].count("message") == 6
            await room.check()

    run(scenario())


def _counting(model: ScriptedModel):  # type: ignore[no-untyped-def]
    """Only what the test wrote is counted."""

    async def stream(request):  # type: ignore[no-untyped-def]
        model.requests.append(request)
        answer = model.answers.pop(0)
        for piece in answer if isinstance(answer, list) else [answer]:
            from open_token.server.agent.model_interface import TextPiece

            yield TextPiece(piece) if isinstance(piece, str) else piece
        if not isinstance(answer, list):
            yield UsagePiece({"input_tokens": 5, "output_tokens": 5})

    return stream


@pytest.mark.spec("compaction-turn")
def test_a_providers_word_forces_one(tmp_path: Path, fakes: Fakes) -> None:
    async def scenario() -> None:
        model = ScriptedModel(
            build_call_pieces("T", "c1"),
            [ModelError("too long", "context")],
            "summary",
            "at last",
            "and after",
        )
        fakes(model, FakeTool("T", lambda _: "x" * 500))
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.send("go")
            kinds = [(turn["kind"], turn["status"]) for turn in room.turns()[2:]]
            assert kinds == [
                ("message", "interrupted"),
                ("compaction", "completed"),
                ("message", "completed"),
            ]
            assert room.turns()[3]["trigger"] == "forced_retry"
            assert room.texts()[-1] == "at last"
            await room.send("next")
            roles = [message.role for message in model.requests[-1].messages]
            assert roles == ["system", "user", "assistant", "user"]
            await room.check()

    run(scenario())


def test_when_that_does_not_help_the_run_fails(tmp_path: Path, fakes: Fakes) -> None:
    async def scenario() -> None:
        fault = [ModelError("too long", "context")]
        fakes(ScriptedModel(fault, "summary", fault))
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.send("go")
            assert room.mirror.session["status"] == "failed"
            assert "too long" in str(room.mirror.ended)
            await room.check()

    run(scenario())


def test_a_compaction_that_fails_says_so_and_changes_nothing(tmp_path: Path, fakes: Fakes) -> None:
    async def scenario() -> None:
        model = ScriptedModel("one", [ModelError("no key", "auth")], "two")
        fakes(model)
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.send("go")
            with pytest.raises(ApiError, match="no key"):
                await room.services.chat.compact(room.caller, room.id)
            await room.send("on")
            assert [message.role for message in model.requests[-1].messages][1:] == [
                "user",
                "assistant",
                "user",
            ]
            await room.check()

    run(scenario())
