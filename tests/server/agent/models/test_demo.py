"""The demo: each word of the script, the same every time, and with a delay that can be taken
away."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from helpers.server.agent_session import FakeTool, open_agent_session, run
from open_token.server.agent.context_usage import estimate_messages, estimate_tools
from open_token.server.agent.model_interface import Message, Request, Text, TextPiece, ToolSpec
from open_token.server.agent.models import demo
from open_token.server.agent.models.demo import build_sample, parse_script
from open_token.server.agent.output_schema import find_output_error
from open_token.server.config import ServerConfig

CONFIG = ServerConfig(data=Path("data"))


def said(text: str, **more: Any) -> list[Any]:
    async def all_of() -> list[Any]:
        model = demo.open_model("demo", CONFIG, {demo.DELAY: "0"})
        asked = Request(model="demo", messages=[Message("user", [Text(text)])], **more)
        return [piece async for piece in model.stream(asked)]

    return asyncio.run(all_of())


@pytest.mark.parametrize(
    ("words", "tools"),
    [
        ("list files please", ["Glob"]),
        ("Read notes.md, then list files", ["Read", "Glob"]),
        ("ask", ["AskUserQuestion"]),
        ("a subagent, a card and the bridge", ["Agent", "ShowCard", "HostAction"]),
        ("plan", ["Plan"]),
        ("remember that I ask for tea", ["Remember"]),
        ("a task, a basket, already planned", []),
    ],
)
def test_words_become_calls(words: str, tools: list[str]) -> None:
    assert [wish.tool for wish in parse_script(words, {}, "executing").calls] == tools


def test_arguments_follow_the_tools_that_are_offered() -> None:
    read = ToolSpec(name="Read", description="", parameters={"properties": {"path": {}}})
    mind = ToolSpec(
        name="Remember",
        description="",
        parameters={"properties": {"content": {}, "reason": {}, "type": {}}},
    )
    script = parse_script(
        "read a/b.txt and remember I like tea", {"Read": read, "Remember": mind}, "executing"
    )
    assert script.calls[0].arguments == {"path": "a/b.txt"}
    assert script.calls[1].arguments["content"] == "I like tea"
    assert script.calls[1].arguments.keys() == {"content", "reason", "type"}


def test_what_it_was_reported_is_counted_with_the_tools() -> None:
    bare, tool = said("hello")[-1].usage, ToolSpec(name="Read", description="word " * 80)
    assert bare["input_tokens"] == estimate_messages([Message("user", [Text("hello")])])
    assert said("hello", tools=[tool])[-1].usage["input_tokens"] == bare[
        "input_tokens"
    ] + estimate_tools([tool])


@pytest.mark.spec("demo-keywords")
def test_the_same_words_get_the_same_answer() -> None:
    assert said("hello") == said("hello")
    text = "".join(piece.text for piece in said("hello") if isinstance(piece, TextPiece))
    words = [
        "think",
        "list files",
        "read <name>",
        "ask",
        "subagent",
        "card",
        "bridge",
        "plan",
        "remember <text>",
    ]
    assert all(word in text for word in [*words, "long", "fail", "json"])


def test_long_is_two_thousand_words() -> None:
    text = "".join(piece.text for piece in said("long") if isinstance(piece, TextPiece))
    assert len(text.split()) == 2000


@pytest.mark.spec("demo-keywords")
@pytest.mark.parametrize("given", ["0.001", "nonsense", "-3", "0"])
def test_the_delay_is_set_in_the_environment(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(demo.asyncio, "sleep", sleep)
    monkeypatch.setattr(demo, "time", SimpleNamespace(monotonic=lambda: sum(slept)))

    async def all_of() -> None:
        model = demo.open_model("demo", CONFIG, {demo.DELAY: given})
        async for _ in model.stream(
            Request(model="demo", messages=[Message("user", [Text("json")])])
        ):
            pass

    asyncio.run(all_of())
    assert {round(seconds, 6) for seconds in slept} == {"0.001": {0.001}, "nonsense": {0.02}}.get(
        given, set()
    )


def test_who_listens_slowly_does_not_slow_it_down(monkeypatch: pytest.MonkeyPatch) -> None:
    now, slept = [0.0], []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    monkeypatch.setattr(demo.asyncio, "sleep", sleep)
    monkeypatch.setattr(demo, "time", SimpleNamespace(monotonic=lambda: now[0]))

    async def all_of() -> None:
        async for _ in demo.DemoModel(1.0).stream(
            Request(model="demo", messages=[Message("user", [Text("json")])])
        ):
            now[0] += 0.75

    asyncio.run(all_of())
    assert slept == [1.0, *[0.25] * (len(slept) - 1)]


SCHEMAS = [
    {
        "type": "object",
        "properties": {
            "n": {"type": "integer", "minimum": 3},
            "s": {"type": "string", "minLength": 9},
        },
    },
    {
        "type": "array",
        "items": {"$ref": "#/$defs/x"},
        "minItems": 2,
        "$defs": {"x": {"enum": ["a", "b"]}},
    },
    {"anyOf": [{"type": "null"}, {"type": "string"}]},
    {"type": ["boolean", "null"]},
    {
        "type": "object",
        "properties": {"deep": {"type": "object", "properties": {"n": {"type": "number"}}}},
    },
]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_sample_fits_its_schema(schema: Any) -> None:
    assert find_output_error(build_sample(schema), schema) is None


def test_samples_end() -> None:
    around = {"$ref": "#/$defs/a"}
    assert build_sample({**around, "$defs": {"a": around}}) is None
    many = {"properties": dict.fromkeys("abc", around)}
    assert build_sample({**around, "$defs": {"a": many}}) is not None


@pytest.mark.spec("demo-keywords")
@pytest.mark.parametrize(
    "word", ["think", "list files", "read a", "subagent", "card", "bridge", "plan", "remember x"]
)
def test_every_word_through_the_server(
    tmp_path: Path, fakes: Callable[..., None], word: str
) -> None:
    fakes(None, *(FakeTool(name, lambda _: "there") for name in ("Glob", "Read", "Remember")))

    async def scenario() -> None:
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.send(word)
            assert room.mirror.session["status"] == "completed"
            calls = [call for turn in room.turns() for call in turn["tool_calls"]]
            assert all(call["status"] == "done" for call in calls)
            kinds = {block["type"] for turn in room.turns() for block in turn["blocks"]}
            wanted = {
                "think": "thinking",
                "card": "tool_ui",
                "bridge": "tool_bridge",
                "plan": "plan_status",
            }
            assert wanted.get(word, "text") in kinds
            await room.check()

    run(scenario())


@pytest.mark.spec("demo-keywords")
def test_fail_and_json_through_the_server(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.send("fail")
            assert room.mirror.session["status"] == "failed"
            assert room.turns()[-1]["failure_reason"]
            await room.send("json", headless=True, output_schema=SCHEMAS[0])
            assert room.mirror.ended
            assert room.mirror.ended["result"] == {"n": 3, "s": "demoooooo"}
            await room.check()

    run(scenario())
