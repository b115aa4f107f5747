"""The Grok export: senders, times, thoughts, steps, images and files, the tree of responses."""

import io
import json
import zipfile
from typing import Any

import pytest

from open_token.registry import READERS, detect_format
from open_token.sources.source import Source
from readers.exported import documents
from readers.provider_readers import build_read_function, summarize_events

READER = READERS["grok_export"]

read = build_read_function(READER)


def export(*responses: Any, **about: Any) -> dict[str, Any]:
    wrapped = [{"response": response, "share_link": None} for response in responses]
    facts = {"id": "g1", "title": "T", "create_time": "2026-01-01T00:00:00.5Z", **about}
    return {"conversations": [{"conversation": facts, "responses": wrapped}], "projects": []}


def test_facts_and_senders() -> None:
    record, events = read(
        export(
            {"sender": "human", "message": "hi"},
            {"sender": "ASSISTANT", "message": "a", "model": "grok-4"},
            {"sender": "grok-3", "message": "b"},
            {"sender": "assistant", "message": "c"},
        )
    )
    facts = record.conversation
    assert (facts["id"], facts["title"], facts["started_at"]) == (
        "g1",
        "T",
        "2026-01-01T00:00:00.5Z",
    )
    assert (facts["source_runtime"], facts["provider"]) == ("web", "other")
    assert summarize_events(events) == [
        ("user", "hi"),
        ("assistant", "a"),
        ("assistant", "b"),
        ("assistant", "c"),
    ]
    assert [who.get("model") for who in record.participants] == [None, "grok-4", "grok-3", None]
    assert {who.get("provider") for who in record.participants} == {None, "xai"}


@pytest.mark.parametrize("name", ["response_id", "_id", "responseId", "id", "someday"])
def test_an_unknown_id_field_keeps_the_line(name: str) -> None:
    responses = [
        {name: f"r{n}", "parent_response_id": f"r{n - 1}", "sender": "human", "message": str(n)}
        for n in range(1, 11)
    ]
    record, events = read(export(*responses))
    assert summarize_events(events) == [("user", str(n)) for n in range(1, 11)]
    assert record.notes == []


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ({"$date": {"$numberLong": "1770109201500"}}, "2026-02-03T09:00:01.500Z"),
        ({"$date": {"$numberLong": 1770109201500}}, "2026-02-03T09:00:01.500Z"),
        ({"$date": "2026-02-03T09:00:01Z"}, "2026-02-03T09:00:01Z"),
        ({"$date": 1770109201500}, "2026-02-03T09:00:01.500Z"),
        ("2026-02-03T10:00:01+01:00", "2026-02-03T09:00:01Z"),
        (1770109201500, "2026-02-03T09:00:01.500Z"),
        *(
            (value, None)
            for value in (
                None,
                "",
                {},
                [],
                {"$date": {}},
                {"$date": {"$numberLong": "9" * 40}},
                True,
            )
        ),
    ],
)
def test_times(time: Any, expected: str | None) -> None:
    assert (
        read(export({"sender": "human", "message": "x", "create_time": time}))[1][0].get("ts")
        == expected
    )


def test_thoughts_of_the_model_and_of_its_agents() -> None:
    traces = [
        {"agent_id": "a7", "thinking_trace": "other"},
        {"agent_id": "a8", "thinking_trace": "own"},
        "loose",
        5,
    ]
    record, events = read(
        export(
            {
                "sender": "assistant",
                "message": "x",
                "thinking_trace": "own",
                "agent_thinking_traces": traces,
            }
        )
    )
    assert summarize_events(events) == [
        *(
            ("assistant_thought", "own"),
            ("assistant_thought", "other"),
            ("assistant_thought", "loose"),
        ),
        ("assistant", "x"),
    ]
    assert [who.get("instance_id") for who in record.participants] == [None, "a7"]


def test_images_sources_errors_and_steps() -> None:
    record, events = read(
        export(
            {
                "sender": "assistant",
                "message": "",
                "generated_image_urls": ["u.jpg"],
                "query": "a cat",
                "query_type": "imagine",
                "steps": [{"tagged_text": {}}],
                "cited_web_search_results": [{"url": "w"}],
                "error": "Failed",
                "file_attachments": [{"asset_id": "f1"}, 5],
            }
        )
    )
    assert summarize_events(events) == [
        ("annotation", {"kind": "steps", "steps": [{"tagged_text": {}}]}),
        ("assistant", [{"type": "image", "url": "u.jpg"}, {"type": "file", "id": "f1"}]),
        (
            "annotation",
            {
                "kind": "message_facts",
                "citations": [{"url": "w"}],
                "query": "a cat",
                "query_type": "imagine",
            },
        ),
        ("annotation", {"kind": "error", "error": "Failed"}),
    ]
    assert [note.code for note in record.notes] == ["missing-file"]


def tree(leaf: Any, id_field: str = "_id", **parents: str | None) -> dict[str, Any]:
    made = [
        {id_field: k, "sender": "human", "message": k, "parent_response_id": p}
        for k, p in parents.items()
    ]
    return export(*made, leaf_response_id=leaf)


@pytest.mark.parametrize("id_field", ["response_id", "_id", "responseId", "id"])
def test_branches(id_field: str) -> None:
    value = tree("d", id_field, a=None, b="a", c="a", d="b")
    assert [said for _, said in summarize_events(read(value)[1])] == ["a", "b", "d"]
    kinds = [
        event["content"].get("text", event["type"]) for event in read(value, branches="all")[1]
    ]
    assert kinds == ["a", "span_start", "c", "span_end", "b", "d"]
    assert [said for _, said in summarize_events(read(tree(None, a=None, b="a", c="a"))[1])] == [
        "a",
        "c",
    ]


def test_without_parents_it_is_a_line() -> None:
    assert [said for _, said in summarize_events(read(tree(None, a=None, b=None, c=None))[1])] == [
        "a",
        "b",
        "c",
    ]


def test_the_zip_as_it_comes() -> None:
    value = export({"sender": "human", "message": "see", "file_attachments": ["0" * 32]})
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as packed:
        packed.writestr("ttl/30d/export_data/u/prod-grok-backend.json", json.dumps(value))
        packed.writestr(
            f"ttl/30d/export_data/u/prod-mc-asset-server/{'0' * 32}/content", b"print(1)\n"
        )
    source = Source("x", data=out.getvalue())
    assert detect_format(source) == "grok_export"
    (made,) = documents(source)
    assert made["events"][0]["content"]["data"][1]["base64"] == "cHJpbnQoMSkK"


@pytest.mark.parametrize(
    "response",
    [
        *({}, {"sender": 5, "message": []}, {"message": "x", "_id": [], "parent_response_id": {}}),
        {
            "sender": "human",
            "file_attachments": 5,
            "generated_image_urls": {"a": 1},
            "image_attachments": [None, {}],
        },
        {
            "sender": "assistant",
            "thinking_trace": 5,
            "agent_thinking_traces": {},
            "steps": 5,
            "model": [],
            "query": [],
        },
    ],
)
def test_hostile_responses(response: Any) -> None:
    _, events = read(
        export({"_id": "r", "sender": "human", "message": "said"}, response), branches="all"
    )
    assert ("user", "said") in summarize_events(events)


@pytest.mark.parametrize(
    "value",
    [
        {"conversations": []},
        {"conversations": [{"from": "human", "value": "x"}]},
        {"conversations": [{"conversation": {}, "responses": [5]}]},
        {"conversation": 5, "responses": []},
        [{"responses": []}],
    ],
)
def test_what_is_not_claimed(value: Any) -> None:
    assert not READER.sniff(Source("x", data=json.dumps(value).encode()))


def test_one_conversation_and_a_list_of_them() -> None:
    (one,) = export({"sender": "human", "message": "x"})["conversations"]
    assert summarize_events(read(one)[1]) == summarize_events(read([one])[1]) == [("user", "x")]
    (found,) = READER.list_conversations(Source("x", data=json.dumps(one).encode()))
    assert (found.id, found.title, found.messages) == ("g1", "T", 1)
