"""Answers that must fit a schema, and schemas that are none."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.server.agent_session import ScriptedModel, build_call_pieces, open_agent_session, run
from open_token.server.agent.output_schema import find_output_error, find_schema_error, parse_output

AGE = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}


def heavy(levels: int) -> Any:
    """A schema that doubles with each of its parts."""
    parts = {f"p{n}": {"allOf": [{"$ref": f"#/$defs/p{n + 1}"}] * 2} for n in range(levels)}
    return {"$defs": {**parts, f"p{levels}": {}}, "$ref": "#/$defs/p0"}


def deep(levels: int) -> Any:
    return {"items": deep(levels - 1)} if levels else {}


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (AGE, None),
        ({}, None),
        ({"$defs": {"x": {"type": "string"}}, "$ref": "#/$defs/x"}, None),
        ({"pattern": "^a+$"}, None),
        ({"type": "nothing"}, "not a valid JSON Schema at"),
        ({"properties": 3}, "not a valid JSON Schema at"),
        ({"$ref": "https://example.com/schema"}, "into the schema itself"),
        ({"pattern": "(?=x)"}, "RE2"),
        ({"patternProperties": {"(a+)+$": {}}}, "not supported"),
        (deep(50), "deeper"),
        ({"description": "x" * 70_000}, "larger"),
        ({"$schema": 3}, "not a valid JSON Schema"),
        (heavy(5), None),
        (heavy(60), "too many checks"),
        ({"$ref": "#"}, "too many checks"),
        ({"properties": {"inner": {"$ref": "#"}}}, None),
    ],
)
def test_schemas(schema: Any, words: str | None) -> None:
    fault = find_schema_error(schema)
    assert fault is None if words is None else words in str(fault)


@pytest.mark.parametrize(
    ("text", "schema", "fault"),
    [
        ('{"age": 3}', AGE, None),
        ('```json\n{"age": 3}\n```', AGE, None),
        ('{"age": "secret"}', AGE, "it does not match at $.age: type"),
        ('"aab"', {"pattern": "^a+$"}, "it does not match at $: pattern"),
        ("[1]", {"$ref": "#/nowhere"}, "unresolved or endless reference"),
    ],
)
def test_answers(text: str, schema: Any, fault: str | None) -> None:
    found = find_output_error(parse_output(text), schema)
    assert found is None if fault is None else fault in str(found)


def test_an_answer_that_is_no_json() -> None:
    with pytest.raises(ValueError, match="it is not valid JSON"):
        parse_output("nothing of the kind")


@pytest.mark.spec("headless-run")
@pytest.mark.parametrize(
    ("answers", "result"),
    [
        (['{"age": 3}'], {"age": 3}),
        (["about three", '{"age": 3}'], {"age": 3}),
        (["about three", '{"age": "three"}'], "it does not match at $.age: type"),
    ],
)
def test_headless_with_a_schema(
    tmp_path: Path, fakes: Callable[..., None], answers: list[str], result: Any
) -> None:
    async def scenario() -> None:
        model = ScriptedModel(*answers)
        fakes(model)
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.send("how old?", headless=True, output_schema=AGE)
            assert len(model.requests) == len(answers)
            assert "AskUserQuestion" not in {spec.name for spec in model.requests[0].tools}
            ended = room.mirror.ended
            assert ended
            if isinstance(result, dict):
                assert (ended["status"], ended["result"]) == ("completed", result)
            else:
                assert ended["status"] == "failed"
                assert result in ended["result"]["err_msg"]
            await room.check()

    run(scenario())


@pytest.mark.spec("chat-end")
def test_the_last_words_are_the_result_of_every_chat(
    tmp_path: Path, fakes: Callable[..., None]
) -> None:
    async def scenario() -> None:
        questions = '{"questions":[{"question":"Which?","options":[{"label":"a"},{"label":"b"}]}]}'
        fakes(
            ScriptedModel(
                "three", ["I ask. ", *build_call_pieces("AskUserQuestion", "c1", questions)], "four"
            )
        )
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.send("how old?")
            assert room.mirror.ended
            assert room.mirror.ended["result"] == {"result": "three"}
            assert room.mirror.ended["config_snapshot"] == {"model": "demo", "mode": "executing"}
            assert {
                "session_id",
                "chat_run_id",
                "duration_ms",
                "stream_sequence",
            } <= room.mirror.ended.keys()
            await room.send("ask me")
            assert (room.mirror.ended["session_status"], room.mirror.ended["result"]) == (
                "waiting_for_input",
                {"result": None},
            )
            await room.send("b")
            assert room.mirror.ended["result"] == {"result": "four"}
            await room.check()

    run(scenario())


@pytest.mark.spec("headless-run")
def test_headless_without_a_schema(tmp_path: Path, fakes: Callable[..., None]) -> None:
    async def scenario() -> None:
        fakes(ScriptedModel("three"))
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.send("how old?", headless=True)
            assert room.mirror.ended
            assert room.mirror.ended["result"] == {"result": "three"}

    run(scenario())


@pytest.mark.spec("headless-run")
def test_headless_nobody_is_asked(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            for words in ("ask", "subagent ask"):
                await room.send(words, headless=True)
                assert room.mirror.session["status"] == "completed"
                asked = [call for turn in room.turns() for call in turn["tool_calls"]]
                assert {
                    call["status"] for call in asked if call["tool_name"] == "AskUserQuestion"
                } == {"error"}
            await room.check()

    run(scenario())
