"""The ChatGPT export: the shown line, branches, calls by recipient, results by place, content
types, hostile shapes."""

import json
from pathlib import Path
from typing import Any

import pytest

from open_token.registry import READERS
from open_token.sources.source import Source
from readers.exported import documents, everything, join_texts
from readers.provider_readers import build_read_function, summarize_events

READER = READERS["chatgpt_export"]

read = build_read_function(READER)
BRANCHES = {"branches": "all"}


def message(role: str, content: Any, **more: Any) -> dict[str, Any]:
    content = {"content_type": "text", "parts": [content]} if isinstance(content, str) else content
    author = {"role": role, "name": more.pop("name", None), "metadata": {}}
    return {
        "author": author,
        "content": content,
        "create_time": more.pop("at", None),
        "metadata": {},
        **more,
    }


def line(*messages: dict[str, Any] | None, **more: Any) -> list[dict[str, Any]]:
    """A conversation without branches."""
    mapping = {}
    for number, item in enumerate(messages):
        parent = f"n{number - 1}" if number else None
        mapping[f"n{number}"] = {
            "id": f"n{number}",
            "parent": parent,
            "children": [f"n{number + 1}"],
            "message": item,
        }
    return [{"title": "T", "mapping": mapping, "current_node": f"n{len(messages) - 1}", **more}]


def tree(current: str, **parents: str | None) -> list[dict[str, Any]]:
    """A conversation whose messages say their own keys."""
    mapping = {
        key: {"parent": parent, "children": [], "message": message("user", key)}
        for key, parent in parents.items()
    }
    return [{"mapping": mapping, "current_node": current}]


def test_facts_of_the_conversation() -> None:
    record, events = read(
        line(
            None,
            message("user", "hi", at=1750537483.102),
            message("assistant", "ho", at=1750537483.0234, metadata={"model_slug": "gpt-4o"}),
            conversation_id="c1",
            id="c1",
            create_time=1750537482.97,
            default_model_slug="gpt-5",
        )
    )
    facts = record.conversation
    assert (facts["id"], facts["title"], facts["source_runtime"], facts["provider"]) == (
        "c1",
        "T",
        "web",
        "openai",
    )
    assert facts["started_at"] == "2025-06-21T20:24:42.970Z"
    assert [event["ts"] for event in events] == [
        "2025-06-21T20:24:43.102Z",
        "2025-06-21T20:24:43.023400Z",
    ]
    assert record.participants[1]["model"] == "gpt-4o"
    assert record.participants[1]["provider"] == "openai"


def test_the_line_of_the_current_node_is_reported() -> None:
    _, events = read(tree("d", a=None, b="a", c="a", d="c", e="b"))
    assert [text for _, text in summarize_events(events)] == ["a", "c", "d"]


def test_branches_stand_where_they_fork() -> None:
    _, events = read(tree("d", a=None, b="a", c="a", d="c", e="b"), **BRANCHES)
    assert [event["content"].get("text", event["type"]) for event in events] == [
        *("a", "span_start", "b", "e", "span_end", "c", "d"),
    ]


def test_the_order_of_siblings_is_that_of_their_parent() -> None:
    value = tree("z", root=None, m="root", z="root", b="root")
    value[0]["mapping"]["root"]["children"] = ["b", "m", "z"]
    _, events = read(value, **BRANCHES)
    assert [event["content"]["text"] for event in events if event["type"] == "message"] == [
        "root",
        "b",
        "m",
        "z",
    ]


def test_parents_may_be_named_by_children_only() -> None:
    value = tree("b", a=None, b=None)
    value[0]["mapping"]["a"]["children"] = ["b"]
    del value[0]["mapping"]["b"]["parent"]
    _, events = read(value)
    assert [text for _, text in summarize_events(events)] == ["a", "b"]


@pytest.mark.parametrize("current", [None, "gone", 5, []])
def test_without_a_current_node_the_last_message_ends_the_line(current: Any) -> None:
    value = tree("x", a=None, b="a", c="a")
    value[0]["current_node"] = current
    assert [text for _, text in summarize_events(read(value)[1])] == ["a", "c"]


def test_what_is_hidden_or_discarded_is_internal() -> None:
    hidden = {"metadata": {"is_visually_hidden_from_conversation": True}}
    _, events = read(
        line(
            message("system", "prompt"),
            message("user", "context", **hidden),
            message("assistant", "memory", **hidden),
            message("user", "dropped", weight=0.0),
            message("user", "said", weight=1.0),
        )
    )
    shown = [
        (event["content"]["text"], event["visibility"])
        for event in events
        if event["type"] == "message"
    ]
    assert shown == [
        *(
            ("prompt", "internal"),
            ("context", "internal"),
            ("memory", "internal"),
            ("dropped", "internal"),
        ),
        ("said", "public"),
    ]
    assert [event["content"]["data"] for event in events if event["type"] == "annotation"] == [
        {"kind": "message_facts", "discarded": True}
    ]


def test_custom_instructions_are_reported_once() -> None:
    data = {"about_user_message": "I sail.", "about_model_message": "Be brief."}
    metadata = {"is_user_system_message": True, "user_context_message_data": data}
    context = {
        "content_type": "user_editable_context",
        "user_profile": "",
        "user_instructions": "```Be brief.```",
    }
    _, events = read(line(message("user", context, metadata=metadata)))
    assert summarize_events(events) == [
        (
            "user",
            [{"type": "text", "text": "```Be brief.```"}, {"type": "text", "text": "I sail."}],
        ),
    ]


@pytest.mark.parametrize(
    ("content", "arguments"),
    [
        (
            {"content_type": "code", "language": "python", "text": "1+1"},
            {"code": "1+1", "language": "python"},
        ),
        ({"content_type": "code", "language": "unknown", "text": "go(1)"}, {"code": "go(1)"}),
        ({"content_type": "code", "language": "json", "text": '{"q": [1]}'}, {"q": [1]}),
        ("plain words", {"raw": "plain words"}),
        ('{"prompt": "x"}', {"prompt": "x"}),
    ],
)
def test_a_recipient_makes_a_call(content: Any, arguments: Any) -> None:
    _, events = read(
        line(
            message("assistant", content, recipient="tool.x"), message("tool", "out", name="tool.x")
        )
    )
    assert events[0]["content"]["data"] == {"tool_name": "tool.x", "arguments": arguments}
    assert summarize_events(events[1:]) == [("tool", "out")]
    assert events[0]["links"]["call_id"] == events[1]["links"]["call_id"]


def calls(*tools: str) -> list[dict[str, Any]]:
    return [
        message("assistant", f"call {number}", recipient=tool) for number, tool in enumerate(tools)
    ]


def pairs(events: list[Any]) -> list[tuple[Any, Any]]:
    """What each call was given, and what came of it."""
    results = {
        event["links"]["call_id"]: event["content"]
        for event in events
        if event["type"] == "tool_result"
    }
    return [
        (
            event["content"]["data"]["arguments"]["raw"],
            results[event["links"]["call_id"]].get("text"),
        )
        for event in events
        if event["type"] == "tool_use"
    ]


def test_results_are_paired_by_name_and_order() -> None:
    outputs = [
        message("tool", text, name=name)
        for name, text in (("b", "to b"), ("a", "to a"), ("a.x", "second a"))
    ]
    _, events = read(line(*calls("a", "b", "a.y"), *outputs))
    assert pairs(events) == [("call 0", "to a"), ("call 1", "to b"), ("call 2", "second a")]


def test_a_result_without_a_name_answers_the_call_above_it() -> None:
    _, events = read(line(*calls("a", "b"), message("tool", "out")))
    assert pairs(events) == [("call 0", None), ("call 1", "out")]


def test_several_messages_of_a_tool_are_one_result() -> None:
    quote = {
        "content_type": "tether_quote",
        "url": "u",
        "domain": "d",
        "title": "t",
        "text": "q",
        "tether_id": None,
    }
    _, events = read(
        line(
            *calls("browser"),
            message("tool", quote, name="browser"),
            message("tool", "x", name="browser"),
        )
    )
    shown = [
        {"type": "tether_quote", "url": "u", "domain": "d", "title": "t", "text": "q"},
        {"type": "text", "text": "x"},
    ]
    assert summarize_events(events[1:]) == [("tool", shown)]


def test_a_call_that_the_person_cut_off_takes_no_later_result() -> None:
    _, events = read(line(*calls("a"), message("user", "stop"), message("tool", "late", name="a")))
    assert pairs(events) == [("call 0", None)]
    assert events[1]["content"]["data"] == {"missing_result": True}
    assert events[-1]["content"]["data"]["kind"] == "orphan_result"


def test_a_branch_does_not_answer_a_call_of_the_line() -> None:
    nodes = {
        "c": {"parent": None, "message": calls("a")[0]},
        "left": {"parent": "c", "message": message("tool", "left", name="a")},
        "kept": {"parent": "c", "message": message("tool", "kept", name="a")},
    }
    _, events = read([{"mapping": nodes, "current_node": "kept"}])
    assert pairs(events) == [("call 0", "kept")]


def test_facts_of_a_result() -> None:
    failed = {
        "aggregate_result": {
            "status": "failed",
            "messages": [{"image_url": "file-service://file-1"}, 5],
        }
    }
    output = {"content_type": "execution_output", "text": "boom"}
    record, events = read(
        line(*calls("python"), message("tool", output, name="python", metadata=failed))
    )
    assert events[1]["content"]["data"] == [
        {"type": "text", "text": "boom"},
        {"type": "image", "url": "file-service://file-1"},
    ]
    assert events[2]["content"]["data"] == {"kind": "result_facts", "status": "failed"}
    assert [note.code for note in record.notes] == ["missing-file"]


def test_thoughts_with_their_titles() -> None:
    thoughts = [
        {"summary": "Title", "content": "Words.", "chunks": ["Words."]},
        {"summary": "Only a title", "content": ""},
        {"content": "Only words."},
        {"chunks": ["a", "b", 3]},
        "text",
        7,
    ]
    record, events = read(
        line(message("assistant", {"content_type": "thoughts", "thoughts": thoughts}))
    )
    assert [(event["content"]["text"], event["content"].get("data")) for event in events] == [
        ("Title", {"summary": "runtime"}),
        ("Words.", None),
        ("Only a title", {"summary": "runtime"}),
        ("Only words.", None),
        ("ab", None),
        ("text", None),
    ]
    assert {event["role"] for event in events} == {"assistant_thought"}
    assert record.conversation["internal_availability"] == "available"


def test_a_recap_is_no_thought() -> None:
    recap = {"content_type": "reasoning_recap", "content": "Thought for 6s"}
    record, events = read(line(message("assistant", recap, metadata={"finished_duration_sec": 6})))
    assert events[0]["content"]["data"] == {
        "kind": "reasoning_recap",
        "text": "Thought for 6s",
        "finished_duration_sec": 6,
    }
    assert record.conversation["internal_availability"] == "unavailable"


def test_unknown_content_is_kept_and_noted() -> None:
    record, events = read(
        line(message("assistant", {"content_type": "hologram", "light": "blue", "x": None}))
    )
    assert summarize_events(events) == [("assistant", [{"type": "hologram", "light": "blue"}])]
    assert [(note.code, note.detail) for note in record.notes] == [
        ("unknown-content", "content hologram, preserved verbatim"),
    ]


def test_parts_of_all_kinds() -> None:
    pointer = {
        "content_type": "image_asset_pointer",
        "asset_pointer": "sediment://file_1",
        "width": 2,
        "size_bytes": 9,
    }
    spoken = {"content_type": "audio_transcription", "text": "hello", "direction": "in"}
    parts = ["a", "", pointer, spoken, {"content_type": "new"}, {"odd": 1}, None, 4]
    _, events = read(line(message("user", {"content_type": "multimodal_text", "parts": parts})))
    assert events[0]["content"]["data"] == [
        {"type": "text", "text": "a"},
        {"type": "image", "url": "sediment://file_1", "width": 2, "bytes": 9},
        {"type": "audio_transcription", "text": "hello", "direction": "in"},
        {"type": "new"},
        {"odd": 1},
        4,
    ]


def test_a_picture_beside_the_file_is_put_in(tmp_path: Path) -> None:
    pointer = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://file-Ab1"}
    value = line(message("user", {"content_type": "multimodal_text", "parts": [pointer]}))
    (tmp_path / "conversations.json").write_text(json.dumps(value))
    (tmp_path / "file-Ab1-photo.png").write_bytes(b"\x89PNG\r\n\x1a\nx")
    (made,) = documents(Source.of(tmp_path / "conversations.json"))
    block = made["events"][0]["content"]["data"][0]
    assert (block["media_type"], block["bytes"], block["url"]) == (
        "image/png",
        9,
        "file-service://file-Ab1",
    )


@pytest.mark.parametrize(
    "node",
    [
        *(
            None,
            5,
            [],
            {},
            {"message": 5},
            {"message": {}},
            {"message": {"author": 5, "content": 5}},
        ),
        {"message": {"author": {"role": []}, "content": {"content_type": {}, "parts": 5}}},
        {
            "message": {
                "author": {"role": "user"},
                "content": {"content_type": "text", "parts": {"a": 1}},
            }
        },
        {
            "message": {
                "author": {"role": "assistant"},
                "content": {"content_type": "thoughts", "thoughts": {}},
            }
        },
        {
            "message": {
                "author": {"role": "assistant"},
                "recipient": [],
                "metadata": 5,
                "content": "x",
            }
        },
        {
            "message": {
                "author": {"role": "tool"},
                "metadata": {"aggregate_result": [], "attachments": [5]},
            }
        },
        {
            "message": {
                "author": {"role": "user"},
                "create_time": 1e300,
                "metadata": {"attachments": {"id": 1}},
            }
        },
        {
            "parent": 5,
            "children": {"a": 1},
            "message": {"author": {"role": "user"}, "weight": [], "status": {}},
        },
    ],
)
def test_hostile_nodes(node: Any) -> None:
    value = line(message("user", "said"))
    value[0]["mapping"]["odd"] = node
    _, events = read(value, **BRANCHES)
    assert ("user", "said") in summarize_events(events)


@pytest.mark.parametrize(
    "value",
    [
        [{"mapping": {"a": {"id": 1}}}],
        [{"mapping": []}],
        {"mapping": "x"},
        [{"messages": []}],
        [[]],
    ],
)
def test_what_is_not_claimed(value: Any) -> None:
    assert not READER.sniff(Source("x", data=json.dumps(value).encode()))


def test_a_list_says_what_it_holds() -> None:
    value = line(message("user", "a"), None, conversation_id="c1", create_time=0, update_time=1.5)
    (found,) = READER.list_conversations(Source("x", data=json.dumps(value).encode()))
    assert (found.id, found.title, found.messages) == ("c1", "T", 1)
    assert (found.started_at, found.updated_at) == (
        "1970-01-01T00:00:00Z",
        "1970-01-01T00:00:01.500Z",
    )


def test_real_exports_are_reported_whole(corpus: Path) -> None:
    for path in sorted((corpus / "chatgpt_export").glob("*.json")):
        reader, made = everything(path)
        assert reader == "chatgpt_export"
        said = join_texts(made)
        for conversation in json.loads(path.read_text()):
            for node in conversation["mapping"].values():
                content = (node["message"] or {}).get("content", {})
                assert all(part in said for part in content.get("parts", []) if part)
                assert content.get("user_instructions", "") in said
