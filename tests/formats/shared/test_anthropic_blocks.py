"""Anthropic blocks in the record: usage, media, outputs, and a verb for every kind."""

import base64
from typing import Any

import pytest

from open_token.builder.draft import Draft
from open_token.formats.shared.anthropic_blocks import (
    add_block,
    get_block_type,
    get_plain_text,
    parse_content,
    parse_output,
    parse_usage,
    unpack_block,
)
from open_token.model.document import Event

PNG = base64.b64encode(b"\x89PNG tiny").decode()


def read_blocks(*blocks: Any) -> list[Event]:
    draft = Draft()
    actor = draft.get_actor("model", "assistant")
    for block in blocks:
        add_block(draft, block, actor, usage={"output_tokens": 1})
    return list(draft.finish(lambda: "0" * 64).events)


def test_usage_counts_cached_input_too() -> None:
    counts = {
        "input_tokens": 5,
        "cache_read_input_tokens": 20,
        "cache_creation_input_tokens": 3,
        "output_tokens": 9,
        "output_tokens_details": {"thinking_tokens": 4},
    }
    assert parse_usage(counts) == {
        "input_tokens": 28,
        "output_tokens": 9,
        "reasoning_tokens": 4,
        "cache_read_tokens": 20,
        "cache_write_tokens": 3,
    }


def test_usage_of_a_compaction_on_the_way_is_counted() -> None:
    rounds = [
        {"type": "compaction", "input_tokens": 55000, "output_tokens": 1500},
        {"type": "message", "input_tokens": 200, "output_tokens": 90},
    ]
    counted = parse_usage({"input_tokens": 200, "output_tokens": 90, "iterations": rounds})
    assert counted
    assert (counted["input_tokens"], counted["output_tokens"]) == (55200, 1590)
    rounds[0]["type"] = "message"
    counted = parse_usage({"input_tokens": 200, "output_tokens": 90, "iterations": rounds})
    assert counted
    assert counted["input_tokens"] == 200


@pytest.mark.parametrize(
    "odd", [None, 3, [], {}, {"input_tokens": "3"}, {"input_tokens": True}, {"output_tokens": -4}]
)
def test_usage_that_is_none(odd: Any) -> None:
    assert parse_usage(odd) is None


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            {"type": "base64", "media_type": "image/png", "data": PNG},
            {"media_type": "image/png", "bytes": 9},
        ),
        (
            {"type": "url", "url": "https://example.invalid/a.png"},
            {"url": "https://example.invalid/a.png"},
        ),
        ({"type": "file", "file_id": "file_1"}, {"source": {"type": "file", "file_id": "file_1"}}),
        ({"type": "base64", "data": 5}, {"source": {"type": "base64", "data": 5}}),
    ],
)
def test_media(source: dict[str, Any], expected: dict[str, Any]) -> None:
    made = unpack_block({"type": "document", "source": source, "title": "T", "cache_control": {}})
    assert (made["type"], made["title"]) == ("document", "T")
    assert all(made[key] == value for key, value in expected.items())
    assert "cache_control" not in made


def test_contents_and_outputs() -> None:
    one = {"type": "text", "text": "one", "cache_control": {"type": "ephemeral"}}
    cited = {"type": "text", "text": "two", "citations": [{"cited_text": "x"}]}
    assert parse_content("plain") == parse_content(["plain"]) == "plain"
    assert parse_content([one]) == parse_output([one]) == "one"
    assert parse_content([one, cited]) == [{"type": "text", "text": "one"}, cited]
    assert parse_content([cited]) == [cited]
    assert [parse_output(value) for value in (None, [], "", {"a": 1})] == ["", "", "", {"a": 1}]
    assert [get_plain_text(value) for value in (one, cited, {"type": "image"}, 3)] == [
        "one",
        None,
        None,
        None,
    ]
    assert [get_block_type(value) for value in (one, {"type": []}, {}, 3)] == [
        "text",
        None,
        None,
        None,
    ]


def test_a_verb_for_every_kind() -> None:
    made = read_blocks(
        {"type": "text", "text": "hello"},
        {"type": "thinking", "thinking": "hm"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"a": 1}},
        {"type": "tool_result", "tool_use_id": "t1", "content": "ok"},
        {"type": "mcp_tool_use", "id": "t2", "name": "find", "server_name": "docs", "input": None},
        {
            "type": "mcp_tool_result",
            "tool_use_id": "t2",
            "is_error": True,
            "content": [{"type": "text", "text": "no"}],
        },
        {"type": "server_tool_use", "id": "t3", "name": "web_search", "input": "not json"},
        {
            "type": "web_search_tool_result",
            "tool_use_id": "t3",
            "content": [{"type": "web_search_result", "url": "u"}],
        },
        {"type": "compaction", "content": "so far"},
        {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}},
        {"type": "container_upload", "file_id": "f"},
        {"type": "text", "text": ""},
        "bare",
    )
    said = [e["content"].get("text") or e["content"]["data"] for e in made]
    assert said == [
        "hello",
        "hm",
        {"redacted": True, "encrypted": True},
        {"tool_name": "Bash", "arguments": {"a": 1}, "native_call_id": "t1"},
        "ok",
        {
            "tool_name": "find",
            "arguments": {},
            "native_call_id": "t2",
            "native_type": "mcp_tool_use",
            "server_name": "docs",
        },
        "no",
        {"kind": "result_facts", "is_error": True},
        {
            "tool_name": "web_search",
            "arguments": {"raw": "not json"},
            "native_call_id": "t3",
            "native_type": "server_tool_use",
        },
        [{"type": "web_search_result", "url": "u"}],
        {"kind": "compaction", "summary": "so far"},
        {"kind": "model_fallback", "from": "a", "to": "b"},
        [{"type": "container_upload", "file_id": "f"}],
        "bare",
    ]


@pytest.mark.parametrize(
    "kind",
    [
        "tool_use",
        "mcp_tool_use",
        "tool_result",
        "thinking",
        "text",
        "fallback",
        "compaction",
        "image",
        [],
    ],
)
@pytest.mark.parametrize("odd", [None, 3, [], {}, "x"])
def test_odd_blocks_break_nothing(kind: Any, odd: Any) -> None:
    names = (
        "id",
        "name",
        "input",
        "tool_use_id",
        "content",
        "thinking",
        "text",
        "from",
        "to",
        "source",
        "server_name",
    )
    assert len(read_blocks({"type": kind, **dict.fromkeys(names, odd)}, odd)) >= 1
