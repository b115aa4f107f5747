"""Exports of LibreChat: lists and trees, parts of answers, broken input."""

import json
from typing import Any

import pytest

from open_token.registry import READERS, detect_format
from open_token.sources.source import Source
from readers.provider_readers import build_read_function, summarize_events

READER = READERS["librechat"]

read = build_read_function(READER)


def conversation(*messages: Any, **fields: Any) -> dict[str, Any]:
    return {"conversationId": "c", "title": "T", "messages": list(messages), **fields}


def prompt(text: Any = "said", **fields: Any) -> dict[str, Any]:
    return {"messageId": "m0", "isCreatedByUser": True, "sender": "User", "text": text, **fields}


def answer(**fields: Any) -> dict[str, Any]:
    made = {"messageId": "m1", "parentMessageId": "m0", "isCreatedByUser": False}
    return {**made, "model": "gpt-4o", "sender": "gpt-4o", **fields}


def test_a_list_and_a_tree_are_the_same() -> None:
    record, flat = read(conversation(prompt(), answer(text="yes")))
    tree = {"messagesTree": [prompt(children=[answer(text="yes")])], "messages": None}
    _, nested = read(conversation(**tree))
    assert summarize_events(flat) == [("user", "said"), ("assistant", "yes")]
    assert summarize_events(nested) == summarize_events(flat)
    assert (record.conversation["id"], record.conversation["title"]) == ("c", "T")


def test_a_deep_tree() -> None:
    value: list[Any] = []
    for number in reversed(range(80)):
        value = [prompt(str(number), messageId=f"n{number}", children=value)]
    _, events = read(conversation(messagesTree=value))
    assert [said for _, said in summarize_events(events)] == [str(n) for n in range(80)]


def test_parts_and_the_text_that_repeats_them() -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": {"value": "two"}}]
    _, events = read(conversation(prompt(), answer(text="onetwo", content=parts)))
    assert [said for _, said in summarize_events(events)] == ["said", "one", "two"]
    _, events = read(conversation(prompt(), answer(text="other", content=parts)))
    assert [said for _, said in summarize_events(events)] == ["said", "one", "two", "other"]


def test_a_call_without_an_output_has_a_missing_result() -> None:
    part = {"type": "tool_call", "tool_call": {"id": "k", "name": "look", "args": {"a": 1}}}
    _, events = read(conversation(prompt(), answer(content=[part])))
    assert [event["type"] for event in events] == ["message", "tool_use", "tool_result"]


@pytest.mark.parametrize(
    "message",
    [
        5,
        {},
        {"messageId": [], "isCreatedByUser": 1, "text": {}},
        answer(content=[5, {"type": "text"}, {"type": "tool_call", "tool_call": 5}], files=5),
        answer(text=5, content="plain", model=[], createdAt="never", children=5),
        prompt({"a": 1}, messageId="x", content=[{"type": "text", "text": 5}], files=[5, {}]),
    ],
)
def test_misshapen_messages(message: Any) -> None:
    _, events = read(conversation(prompt(), message), branches="all")
    assert ("user", "said") in summarize_events(events)


@pytest.mark.parametrize(
    "value",
    [
        {"conversationId": "c", "messages": []},
        {"messages": [prompt()]},
        {"conversationId": "c", "messages": [{"messageId": "m", "text": "x"}]},
        {"conversationId": "c", "messages": [{"role": "user", "content": "x"}]},
    ],
)
def test_what_is_not_claimed(value: Any) -> None:
    assert not READER.sniff(Source("x", data=json.dumps(value).encode()))


def test_it_is_detected() -> None:
    data = json.dumps(conversation(prompt())).encode()
    assert detect_format(Source("x", data=data)) == "librechat"
