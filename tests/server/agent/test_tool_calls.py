"""Calls of tools: what goes wrong is a result, what is for the page is taken out, what is big is
put by."""

import asyncio
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
from open_token.model.session_types import ToolCallProjection, build_meta_blocks
from open_token.server.agent.tool_calls import elapsed_ms
from open_token.server.agent.tools.interface import ToolError
from open_token.server.config import Limits

Fakes = Callable[..., None]


def fails(fault: Exception) -> Callable[[Any], Any]:
    def does(_: Any) -> Any:
        raise fault

    return does


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        (FakeTool("T", fails(ToolError("no such file"))), "{}", "no such file"),
        (FakeTool("T", fails(KeyError("secret"))), "{}", "the tool failed: KeyError"),
        (
            FakeTool("T", lambda _: asyncio.Event().wait(), timeout=0.02),
            "{}",
            "timed out after 0.02 seconds",
        ),
        (
            FakeTool("T", lambda _: object()),
            "{}",
            "the tool returned a value that cannot be encoded as JSON",
        ),
        (FakeTool("T", lambda _: 1), "{", "the arguments are not valid JSON"),
        (FakeTool("T", lambda _: 1), "[]", "the arguments are not a JSON object"),
        (FakeTool("Other", lambda _: 1), "{}", "there is no tool with this name"),
    ],
)
def test_what_goes_wrong_is_a_result(
    tmp_path: Path, fakes: Fakes, tool: FakeTool, arguments: str, words: str
) -> None:
    async def scenario() -> None:
        fakes(ScriptedModel(build_call_pieces("T", "c1", arguments), "end"), tool)
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.send("go")
            call = room.turns()[1]["tool_calls"][0]
            assert (call["status"], call["result"]) == ("error", {"error": words})
            assert room.texts()[-1] == "end"
            await room.check()

    run(scenario())


@pytest.mark.spec("tool-result-meta")
def test_meta_becomes_blocks_and_the_model_does_not_see_it(tmp_path: Path, fakes: Fakes) -> None:
    async def scenario() -> None:
        meta = {
            "ui": {"resourceHTML": "<p>", "target": "inline"},
            "bridge": {"action": "addContext"},
            "plan": {"x": 1},
        }
        model = ScriptedModel(build_call_pieces("T"), "end")
        fakes(model, FakeTool("T", lambda _: {"n": 1, "_meta": meta}))
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.send("go")
            turn = room.turns()[1]
            assert turn["tool_calls"][0]["result"] == {"n": 1}
            assert [block["type"] for block in turn["blocks"]] == [
                "tool_use",
                "tool_bridge",
                "tool_ui",
            ]
            assert turn["blocks"][2]["tool_call_id"] == "c1"
            assert "resourceHTML" not in str(model.requests[1])
            await room.check()

    run(scenario())


@pytest.mark.spec("long-results")
@pytest.mark.parametrize("given", ["word " * 1000, {"rows": ["word"] * 1000}])
def test_a_big_result_is_a_blob_with_a_preview(tmp_path: Path, fakes: Fakes, given: Any) -> None:
    async def scenario() -> None:
        model = ScriptedModel(build_call_pieces("T"), "end")
        fakes(model, FakeTool("T", lambda _: given))
        async with open_agent_session(tmp_path, limits=Limits(frame_bytes=3000)) as opened:
            room = await opened()
            await room.send("go")
            result = room.turns()[1]["tool_calls"][0]["result"]
            assert result["size"] > 3000
            assert len(result["preview"]) == 2000
            data = await room.services.store.read_blob(room.caller.user.id, room.id, result["blob"])
            assert data is not None
            assert len(data) == result["size"]
            output = model.requests[1].messages[-1].parts[0].content
            assert output == data.decode()

    run(scenario())


@pytest.mark.spec("chat-send-fields")
def test_the_environment_of_session_and_message_reaches_the_tool(
    tmp_path: Path, fakes: Fakes
) -> None:
    async def scenario() -> None:
        seen: list[dict[str, str]] = []

        class Looks(FakeTool):
            async def run(self, arguments: dict[str, Any], place: Any) -> Any:
                seen.append(dict(place.env))

        fakes(ScriptedModel(build_call_pieces("T"), "end"), Looks("T", lambda _: 1))
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.services.store.set_setting(f"env/{room.id}", '{"A": "1", "B": "2"}')
            await room.send("go", runtime_env={"B": "3"})
            assert seen == [{"A": "1", "B": "3"}]
            assert "runtime_env" not in str(room.entries)

    run(scenario())


def test_tools_can_be_barred(tmp_path: Path, fakes: Fakes) -> None:
    async def scenario() -> None:
        model = ScriptedModel("a", "b")
        fakes(model, FakeTool("T", lambda _: 1))
        async with open_agent_session(tmp_path) as opened:
            await (await opened(disable_tools=["T", "Agent"])).send("go")
            await (await opened(disable_tools=True)).send("go")
            names = {spec.name for spec in model.requests[0].tools}
            assert "AskUserQuestion" in names
            assert not names & {"T", "Agent"}
            assert list(model.requests[1].tools) == []

    run(scenario())


def test_milliseconds() -> None:
    assert elapsed_ms("2026-01-01T00:00:00.000Z", "2026-01-01T00:00:01.500Z") == 1500
    assert elapsed_ms(None, "2026-01-01T00:00:01.500Z") == 0
    assert elapsed_ms("nonsense", "2026-01-01T00:00:01.500Z") == 0


@pytest.mark.spec("tool-result-meta")
@pytest.mark.parametrize(
    ("meta", "said"),
    [
        ({"ui": {"resourceUri": "javascript:x", "target": "inline"}}, "https://"),
        ({"ui": {"resourceHTML": "<p>", "target": "sideways"}}, "target"),
        ({"ui": {"resourceHTML": "<p>", "target": "inline", "height": "tall"}}, "height"),
        ({"ui": {"resourceHTML": "<p>", "target": "inline", "title": 5}}, "title"),
        ({"ui": {"resourceHTML": 5, "target": "inline"}}, "resourceHTML"),
        ({"ui": {"target": "inline"}}, "either"),
        ({"ui": {"resourceHTML": "", "resourceUri": "https://x", "target": "inline"}}, "either"),
        ({"ui": "card"}, "object"),
        ({"bridge": {"action": " "}}, "action"),
        ({"bridge": []}, "object"),
    ],
)
def test_what_is_no_card_becomes_a_notification(meta: Any, said: str) -> None:
    call = ToolCallProjection(id="c", tool_name="Show", display_name="Show")
    (block,) = build_meta_blocks(meta, call)
    assert block.type == "system_notification"
    assert said in block.content
    (good,) = build_meta_blocks({"ui": {"resourceHTML": "<p>", "target": "preview"}}, call)
    assert good.type == "tool_ui"
