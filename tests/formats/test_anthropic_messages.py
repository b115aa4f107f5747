"""The Messages API: blocks in both roles, the provider's own tools, citations, usage, stops,
streams."""

import json
from typing import Any

import pytest

from open_token.registry import READERS
from readers.provider_readers import PNG, build_read_function, summarize_events, tokens

READER = READERS["anthropic_messages"]

read = build_read_function(READER)


def reply(*blocks: Any, stop: Any = "end_turn", **more: Any) -> dict[str, Any]:
    body = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-x",
        "stop_reason": stop,
    }
    return {**body, "content": list(blocks), **more}


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def test_a_request() -> None:
    record, events = read(
        {
            "model": "claude-x",
            "max_tokens": 9,
            "system": [text("one", cache_control={"type": "ephemeral"})],
            "tools": [
                {"name": "f", "input_schema": {}},
                {"type": "web_search_20250305", "name": "web_search"},
            ],
            "messages": [
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": [text("yo")]},
            ],
        }
    )
    assert summarize_events(events) == [
        ("system", "one"),
        ("annotation", {"kind": "tools", "names": ["f", "web_search"]}),
        ("user", "hi"),
        ("assistant", "yo"),
    ]
    assert record.conversation["provider"] == "anthropic"
    assert record.conversation["source_runtime"] == "api"
    assert record.conversation["internal_availability"] == "unknown"
    speaker = record.participants[-1]
    assert (speaker["kind"], speaker["provider"], speaker["model"]) == (
        "model",
        "anthropic",
        "claude-x",
    )


def test_thoughts_words_and_calls_keep_their_order() -> None:
    record, events = read(
        reply(
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "redacted_thinking", "data": "x"},
            text("I look."),
            {"type": "tool_use", "id": "t1", "name": "f", "input": {"x": 1}},
            stop="tool_use",
            usage={
                "input_tokens": 3,
                "cache_read_input_tokens": 20,
                "cache_creation_input_tokens": 5,
                "output_tokens": 7,
            },
        )
    )
    assert summarize_events(events) == [
        ("assistant_thought", "hm"),
        ("assistant_thought", {"redacted": True, "encrypted": True}),
        ("assistant", "I look."),
        ("assistant", {"tool_name": "f", "arguments": {"x": 1}, "native_call_id": "t1"}),
        ("tool", {"missing_result": True}),
    ]
    spent = tokens(input_tokens=28, output_tokens=7, cache_read_tokens=20, cache_write_tokens=5)
    assert [event.get("usage") for event in events] == [None, None, spent, None, None]
    assert record.conversation["internal_availability"] == "available"


def test_results_with_blocks_errors_and_words_behind_them() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    calls = [
        {"type": "tool_use", "id": name, "name": name, "input": {}} for name in ("a", "b", "c")
    ]
    results = [
        {"type": "tool_result", "tool_use_id": "a", "content": [text("seen"), image]},
        {"type": "tool_result", "tool_use_id": "b", "is_error": True, "content": [text("broken")]},
        {"type": "tool_result", "tool_use_id": "c"},
    ]
    _, events = read(
        [
            {"role": "assistant", "content": calls},
            {"role": "user", "content": [*results, text("go on")]},
        ]
    )
    result = summarize_events(events)[3:]
    assert result[0][1][0] == text("seen")
    assert result[0][1][1]["base64"] == PNG
    assert result[1:] == [
        ("tool", "broken"),
        ("annotation", {"kind": "result_facts", "is_error": True}),
        ("tool", ""),
        ("user", "go on"),
    ]


def test_pictures_and_papers() -> None:
    content = [
        {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
        {
            "type": "document",
            "title": "T",
            "source": {"type": "base64", "media_type": "application/pdf", "data": PNG},
        },
        text("these"),
    ]
    _, events = read({"system": "s", "messages": [{"role": "user", "content": content}]})
    blocks = events[1]["content"]["data"]
    assert blocks[0] == {"type": "image", "url": "https://example.org/a.png"}
    assert (blocks[1]["type"], blocks[1]["media_type"], blocks[1]["title"]) == (
        "document",
        "application/pdf",
        "T",
    )
    assert blocks[2] == text("these")


def test_the_tools_of_the_provider_answer_in_the_same_message() -> None:
    _, events = read(
        reply(
            {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}},
            {
                "type": "web_search_tool_result",
                "tool_use_id": "s1",
                "content": [{"type": "web_search_result", "url": "u"}],
            },
            {
                "type": "server_tool_use",
                "id": "s2",
                "name": "bash_code_execution",
                "input": {"command": "ls"},
            },
            {
                "type": "bash_code_execution_tool_result",
                "tool_use_id": "s2",
                "content": {
                    "type": "bash_code_execution_tool_result_error",
                    "error_code": "unavailable",
                },
            },
            {
                "type": "mcp_tool_use",
                "id": "m1",
                "name": "note",
                "server_name": "book",
                "input": {},
            },
            {
                "type": "mcp_tool_result",
                "tool_use_id": "m1",
                "is_error": False,
                "content": [text("noted")],
            },
        )
    )
    assert [event["type"] for event in events] == [
        *(
            "tool_use",
            "tool_result",
            "tool_use",
            "tool_result",
            "annotation",
            "tool_use",
            "tool_result",
        ),
    ]
    assert events[0]["content"]["data"]["native_type"] == "server_tool_use"
    assert events[1]["content"]["data"] == [{"type": "web_search_result", "url": "u"}]
    assert events[4]["content"]["data"] == {"kind": "result_facts", "is_error": True}
    assert events[5]["content"]["data"]["server_name"] == "book"
    assert events[6]["content"] == {"mime": "text/plain", "text": "noted"}


def test_an_answer_cut_by_its_sources_is_one_text() -> None:
    _, events = read(reply(text("Owls "), text("eat mice", citations=[{"url": "u"}]), text(".")))
    assert summarize_events(events) == [
        ("assistant", "Owls eat mice."),
        (
            "annotation",
            {
                "kind": "message_facts",
                "citations": [{"start": 5, "end": 13, "citation": {"url": "u"}}],
            },
        ),
    ]
    assert events[1]["links"] == {"parent_id": events[0]["id"]}


def test_texts_side_by_side_without_sources_stay_apart() -> None:
    _, events = read(reply(text("one"), text("two")))
    assert summarize_events(events) == [("assistant", [text("one"), text("two")])]


def test_a_compaction() -> None:
    rounds = [
        {"type": "compaction", "input_tokens": 50000, "output_tokens": 800},
        {"type": "message", "input_tokens": 200, "output_tokens": 9},
    ]
    usage = {"input_tokens": 200, "output_tokens": 9, "iterations": rounds}
    _, events = read(
        reply({"type": "compaction", "content": "So far: roofs."}, text("Next."), usage=usage)
    )
    assert summarize_events(events) == [
        ("annotation", {"kind": "compaction", "summary": "So far: roofs."}),
        ("assistant", "Next."),
    ]
    assert (events[1]["usage"]["input_tokens"], events[1]["usage"]["output_tokens"]) == (50200, 809)


def test_a_kind_of_tomorrow_is_kept() -> None:
    request = {"system": "s", "messages": [{"role": "user", "content": "x"}]}
    answer = reply({"type": "hologram", "beam": 1}, text("see"))
    _, events = read({"request": request, "response": answer})
    assert summarize_events(events)[-1] == (
        "assistant",
        [{"type": "hologram", "beam": 1}, text("see")],
    )


@pytest.mark.parametrize(
    "stop", ["max_tokens", "refusal", "pause_turn", "model_context_window_exceeded"]
)
def test_an_unusual_stop_is_reported(stop: str) -> None:
    _, events = read(reply(text("a"), stop=stop))
    assert summarize_events(events)[1] == (
        "annotation",
        {"kind": "message_facts", "stop_reason": stop},
    )


def test_a_message_that_goes_on_after_a_pause() -> None:
    asked = {"role": "user", "content": "q"}
    first = reply(
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}, stop="pause_turn"
    )
    request: dict[str, Any] = {"model": "claude-x", "max_tokens": 9, "messages": [asked]}
    again = {**request, "messages": [asked, {"role": "assistant", "content": first["content"]}]}
    rest = reply(
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}, text("found")
    )
    _, events = read(
        [{"request": request, "response": first}, {"request": again, "response": rest}]
    )
    assert [event["type"] for event in events] == [
        "message",
        "tool_use",
        "annotation",
        "tool_result",
        "message",
    ]


def test_a_system_message_among_the_messages() -> None:
    _, events = read(
        {
            "system": "s",
            "messages": [{"role": "user", "content": "a"}, {"role": "system", "content": "b"}],
        }
    )
    assert [event["role"] for event in events] == ["system", "user", "system"]


STREAM = [
    {
        "type": "message_start",
        "message": {**reply(stop=None), "usage": {"input_tokens": 5, "output_tokens": 1}},
    },
    {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "thinking", "thinking": "", "signature": ""},
    },
    {"type": "ping"},
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "thinking_delta", "thinking": "h"},
    },
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "thinking_delta", "thinking": "m"},
    },
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "signature_delta", "signature": "s"},
    },
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "I "}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "look."}},
    {
        "type": "content_block_delta",
        "index": 1,
        "delta": {"type": "citations_delta", "citation": {"url": "u"}},
    },
    {
        "type": "content_block_start",
        "index": 2,
        "content_block": {"type": "tool_use", "id": "t", "name": "f", "input": {}},
    },
    {
        "type": "content_block_delta",
        "index": 2,
        "delta": {"type": "input_json_delta", "partial_json": '{"x"'},
    },
    {
        "type": "content_block_delta",
        "index": 2,
        "delta": {"type": "input_json_delta", "partial_json": ": 1}"},
    },
    {
        "type": "content_block_start",
        "index": 3,
        "content_block": {"type": "tool_use", "id": "u", "name": "g", "input": {}},
    },
    {
        "type": "content_block_delta",
        "index": 3,
        "delta": {"type": "input_json_delta", "partial_json": ""},
    },
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 30}},
    {"type": "message_stop"},
]


@pytest.mark.parametrize("form", ["events", "lines", "list", "pair"])
def test_a_saved_stream_in_every_form(form: str) -> None:
    events_text = "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in STREAM)
    if form == "events":
        data: Any = events_text.encode()
    elif form == "lines":
        data = "".join(json.dumps(one) + "\n" for one in STREAM).encode()
    else:
        data = STREAM if form == "list" else {"response": events_text}
    _, events = read(data)
    assert [(event.get("role"), event["type"]) for event in events[:3]] == [
        *(("assistant_thought", "message"), ("assistant", "message"), (None, "annotation")),
    ]
    assert summarize_events(events)[0][1] == "hm"
    assert summarize_events(events)[1][1] == "I look."
    calls = [event["content"]["data"] for event in events if event["type"] == "tool_use"]
    assert [(call["tool_name"], call["arguments"]) for call in calls] == [
        ("f", {"x": 1}),
        ("g", {}),
    ]
    assert events[1]["usage"] == tokens(input_tokens=5, output_tokens=30)


def test_a_stream_that_broke_off() -> None:
    _, events = read(STREAM[:13])
    assert events[3]["content"]["data"]["arguments"] == {"raw": '{"x"'}
    assert events[-1]["content"]["data"] == {"kind": "message_facts", "broke_off": True}


def test_two_streams_and_an_error() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
    _, events = read([*STREAM[:1], *STREAM[7:10], *STREAM[-2:], *STREAM[:1], error])
    result = summarize_events(events)
    assert result[0] == ("assistant", "I look.")
    assert ("annotation", {"kind": "error", "error": error["error"]}) in result
