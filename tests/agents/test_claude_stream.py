"""Streams that Claude Code prints."""

import json
from typing import Any

import pytest

from open_token.builder.draft import Draft
from open_token.model.document import Record
from open_token.registry import READERS, detect_format
from open_token.sources.source import Source
from readers.claude_lines import File, text

READER = READERS["claude_stream"]
SESSION = "7b2d0001-5b1e-4c11-9a01-0c0ffee00001"
INIT = {
    "type": "system",
    "subtype": "init",
    "session_id": SESSION,
    "cwd": "/home/kim/shop",
    "tools": ["Bash"],
    "model": "claude-sonnet-4-5",
}


def message(kind: str, content: Any, parent: str | None = None, **more: Any) -> dict[str, Any]:
    body: dict[str, Any] = {"role": kind, "content": content}
    if kind == "assistant":
        body |= {"id": "msg_1", "model": "claude-sonnet-4-5"}
    return {
        "type": kind,
        "message": body,
        "parent_tool_use_id": parent,
        "session_id": SESSION,
        **more,
    }


def open_lines(*records: Any) -> Source:
    return Source("out.jsonl", data=b"".join(json.dumps(r).encode() + b"\n" for r in records))


def read(*records: Any, **options: str) -> Record:
    draft = Draft(**options)
    READER.read(open_lines(*records), draft)
    return draft.finish(lambda: "0" * 64)


def describe(record: Record) -> list[str]:
    described = []
    for event in record.events:
        data = event["content"].get("data")
        kind = data.get("kind") if isinstance(data, dict) else None
        described.append(event["content"].get("text") or kind or event["type"])
    return described


@pytest.mark.parametrize(
    "record",
    [
        INIT,
        message("assistant", [text("hi")]),
        message("user", "hi"),
        {"type": "stream_event", "event": {"type": "message_stop"}, "session_id": SESSION},
        {"type": "result", "subtype": "success", "num_turns": 1, "total_cost_usd": 0.1},
    ],
)
def test_one_record_is_enough(record: Any) -> None:
    assert detect_format(open_lines(record, {"type": "news"})) == "claude_stream"
    array = Source("out.json", data=json.dumps([record, {"type": "news"}]).encode())
    assert detect_format(array) == "claude_stream"


def test_session_files_are_not_claimed() -> None:
    file = File()
    file.user("hi")
    file.assistant(text("hello"))
    source = Source("session.jsonl", data=file.data)
    assert not READER.sniff(source)
    assert detect_format(source) == "claude_code"


@pytest.mark.parametrize(
    "records",
    [
        # Cursor
        [
            {"type": "system", "subtype": "init", "session_id": "s", "cwd": "/", "model": "Auto"},
            {"type": "user", "message": {"role": "user", "content": []}, "session_id": "s"},
            {"type": "tool_call", "subtype": "started", "call_id": "c", "session_id": "s"},
        ],
        # Gemini CLI
        [
            {"type": "init", "session_id": "s", "model": "gemini-3-pro"},
            {"type": "message", "role": "user", "content": "hi"},
        ],
        [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}],
        [{"type": "result", "session_id": "s"}],
    ],
)
def test_other_streams_are_not_claimed(records: list[Any]) -> None:
    assert not READER.sniff(open_lines(*records))


def test_a_subagent_of_an_unknown_call_has_a_span_of_its_own() -> None:
    record = read(
        message("user", "Look around.", "toolu_gone"),
        message("assistant", [text("I look.")], "toolu_gone"),
        message("assistant", [text("Done.")]),
    )
    assert describe(record) == ["subagent", "Look around.", "I look.", "Done.", "span_end"]
    kinds = {person["actor_id"]: person["kind"] for person in record.participants}
    said = [event for event in record.events if event["type"] == "message"]
    assert {kinds[event["actor_id"]] for event in said} == {"model"}


def test_subagents_can_be_left_out() -> None:
    records = [message("assistant", [text("I look.")], "toolu_1"), message("user", "thanks")]
    assert "I look." not in describe(read(*records, subagents="none"))
    assert "I look." not in describe(read(*records, subagents="reference"))


def test_an_answer_in_parts_is_not_reported_twice() -> None:
    def part(event: dict[str, Any]) -> dict[str, Any]:
        return {"type": "stream_event", "event": event, "session_id": SESSION}

    start = {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}}
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta"}}
    delta["delta"] = {"type": "text_delta", "text": "hello"}
    parts = [
        part({"type": "message_start", "message": {"id": "msg_1"}}),
        part(start),
        part(delta),
    ]
    assert describe(read(*parts)) == ["hello", "aborted"]
    assert describe(read(*parts, message("assistant", [text("hello")]))) == ["hello"]


def test_a_final_output_that_nobody_said_is_kept() -> None:
    result = {"type": "result", "num_turns": 1, "result": "Execution error", "total_cost_usd": 0}
    assert describe(read(INIT, result))[3:] == ["final_output", "session_totals"]


@pytest.mark.parametrize(
    "record",
    [
        {"type": "assistant", "message": None},
        {"type": "user", "message": {"content": None}},
        {"type": "stream_event", "event": None},
        {"type": "system"},
        {"type": "result", "permission_denials": [None], "total_cost_usd": "free"},
        {"type": None},
        {"type": "system", "subtype": "init", "tools": 7},
    ],
)
def test_odd_records_end_nothing(record: Any) -> None:
    assert "bye" in describe(read(INIT, record, message("assistant", [text("bye")])))


def test_signs_of_life_are_noted() -> None:
    status = {"type": "system", "subtype": "status", "status": "requesting", "session_id": SESSION}
    record = read(status, message("assistant", [text("hi")]), status)
    assert describe(record) == ["hi"]
    assert [(note.detail, note.count) for note in record.notes] == [("type status", 2)]
    assert record.conversation["id"] == SESSION
