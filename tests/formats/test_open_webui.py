"""Exports of Open WebUI: rows and chats alone, details in answers, edited answers, broken input."""

import json
from typing import Any

import pytest

from open_token.registry import READERS, detect_format
from open_token.sources.source import Source
from readers.provider_readers import build_read_function, summarize_events

READER = READERS["open_webui"]

read = build_read_function(READER)


def chat(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    made: dict[str, Any] = {}
    parent = None
    for number, message in enumerate(messages):
        key = f"m{number}"
        made[key] = {"id": key, "parentId": parent, "childrenIds": [], **message}
        parent = key
    return {"title": "T", "history": {"messages": made, "currentId": parent}, **fields}


def answer(content: Any, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, "model": "llama3.2:3b", **fields}


def test_a_chat_alone() -> None:
    record, events = read(chat({"role": "user", "content": "hi"}, answer("hello")))
    assert summarize_events(events) == [("user", "hi"), ("assistant", "hello")]
    assert record.conversation["title"] == "T"
    assert record.conversation["source_runtime"] == "web"
    assert [who.get("model") for who in record.participants if who["kind"] == "model"] == [
        "llama3.2:3b"
    ]


@pytest.mark.parametrize(
    "text",
    [
        '<details type="reasoning" done="false">\nnever closed',
        '<details type="tool_calls" done="true">\n<summary>x</summary>\n</details>',
        '<details type="reasoning">\n<summary>x</summary>\n</details>',
        '<details type="map">\nkept\n</details>',
        "a < b and <details> of mine </details>",
        '<details type="reasoning" ' * 1000,
    ],
)
def test_details_that_stay_text(text: str) -> None:
    _, events = read(chat(answer(text)))
    assert summarize_events(events) == [("assistant", text)]


def test_escaped_reasoning_and_a_call_without_a_result() -> None:
    text = (
        '<details type="reasoning" done="true">\n<summary>Thought</summary>\n'
        "&gt; if a &lt; b\n&gt;\n&gt; then b\n</details>\n"
        '<details type="tool_calls" done="false" id="c" name="look" arguments="&quot;{}&quot;">\n'
        "<summary>Executing...</summary>\n</details>\nDone."
    )
    _, events = read(chat(answer(text)))
    assert [event["type"] for event in events] == [
        "message",
        "tool_use",
        "tool_result",
        "message",
    ]
    assert events[0]["content"]["text"] == "if a < b\n\nthen b"
    assert events[-1]["content"]["text"] == "Done."


def test_an_edited_answer() -> None:
    items = [
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]}
    ]
    _, events = read(chat(answer("b", output=items)))
    assert ("annotation", {"kind": "message_facts", "content": "b"}) in summarize_events(events)
    _, events = read(chat(answer(" a\n", output=items)))
    assert summarize_events(events) == [("assistant", "a")]


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"role": 5, "content": []},
        {"role": "user", "content": {"a": 1}, "files": [5, {"type": 7, "url": 8}]},
        {"role": "assistant", "output": [5, {}, {"type": "message", "content": 5}], "usage": []},
        {"role": "assistant", "content": 5, "model": [], "timestamp": "x", "error": True},
    ],
)
def test_misshapen_messages(message: dict[str, Any]) -> None:
    _, events = read(chat({"role": "user", "content": "said"}, message), branches="all")
    assert ("user", "said") in summarize_events(events)


@pytest.mark.parametrize(
    "value",
    [
        {"history": {"messages": {}}},
        {"title": "T", "history": []},
        {"title": "T", "history": {"messages": {"m": {"role": "user", "content": "x"}}}},
        [{"title": "T", "history": {"messages": []}}],
    ],
)
def test_what_is_not_claimed(value: Any) -> None:
    assert not READER.sniff(Source("x", data=json.dumps(value).encode()))


def test_it_is_detected() -> None:
    data = json.dumps([{"id": "a", "chat": chat({"role": "user", "content": "hi"})}]).encode()
    assert detect_format(Source("x", data=data)) == "open_webui"
