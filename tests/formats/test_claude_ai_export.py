"""The Claude.ai export: blocks, thoughts, calls without ids, attachments, the tree of the API's
form."""

import json
from pathlib import Path
from typing import Any

import pytest

from open_token.registry import READERS
from open_token.sources.source import Source
from readers.exported import everything, join_texts, words
from readers.provider_readers import build_read_function, summarize_events

READER = READERS["claude_ai_export"]

read = build_read_function(READER)


def build_export(*messages: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    return [
        {
            "uuid": "c1",
            "name": "N",
            "created_at": "2026-01-01T00:00:00Z",
            "chat_messages": list(messages),
            **more,
        }
    ]


def human(*blocks: Any, **more: Any) -> dict[str, Any]:
    return {
        "sender": "human",
        "content": [text(b) if isinstance(b, str) else b for b in blocks],
        **more,
    }


def model(*blocks: Any, **more: Any) -> dict[str, Any]:
    return {**human(*blocks, **more), "sender": "assistant"}


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, "citations": [], **more}


def call(name: str, given: Any, native: str | None = None) -> dict[str, Any]:
    return {"type": "tool_use", "id": native, "name": name, "input": given}


def result(name: str | None, output: Any, native: str | None = None, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": native, "name": name, "content": output, **more}


def test_facts_of_the_conversation() -> None:
    record, events = read(
        build_export(human("hi", created_at="2026-01-01T00:00:01.5Z"), model("ho"))
    )
    facts = record.conversation
    assert (facts["id"], facts["title"], facts["started_at"]) == ("c1", "N", "2026-01-01T00:00:00Z")
    assert (facts["source_runtime"], facts["provider"]) == ("web", "anthropic")
    assert summarize_events(events) == [("user", "hi"), ("assistant", "ho")]
    assert events[0]["ts"] == "2026-01-01T00:00:01.5Z"
    assert "ts" not in events[1]
    assert "model" not in record.participants[1]


def test_blocks_have_times_of_their_own() -> None:
    _, events = read(
        build_export(
            model(
                {"type": "thinking", "thinking": "t", "start_timestamp": "2026-01-01T00:00:02Z"},
                text("a", start_timestamp="2026-01-01T00:00:03Z"),
                created_at="2026-01-01T00:00:01Z",
            )
        )
    )
    assert [event["ts"] for event in events] == ["2026-01-01T00:00:02Z", "2026-01-01T00:00:03Z"]


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (human("new", text="old"), "new"),
        (human("", text="old"), "old"),
        (human(text="old"), "old"),
        ({"sender": "human", "content": None, "text": "old"}, "old"),
        ({"sender": "human", "content": "plain"}, "plain"),
        (human(""), ""),
        ({"sender": "human"}, ""),
    ],
)
def test_the_words_are_reported_once(message: dict[str, Any], said: str) -> None:
    assert summarize_events(read(build_export(message))[1]) == [("user", said)]


def test_thoughts_and_their_summaries() -> None:
    thought = {
        "type": "thinking",
        "thinking": "Words.",
        "summaries": [{"summary": "Short"}, {}, 5],
        "cut_off": True,
    }
    record, events = read(
        build_export(
            model(thought, {"type": "redacted_thinking"}, {"type": "thinking", "thinking": ""})
        )
    )
    assert [event["content"].get("text", event["content"].get("data")) for event in events] == [
        *(
            "Short",
            "Words.",
            {"kind": "message_facts", "cut_off": True},
            {"redacted": True, "encrypted": True},
        ),
    ]
    assert [(note.code, note.detail) for note in record.notes] == [
        ("empty-reasoning", "a summary without text"),
        ("empty-reasoning", "a thought without text"),
    ]


def test_calls_without_ids_are_paired_within_their_message() -> None:
    _, events = read(
        build_export(
            model(call("search", {"q": "cancelled"})),
            model(
                call("search", {"q": 1}),
                call("fetch", {"q": 2}),
                call("search", {"q": 3}),
                result("search", "one"),
            ),
        )
    )
    results = {e["links"]["call_id"]: e["content"] for e in events if e["type"] == "tool_result"}
    uses = [e for e in events if e["type"] == "tool_use"]
    assert [results[use["links"]["call_id"]].get("text") for use in uses] == [
        None,
        "one",
        None,
        None,
    ]


def test_results_keep_blocks_and_facts() -> None:
    blocks = [
        {"type": "knowledge", "title": "T", "url": "u", "flags": None},
        {"type": "text", "text": "x"},
    ]
    _, events = read(
        build_export(
            model(
                call("a", {}, "t1"),
                result("a", blocks, "t1", is_error=True),
                call("b", None, "t2"),
                result("b", [], "t2", structured_content={"n": 1}),
            )
        )
    )
    assert events[1]["content"]["data"] == [
        {"type": "knowledge", "title": "T", "url": "u"},
        {"type": "text", "text": "x"},
    ]
    assert events[2]["content"]["data"] == {"kind": "result_facts", "is_error": True}
    assert events[3]["content"]["data"]["arguments"] == {}
    assert events[4]["content"]["data"] == {"n": 1}


def test_attachments_and_files() -> None:
    attached = [
        {"file_name": "a.txt", "file_size": 3, "file_type": "txt", "extracted_content": "abc"},
        {},
        5,
    ]
    files = [
        {"file_uuid": "f1", "file_name": "p.png"},
        {"file_name": "q.pdf", "file_kind": "document"},
    ]
    _, events = read(
        build_export(human("see", attachments=attached, files=files, files_v2=files[:1]))
    )
    assert events[0]["content"]["data"] == [
        {"type": "text", "text": "see"},
        {"type": "document", "name": "a.txt", "media_type": "txt", "bytes": 3, "text": "abc"},
        {"type": "document"},
        {"type": "file", "name": "p.png", "id": "f1"},
        {"type": "document", "name": "q.pdf"},
    ]


def test_one_answer_cut_by_its_sources() -> None:
    cited = text("moss", citations=[{"url": "u"}])
    _, events = read(build_export(model(text("Green "), cited, text("."))))
    assert summarize_events(events) == [
        ("assistant", "Green moss."),
        (
            "annotation",
            {
                "kind": "message_facts",
                "citations": [{"start": 6, "end": 10, "citation": {"url": "u"}}],
            },
        ),
    ]


def test_marks_of_the_runtime() -> None:
    record, events = read(
        build_export(
            human("x", {"type": "token_budget"}, {"type": "flag", "flag": "tip", "helpline": None})
        )
    )
    assert summarize_events(events) == [
        ("user", "x"),
        ("annotation", {"kind": "flag", "flag": "tip"}),
    ]
    assert [note.code for note in record.notes] == ["token-budget"]


def tree(leaf: Any, **parents: str | None) -> list[dict[str, Any]]:
    messages = [human(key, uuid=key, parent_message_uuid=parent) for key, parent in parents.items()]
    return build_export(*messages, current_leaf_message_uuid=leaf)


def test_the_line_of_the_current_leaf_is_reported() -> None:
    value = tree("d", a="root", b="a", c="a", d="b", e="c")
    assert [said for _, said in summarize_events(read(value)[1])] == ["a", "b", "d"]
    _, events = read(value, branches="all")
    kinds = [event["content"].get("text", event["type"]) for event in events]
    assert kinds == ["a", "span_start", "c", "e", "span_end", "b", "d"]


@pytest.mark.parametrize("leaf", [None, "gone", 5])
def test_without_a_leaf_the_last_message_ends_the_line(leaf: Any) -> None:
    assert [said for _, said in summarize_events(read(tree(leaf, a="root", b="a", c="a"))[1])] == [
        "a",
        "c",
    ]


def test_parents_that_say_nothing_make_a_line() -> None:
    assert [said for _, said in summarize_events(read(tree(None, a=None, b=None, c=None))[1])] == [
        "a",
        "b",
        "c",
    ]


def test_the_same_id_twice_loses_nothing() -> None:
    value = build_export(human("a", uuid="m"), human("b", uuid="m"), human("c"))
    assert [said for _, said in summarize_events(read(value)[1])] == ["a", "b", "c"]


def test_the_model_of_the_api() -> None:
    record, events = read(
        build_export(model("x", stop_reason="refusal"), model="claude-opus-4-5", summary="S")
    )
    assert record.participants[1]["model"] == "claude-opus-4-5"
    assert summarize_events(events) == [
        ("annotation", {"kind": "context", "summary": "S"}),
        ("assistant", "x"),
        ("annotation", {"kind": "message_facts", "stop_reason": "refusal"}),
    ]


@pytest.mark.parametrize(
    "message",
    [
        *(
            None,
            5,
            [],
            {},
            {"sender": 5},
            {"sender": "tool", "text": "x"},
            {"sender": "human", "content": {}},
        ),
        {
            "sender": "human",
            "content": [None, 5, {}, {"type": []}, {"type": "text", "text": 5}],
            "attachments": 5,
        },
        {
            "sender": "assistant",
            "content": [{"type": "tool_use", "input": "x", "name": 5, "id": []}],
        },
        {
            "sender": "assistant",
            "content": [{"type": "tool_result", "tool_use_id": {}, "content": 5}],
        },
        {
            "sender": "assistant",
            "content": [{"type": "thinking", "thinking": [], "summaries": 5}],
            "uuid": [],
        },
        {
            "sender": "human",
            "files": [{"file_name": [], "file_uuid": 5}],
            "parent_message_uuid": [],
            "text": [],
        },
    ],
)
def test_hostile_messages(message: Any) -> None:
    _, events = read(build_export(human("said", uuid="m"), message), branches="all")
    assert ("user", "said") in summarize_events(events)


def test_a_list_says_what_it_holds() -> None:
    value = build_export(human("a"), model("b"), updated_at="2026-01-02T00:00:00Z")
    (found,) = READER.list_conversations(Source("x", data=json.dumps(value).encode()))
    assert (found.id, found.title, found.messages, found.updated_at) == (
        "c1",
        "N",
        2,
        "2026-01-02T00:00:00Z",
    )


def test_real_exports_are_reported_whole(corpus: Path) -> None:
    for path in sorted((corpus / "claude_ai_export").glob("*.json")):
        reader, made = everything(path)
        source = json.loads(path.read_text())
        assert (reader, len(made)) == ("claude_ai_export", len(source))
        said = join_texts(made)
        for conversation, document in zip(source, made, strict=True):
            turns = [event for event in document["events"] if event["type"] == "message"]
            assert len(turns) >= len(conversation["chat_messages"])
            for message in conversation["chat_messages"]:
                assert all(
                    text in said
                    for text in words([message["text"], message["content"]])
                    if " " in text
                )
