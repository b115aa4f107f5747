"""ShareGPT data: tags, calls as JSON text, order of results, media, preferences, lists and
lines."""

import json
from pathlib import Path
from typing import Any

import pytest

from open_token.registry import READERS, detect_format
from open_token.sources.source import Source
from readers.exported import everything, join_texts, words
from readers.provider_readers import build_read_function, summarize_events

READER = READERS["sharegpt"]

read = build_read_function(READER)


def build_rows(*turns: tuple[str, Any], **more: Any) -> list[dict[str, Any]]:
    return [{"conversations": [{"from": tag, "value": value} for tag, value in turns], **more}]


def test_tags() -> None:
    record, events = read(
        build_rows(
            ("system", "s"),
            ("human", "h"),
            ("gpt", "g"),
            ("user", "u"),
            ("assistant", "a"),
            ("ghost", "x"),
            id="i",
        )
    )
    assert summarize_events(events) == [
        ("system", "s"),
        ("user", "h"),
        ("assistant", "g"),
        ("user", "u"),
        ("assistant", "a"),
    ]
    assert record.conversation["id"] == "i"
    assert "provider" not in record.conversation
    assert [note.detail for note in record.notes] == ["tag ghost"]


def test_the_system_prompt_and_the_tools_beside_the_turns() -> None:
    tools = '[{"name": "a"}, {"function": {"name": "b"}}, 5]'
    _, events = read(build_rows(("human", "h"), system="s", tools=tools))
    assert summarize_events(events) == [
        ("system", "s"),
        ("annotation", {"kind": "tools", "names": ["a", "b"]}),
        ("user", "h"),
    ]


@pytest.mark.parametrize(
    ("value", "tool", "arguments"),
    [
        ('{"name": "f", "arguments": {"x": 1}}', "f", {"x": 1}),
        ('{"name": "f", "arguments": "{\\"x\\": 1}"}', "f", {"x": 1}),
        ('{"function": {"name": "f", "arguments": {}}}', "f", {}),
        ('{"name": "f", "parameters": [1]}', "f", [1]),
        ('{"name": "f"}', "f", {}),
        ("f(1)", "tool", {"raw": "f(1)"}),
        ('{"x": 1}', "tool", {"x": 1}),
        (None, "tool", {}),
        (5, "tool", {"raw": "5"}),
    ],
)
def test_calls(value: Any, tool: str, arguments: Any) -> None:
    _, events = read(build_rows(("function_call", value), ("observation", "out")))
    assert events[0]["content"]["data"] == {"tool_name": tool, "arguments": arguments}
    assert summarize_events(events[1:]) == [("tool", "out")]
    assert events[0]["links"] == events[1]["links"]


def test_calls_and_results_pair_by_order() -> None:
    calls = '[{"name": "a"}, {"name": "b"}]'
    _, events = read(
        build_rows(
            ("function_call", calls),
            ("observation", "1"),
            ("observation", "2"),
            ("function_call", '{"name": "c"}'),
        )
    )
    results = {
        e["links"]["call_id"]: e["content"].get("text")
        for e in events
        if e["type"] == "tool_result"
    }
    uses = [e for e in events if e["type"] == "tool_use"]
    assert [(u["content"]["data"]["tool_name"], results[u["links"]["call_id"]]) for u in uses] == [
        *(("a", "1"), ("b", "2"), ("c", None)),
    ]


def test_media_follow_their_placeholders() -> None:
    turns = [
        {"role": "user", "content": "<image>a<image>"},
        {"role": "user", "content": "b<video>"},
    ]
    _, events = read(
        [{"messages": turns, "images": ["1.jpg", "2.jpg", "3.jpg"], "videos": ["v.mp4"]}]
    )
    assert [event["content"]["data"] for event in events] == [
        [
            {"type": "text", "text": "<image>a<image>"},
            *({"type": "image", "url": f"{n}.jpg"} for n in (1, 2)),
        ],
        [{"type": "text", "text": "b<video>"}, {"type": "video", "url": "v.mp4"}],
        {"kind": "attachment", "images": ["3.jpg"]},
    ]


@pytest.mark.parametrize("name", ["images", "videos", "audios"])
def test_messages_with_media_are_nobody_elses(name: str) -> None:
    value = [{"messages": [{"role": "user", "content": "x"}], name: ["1"]}]
    assert detect_format(Source("x", data=json.dumps(value).encode())) == "sharegpt"
    assert detect_format(Source("x", data=json.dumps(value[0]).encode())) == "sharegpt"


def test_the_worse_answer_is_a_branch() -> None:
    value = build_rows(
        ("human", "q"),
        chosen={"from": "gpt", "value": "good"},
        rejected={"from": "gpt", "value": "bad"},
    )
    assert summarize_events(read(value)[1]) == [("user", "q"), ("assistant", "good")]
    kinds = [
        event["content"].get("text", event["type"]) for event in read(value, branches="all")[1]
    ]
    assert kinds == ["q", "span_start", "bad", "span_end", "good"]


def test_other_columns_are_labels() -> None:
    _, events = read(
        build_rows(("human", "h"), ("gpt", "g"), id="i", score=0.5, topic=None, tools="none")
    )
    assert summarize_events(events) == [
        ("annotation", {"kind": "labels", "labels": {"score": 0.5}}),
        ("annotation", {"kind": "labels", "labels": {"tools": "none"}}),
        ("user", "h"),
        ("assistant", "g"),
    ]


def test_lines_and_choice() -> None:
    rows = build_rows(("human", "one")) + build_rows(("human", "two"), id="x")
    lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
    for data in (lines, json.dumps(rows).encode()):
        source = Source("x", data=data)
        assert detect_format(source) == "sharegpt"
        found = READER.list_conversations(source)
        assert [(item.id, item.title, item.messages) for item in found] == [
            ("1", "one", 1),
            ("x", "two", 1),
        ]
    assert READER.find_owner(Source("x", data=lines), "/1", rows[0]) == "1"
    assert READER.find_owner(Source("x", data=lines), "/2", rows[1]) == "x"


@pytest.mark.parametrize(
    "value",
    [
        [{"messages": [{"role": "user", "content": "x"}]}],
        {"conversations": [{"conversation": {}, "responses": []}]},
        {"conversations": [{"uuid": "a", "chat_messages": []}]},
        [{"conversations": "x"}],
        [{"messages": [5], "images": []}],
        [],
    ],
)
def test_what_is_not_claimed(value: Any) -> None:
    assert not READER.sniff(Source("x", data=json.dumps(value).encode()))


@pytest.mark.parametrize(
    "turn", [(5, "x"), ([], {}), ("gpt", {"a": 1}), ("human", None), ("observation", [1])]
)
def test_hostile_turns(turn: tuple[Any, Any]) -> None:
    value = build_rows(
        ("human", "said"), turn, tools=5, system=[], images={"a": 1}, chosen=5, model=[]
    )
    assert ("user", "said") in summarize_events(read(value)[1])


def test_real_data_is_reported_whole(corpus: Path) -> None:
    for path in sorted((corpus / "sharegpt").glob("*.json")):
        reader, made = everything(path)
        rows = json.loads(path.read_text())
        assert (reader, len(made)) == ("sharegpt", len(rows))
        said = join_texts(made)
        for row in rows:
            for turn in row.get("conversations", row.get("messages")):
                tag, value = (
                    turn.get("from", turn.get("role")),
                    turn.get("value", turn.get("content")),
                )
                texts = words(json.loads(value)) if tag == "function_call" else [value]
                assert all(text in said for text in texts)
        calls = [
            event
            for document in made
            for event in document["events"]
            if event["type"] == "tool_use"
        ]
        results = [
            event
            for document in made
            for event in document["events"]
            if event["type"] == "tool_result"
        ]
        assert len(calls) == len(results)
        assert not any(
            event["content"].get("data") == {"missing_result": True} for event in results
        )
