"""Cohere chat v2: plans, documents as results, usage, streams, what is left to the chat reader."""

import json
from typing import Any

import pytest

from open_token.registry import READERS, detect_format
from open_token.sources.source import Source
from readers.provider_readers import build_read_function, summarize_events, tokens

READER = READERS["cohere"]
QUESTION = {"role": "user", "content": "hi"}

read = build_read_function(READER)


def reply(**fields: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": [{"type": "text", "text": "yo"}]}
    return {"id": "a", "message": message, "finish_reason": "COMPLETE", **fields}


def test_billed_units_stand_in_for_tokens() -> None:
    usage: dict[str, Any] = {"billed_units": {"input_tokens": 2.0, "output_tokens": 3.0}}
    _, events = read(reply(usage=usage))
    assert events[0]["usage"] == tokens(input_tokens=2, output_tokens=3)
    usage["tokens"] = {"input_tokens": 90, "output_tokens": 5}
    _, events = read(reply(usage={**usage, "cached_tokens": 64}))
    assert events[0]["usage"] == tokens(input_tokens=90, output_tokens=5, cache_read_tokens=64)


def test_documents_are_exported_once() -> None:
    request = {"model": "command-r", "messages": [QUESTION], "documents": ["It rained."]}
    answer = {"role": "assistant", "content": "yo"}
    more = {**request, "messages": [QUESTION, answer, {"role": "user", "content": "more"}]}
    _, events = read([{"request": request, "response": reply()}, more])
    assert summarize_events(events) == [
        ("annotation", {"kind": "context", "documents": ["It rained."]}),
        ("user", "hi"),
        ("assistant", "yo"),
        ("user", "more"),
    ]


def test_an_error_in_the_place_of_an_answer() -> None:
    request = {"model": "command-r", "messages": [QUESTION]}
    _, events = read({"request": request, "response": {"message": "The key is not valid."}})
    assert summarize_events(events) == [
        ("user", "hi"),
        ("annotation", {"kind": "error", "error": {"message": "The key is not valid."}}),
    ]


def test_a_stream_that_broke_off_is_marked() -> None:
    start = {"type": "message-start", "delta": {"message": {"role": "assistant"}}}
    content = {"type": "text", "text": "y"}
    piece = {"type": "content-start", "index": 0, "delta": {"message": {"content": content}}}
    _, events = read([start, piece])
    assert summarize_events(events) == [
        ("assistant", "y"),
        ("annotation", {"kind": "message_facts", "broke_off": True}),
    ]


@pytest.mark.parametrize(
    "value",
    [
        [QUESTION, {"role": "assistant", "content": "yo"}],
        {"model": "gpt-5", "messages": [QUESTION]},
        {"model": "command-r", "messages": [QUESTION], "seed": 3, "response": {"choices": [{"message": {"role": "assistant", "content": "x"}}]}},
    ],
)  # fmt: skip
def test_plain_messages_are_left_to_the_chat_reader(value: Any) -> None:
    assert detect_format(Source("x", data=json.dumps(value).encode())) == "openai_chat"


@pytest.mark.parametrize(
    "value",
    [
        {"message": {"role": "assistant"}, "finish_reason": "stop"},
        {"type": "message_start", "message": {}},
        [{"role": "user", "content": [{"type": "document", "document": {"data": "x"}}]}],
    ],
)
def test_other_values_are_not_claimed(value: Any) -> None:
    assert not READER.sniff(Source("x", data=json.dumps(value).encode()))


@pytest.mark.parametrize(
    "value",
    [
        reply(message={}),
        reply(usage={"tokens": 3}),
        reply(message={"role": "assistant", "tool_plan": "p", "tool_calls": [3, {"function": 4}]}),
        [
            {
                "role": "tool",
                "tool_call_id": 3,
                "content": [{"document": {}}, {"document": {"a": 1}}],
            }
        ],
        [{"type": "message-start"}, {"type": "content-delta", "index": "x", "delta": 3}],
        [{"type": "tool-call-delta", "delta": {"message": {"tool_calls": {"function": 3}}}}],
    ],
)
def test_broken_bodies_do_no_harm(value: Any) -> None:
    read(value)
