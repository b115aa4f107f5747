"""Goose in its forms: messages, calls with and without ids, what was hidden from whom, delegated
sessions."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from open_token.agents.goose.detect import BLOCK_KINDS
from open_token.context import Context
from open_token.jsontools.walk import iter_strings
from open_token.model.document import Event, Record
from open_token.options import ExportOptions
from open_token.pipeline import export
from open_token.registry import READERS, detect_format
from open_token.sources.source import Source
from open_token.validation.validate import validate
from readers.databases import codes, database, notes_of, read_conversation
from readers.provider_readers import PNG, build_read_function, summarize_events, tokens

READER = READERS["goose"]

read = build_read_function(READER)
T = 1_767_225_600
TIME = "2026-01-01T00:00:00Z"
OLD_SCHEMA = """
CREATE TABLE sessions (id TEXT PRIMARY KEY, description TEXT, working_dir TEXT);
CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content_json TEXT);
"""
SCHEMA = """
CREATE TABLE sessions (
  id TEXT PRIMARY KEY, name TEXT, working_dir TEXT, created_at TIMESTAMP, parent_session_id TEXT, parent_delegation TEXT
);
CREATE TABLE messages (
  id INTEGER PRIMARY KEY, message_id TEXT, session_id TEXT, role TEXT, content_json TEXT, created_timestamp INTEGER,
  metadata_json TEXT
);
CREATE TABLE thread_messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content_json TEXT);
"""


def message(role: str, *content: Any, **more: Any) -> dict[str, Any]:
    return {"id": "m", "role": role, "created": T, "content": list(content), **more}


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def ask(name: str, native: str = "c1", **arguments: Any) -> dict[str, Any]:
    value = {"name": name, "arguments": arguments}
    return {"type": "toolRequest", "id": native, "toolCall": {"status": "success", "value": value}}


def answer(value: Any, native: str = "c1") -> dict[str, Any]:
    return {
        "type": "toolResponse",
        "id": native,
        "toolResult": {"status": "success", "value": value},
    }


def read_messages(*messages: Any, **about: Any) -> tuple[Record, list[Event]]:
    return read(
        {
            "id": "s",
            "working_dir": "/srv",
            "name": "A session",
            "conversation": list(messages),
            **about,
        }
    )


def lines(*values: Any) -> bytes:
    return "".join(json.dumps(value) + "\n" for value in values).encode()


class TestForms:
    def test_an_export(self) -> None:
        record, events = read_messages(
            message("user", text("hi")), created_at="2026-01-01T00:00:00.5Z", provider_name="openai"
        )
        assert record.conversation["id"] == "s"
        assert record.conversation["title"] == "A session"
        assert record.conversation["started_at"] == "2026-01-01T00:00:00.5Z"
        assert notes_of(events, "context") == [{"kind": "context", "cwd": "/srv"}]
        assert summarize_events(events)[1:] == [("user", "hi")]
        assert events[1]["ts"] == TIME

    def test_lines_with_a_header(self, tmp_path: Path) -> None:
        path = tmp_path / "20260101_12.jsonl"
        path.write_bytes(
            lines(
                {"working_dir": "/srv", "description": "d", "message_count": 1},
                message("user", text("hi")),
            )
        )
        source = Source.of(path)
        assert detect_format(source) == "goose"
        record, events = read_conversation(READER, source)
        assert (record.conversation["id"], record.conversation["title"]) == ("20260101_12", "d")
        assert summarize_events(events)[-1] == ("user", "hi")

    def test_another_file_name_is_not_an_id(self, tmp_path: Path) -> None:
        path = tmp_path / "my session.jsonl"
        path.write_bytes(lines(message("user", text("hi"))))
        record, _ = read_conversation(READER, Source.of(path))
        assert record.conversation["id"].startswith("conv_20260101_")

    def test_calls_before_1_0_have_no_id(self) -> None:
        _, events = read(
            lines(
                {
                    "role": "assistant",
                    "created": T,
                    "content": [{"tool_name": "a", "arguments": {}}],
                },
                {
                    "role": "assistant",
                    "created": T,
                    "content": [{"tool_name": "b", "arguments": {"x": 1}}],
                },
                {
                    "role": "user",
                    "created": T,
                    "content": [{"id": "c1", "tool_result": '[{"Text":{"text":"one"}}]'}],
                },
                {"role": "user", "created": T, "content": [{"id": "c2", "tool_result": "plain"}]},
                {"role": "user", "created": T, "content": [{"id": "c3", "tool_result": None}]},
            )
        )
        results = [item for item in events if item["type"] == "tool_result"]
        assert [item["links"]["call_id"] for item in results[:2]] == ["call_000001", "call_000002"]
        assert [item["content"]["text"] for item in results] == ["one", "plain", ""]
        assert notes_of(events, "orphan_result")[0]["native_call_id"] == "c3"

    def test_missing_columns(self, tmp_path: Path) -> None:
        rows = {
            "sessions": [("s", "d", "/srv")],
            "messages": [(2, "s", "user", [text("b")]), (1, "s", "user", [text("a")])],
        }
        source = database(tmp_path, OLD_SCHEMA, rows)
        assert detect_format(source) == "goose"
        record, events = read_conversation(READER, source)
        assert record.conversation["title"] == "d"
        assert summarize_events(events)[1:] == [("user", "a"), ("user", "b")]

    def test_a_session_stored_in_a_thread(self, tmp_path: Path) -> None:
        rows = {
            "sessions": [("s", "n", "/srv", None, None, None)],
            "thread_messages": [(1, "s", "user", [text("a")])],
        }
        _, events = read_conversation(READER, database(tmp_path, SCHEMA, rows))
        assert summarize_events(events)[-1] == ("user", "a")


class TestMessages:
    def test_seconds_milliseconds_and_texts(self) -> None:
        created = [T, T * 1000, T * 1000 + 5, "x", None, True]
        _, events = read_messages(
            *(message("user", text("hi"), created=value) for value in created)
        )
        assert [item.get("ts") for item in events[1:]] == [
            TIME,
            TIME,
            "2026-01-01T00:00:00.005Z",
            None,
            None,
            None,
        ]

    def test_hidden_messages_are_internal(self) -> None:
        hidden = message(
            "user", text("<turn-context>"), metadata={"userVisible": False, "turnContext": True}
        )
        only = message("user", text("a"), text("b", annotations={"audience": ["assistant"]}))
        _, events = read_messages(
            hidden, only, message("assistant", text("c"), metadata={"userVisible": False})
        )
        assert [(item["content"]["text"], item["visibility"]) for item in events[1:]] == [
            ("<turn-context>", "internal"),
            ("a", "public"),
            ("b", "internal"),
            ("c", "internal"),
        ]

    def test_messages_outside_the_context_are_annotated(self) -> None:
        _, events = read_messages(message("user", text("old"), metadata={"agentVisible": False}))
        assert events[-1]["content"]["data"] == {"kind": "message_facts", "in_context": False}
        assert events[-1]["links"]["parent_id"] == events[-2]["id"]

    def test_model_and_usage_of_a_message(self) -> None:
        usage = {
            "inputTokens": 9,
            "outputTokens": 4,
            "cacheReadTokens": 5,
            "cost": 0.5,
            "totalTokens": 13,
        }
        metadata = {
            "inference": {"provider": "openai", "requestedModel": "gpt-5.2"},
            "usage": usage,
        }
        record, events = read_messages(
            message("assistant", text("a")),
            message("assistant", text("b"), ask("t"), metadata=metadata),
            provider_name="anthropic",
            model_config={"model_name": "claude-sonnet-4-5"},
        )
        models = [who["model"] for who in record.participants if who["kind"] == "model"]
        assert models == ["claude-sonnet-4-5", "gpt-5.2"]
        used = tokens(input_tokens=9, output_tokens=4, cache_read_tokens=5)
        assert [item.get("usage") for item in events if item["type"] == "tool_use"] == [used]
        assert notes_of(events, "cost")[0]["cost_usd"] == 0.5

    @pytest.mark.parametrize(
        ("value", "output"),
        [
            ([text("a")], "a"),
            ({"content": [text("a")]}, "a"),
            ({"content": []}, ""),
            ([], ""),
            (None, ""),
            ("a", ["a"]),
            ([text("a"), text("b")], [text("a"), text("b")]),
            ([text("a", annotations={"priority": 0})], [text("a", annotations={"priority": 0})]),
        ],
    )
    def test_outputs(self, value: Any, output: Any) -> None:
        _, events = read_messages(message("assistant", ask("t")), message("user", answer(value)))
        assert ("tool", output) in summarize_events(events)

    def test_media_in_outputs(self) -> None:
        blob = {
            "type": "resource",
            "resource": {"uri": "f:///a", "mimeType": "image/png", "blob": PNG},
        }
        image = {"type": "image", "data": PNG, "mimeType": "image/png"}
        _, events = read_messages(
            message("assistant", ask("t")), message("user", answer([blob, image]))
        )
        made = next(item for item in events if item["type"] == "tool_result")["content"]["data"]
        assert [(item["type"], item["bytes"]) for item in made] == [("file", 9), ("image", 9)]

    def test_errors_of_calls_and_results(self) -> None:
        wrong = {
            "type": "toolRequest",
            "id": "c1",
            "toolCall": {"status": "error", "error": "no such tool"},
        }
        failed = {
            "type": "toolResponse",
            "id": "c1",
            "toolResult": {"status": "error", "error": "-32602"},
        }
        _, events = read_messages(message("assistant", wrong), message("user", failed))
        assert events[1]["content"]["data"]["error"] == "no such tool"
        assert summarize_events(events)[2:] == [
            ("tool", "-32602"),
            ("annotation", {"kind": "result_facts", "is_error": True}),
        ]

    def test_a_call_without_a_result(self) -> None:
        _, events = read_messages(message("assistant", ask("t")))
        assert events[-1]["content"]["data"] == {"missing_result": True}

    def test_questions_to_the_user(self) -> None:
        confirm = {
            "type": "toolConfirmationRequest",
            "id": "c",
            "toolName": "t",
            "arguments": {},
            "prompt": "ok?",
        }
        form = {
            "type": "actionRequired",
            "data": {"actionType": "elicitation", "id": "e", "message": "which?"},
        }
        _, events = read_messages(message("assistant", confirm, form))
        assert [item["action"] for item in notes_of(events, "action_required")] == [
            "toolConfirmation",
            "elicitation",
        ]

    def test_instructions_of_a_recipe_are_a_system_prompt(self) -> None:
        record, events = read_messages(
            message("user", text("hi")), recipe={"title": "t", "instructions": "Be kind."}
        )
        assert summarize_events(events)[1] == ("system", "Be kind.")
        assert codes(record)["recipe"] == 1

    def test_reasoning(self) -> None:
        thoughts = [
            {"type": "thinking", "thinking": "hm", "signature": ""},
            {"type": "reasoning", "text": "old hm"},
            {"type": "redactedThinking", "data": "x"},
            {"type": "thinking", "thinking": ""},
        ]
        record, events = read_messages(message("assistant", *thoughts))
        assert [item["content"].get("text") for item in events[1:]] == ["hm", "old hm", None]
        assert codes(record)["empty-reasoning"] == 1


class TestDelegation:
    def rows(self) -> dict[str, list[tuple[Any, ...]]]:
        delegation = {"parent_delegate_message_id": "m1"}
        return {
            "sessions": [
                ("a", "A", "/srv", "2026-01-01 00:00:00", None, None),
                ("b", "B", "/srv", "2026-01-01 00:00:01", "a", delegation),
                ("c", "C", "/srv", "2026-01-01 00:00:02", None, None),
            ],
            "messages": [
                (1, "m1", "a", "assistant", [ask("delegate")], T, None),
                (2, "m2", "a", "user", [answer([text("found")])], T, None),
                (3, "m3", "b", "user", [text("look")], T, None),
                (4, "m4", "c", "user", [text("other")], T, None),
            ],
        }

    def test_a_delegated_session_follows_its_call(self, tmp_path: Path) -> None:
        source = database(tmp_path, SCHEMA, self.rows())
        assert [
            (item.id, item.messages, item.started_at) for item in READER.list_conversations(source)
        ] == [
            ("a", 2, TIME),
            ("c", 1, "2026-01-01T00:00:02Z"),
        ]
        _, events = read_conversation(READER, source, "a")
        kinds = [item["type"] for item in events if item["type"] != "annotation"]
        assert kinds == ["tool_use", "span_start", "message", "span_end", "tool_result"]
        start = next(item for item in events if item["type"] == "span_start")
        assert start["links"]["call_id"] == "call_000001"

    def test_rows_belong_to_the_root_session(self, tmp_path: Path) -> None:
        source = database(tmp_path, SCHEMA, self.rows())
        assert READER.find_owner(source, "messages", {"session_id": "b"}) == "a"
        assert READER.find_owner(source, "sessions", {"id": "c"}) == "c"
        assert READER.find_owner(source, "provider_inventory_entries", {"key": "x"}) not in (
            "a",
            "b",
            "c",
            None,
        )

    @pytest.mark.parametrize(("option", "spans"), [("reference", 1), ("none", 0)])
    def test_references_and_omission(self, tmp_path: Path, option: str, spans: int) -> None:
        record, events = read_conversation(
            READER, database(tmp_path, SCHEMA, self.rows()), "a", subagents=option
        )
        assert len(notes_of(events, "subagent")) == spans
        assert ("user", "look") not in summarize_events(events)
        assert codes(record).get("subagent", 0) == 1 - spans


@pytest.mark.parametrize("odd", [None, 5, "x", [], {}, [None], {"a": 1}, True, 1.5, [[]]])
def test_odd_values_do_not_fail(odd: Any) -> None:
    kinds = (*BLOCK_KINDS, "hologram", 5, None)
    fields = (
        "text",
        "data",
        "toolCall",
        "toolResult",
        "thinking",
        "msg",
        "id",
        "annotations",
        "resource",
    )
    blocks = [{"type": kind, **dict.fromkeys(fields, odd)} for kind in kinds]
    messages = [
        message(role, *blocks, odd, metadata=odd, created=odd)
        for role in ("user", "assistant", "tool")
    ]
    wrapped = message(
        "user", answer(odd), {"toolResult": {"value": odd}, "type": "toolResponse", "id": odd}
    )
    about = {
        "recipe": odd,
        "model_config": odd,
        "usage": odd,
        "extension_data": odd,
        "created_at": odd,
        "id": odd,
    }
    value = {
        "working_dir": "/srv",
        "conversation": [*messages, wrapped, odd, message("user", text("x"))],
        **about,
    }
    out = io.BytesIO()
    export(
        Source("x", data=json.dumps(value).encode()),
        out,
        Context(ExportOptions.of({"exported_at": "omit"})),
        "goose",
    )
    assert [item for item in validate(json.loads(out.getvalue())) if item.severity == "error"] == []


@pytest.mark.parametrize(
    "data",
    [
        lines({"role": "user", "content": "hi"}),
        lines({"role": "user", "created": T, "content": "hi"}),
        lines({"role": "user", "created": T, "content": [{"type": "tool_use"}]}),
        lines({"role": "user", "created": float(T), "content": [text("hi")]}),
        lines({"conversation": "c", "working_dir": "/srv"}),
        lines({"description": "x"}, message("user", text("hi"))),
    ],
)
def test_other_formats_are_not_claimed(data: bytes) -> None:
    assert not READER.sniff(Source("x", data=data))


def test_peek() -> None:
    about = {"working_dir": "/srv", "name": "n", "id": "s", "conversation": []}
    assert READER.peek([about]) == {"cwd": "/srv", "title": "n", "id": "s"}
    assert READER.peek([{"working_dir": "/srv", "description": "d"}]) == {
        "cwd": "/srv",
        "title": "d",
    }
    assert READER.peek([]) == READER.peek([5]) == {}


def test_the_shared_corpus(corpus: Path) -> None:
    """Every word of the excerpt is exported, and every call has its result."""
    paths = sorted((corpus / "goose").glob("*.jsonl"))
    assert paths
    for path in paths:
        source = Source.of(path)
        assert detect_format(source) == "goose"
        _, events = read_conversation(READER, source)
        everything = "\n".join(iter_strings([event["content"] for event in events]))
        for row in path.read_text().splitlines():
            for block in json.loads(row)["content"]:
                given = json.loads(block["tool_result"]) if "tool_result" in block else []
                words = [item["Text"]["text"] for item in given] + [
                    block.get("text"),
                    block.get("arguments"),
                ]
                assert all(word in everything for word in iter_strings(words))
        calls = [item["links"]["call_id"] for item in events if item["type"] == "tool_use"]
        assert calls == [
            item["links"]["call_id"] for item in events if item["type"] == "tool_result"
        ]
        assert notes_of(events, "orphan_result") == []
