"""Decoding of lines, also of malformed ones."""

import json
from typing import Any

import msgspec
import pytest

from open_token.agents.claude_code.records import (
    Line,
    decode_line,
    get_text,
    parse_subagent_result,
    to_line,
    to_safe_name,
)

DEEP = b'{"type":"user","x":' + b"[" * 50_000 + b"]" * 50_000 + b"}"


def raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(value).encode())


def test_messages_are_built_without_their_result_data() -> None:
    line = decode_line(
        b'{"type":"user","uuid":"u","message":{"content":"hi"},"toolUseResult":{"a":1},"other":2}'
    )
    assert (line.uuid, line.message.content, line.record) == ("u", "hi", None)
    assert bytes(line.tool_use_result) == b'{"a":1}'


@pytest.mark.parametrize("kind", ["system", "attachment", "summary", "api-request-shape"])
def test_the_kinds_that_need_it_are_built_whole(kind: str) -> None:
    assert decode_line(json.dumps({"type": kind, "other": 2}).encode()).record == {
        "type": kind,
        "other": 2,
    }


@pytest.mark.parametrize("value", [[], 3, "x", None, True])
def test_what_is_no_object_is_no_line(value: Any) -> None:
    assert decode_line(json.dumps(value).encode()) == value


@pytest.mark.parametrize("message", ["x", 3, [], None, {"usage": 3}, {"usage": []}, {"usage": {}}])
def test_odd_messages_still_make_a_line(message: Any) -> None:
    line = decode_line(json.dumps({"type": "user", "uuid": "u", "message": message}).encode())
    assert (type(line), line.uuid) == (Line, "u")
    assert (
        line.message is None
        or line.message.usage is None
        or line.message.usage.input_tokens is None
    )


def test_deep_nesting_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="deep"):
        decode_line(DEEP)


def test_a_record_from_another_decoder_becomes_a_line() -> None:
    line = to_line(
        {"type": "user", "costUSD": 1, "sourceToolUseID": "t", "toolUseResult": {"agentId": "a"}}
    )
    assert (
        line.cost_usd,
        line.source_tool_use_id,
        parse_subagent_result(line.tool_use_result),
    ) == (
        1,
        "t",
        {"agent_id": "a"},
    )


@pytest.mark.parametrize(
    ("side", "facts"),
    [
        ({"agentId": "a1", "status": "completed", "totalDurationMs": 5}, ("a1", "completed", 5)),
        ({"agentId": 3, "totalTokens": "many"}, None),
        ({"stdout": '"agentId"'}, None),
        ({"text": 'said "agentId" once'}, None),
        ("agentId", None),
        (None, None),
    ],
)
def test_side_facts(side: Any, facts: tuple[Any, ...] | None) -> None:
    for value in (raw(side), side):
        found = parse_subagent_result(value)
        assert (tuple(found.values()) if found else None) == facts


def test_only_short_names_get_into_notes() -> None:
    assert [to_safe_name(value) for value in ("ai-title", "a b", "x" * 60, 3, None)] == [
        "ai-title"
    ] + ["unknown"] * 4


def test_text_in() -> None:
    assert [get_text(holder, "k") for holder in ({"k": "v"}, {"k": ""}, {"k": 1}, [], None)] == [
        "v"
    ] + [None] * 4
