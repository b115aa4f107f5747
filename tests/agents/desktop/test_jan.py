"""Threads of Jan: messages alone, broken files beside them, what is not claimed."""

import json
from pathlib import Path
from typing import Any

import pytest

from open_token.registry import READERS, detect_format
from open_token.sources.source import Source
from readers.provider_readers import build_read_function, summarize_events
from readers.session_files import GOLDEN, lines, read_file

READER = READERS["jan"]

read = build_read_function(READER)


def message(role: str, text: Any, **fields: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": {"value": text, "annotations": []}}]
    made = {"object": "thread.message", "thread_id": "t", "role": role, "content": content}
    return {**made, "created_at": 1750000001, **fields}


@pytest.mark.parametrize("beside", [None, "{", "[]", '{"title": 5, "assistants": [5]}'])
def test_the_messages_alone(tmp_path: Path, beside: str | None) -> None:
    if beside is not None:
        (tmp_path / "thread.json").write_text(beside)
    path = tmp_path / "messages.jsonl"
    path.write_bytes(lines(message("user", "hi"), message("assistant", "hello")))
    record, events = read_file(READER, path)
    said = [item for item in summarize_events(events) if item[0] != "annotation"]
    assert said == [("user", "hi"), ("assistant", "hello")]
    assert record.conversation["id"] == "t"
    assert events[-1]["ts"] == "2025-06-15T15:06:41Z"


def test_a_result_as_a_message() -> None:
    call = {"type": "tool_call", "tool_call_id": "c", "tool_name": "look", "input": {"a": 1}}
    _, events = read(
        lines(
            message("user", "hi"),
            message("assistant", "", content=[call]),
            message("tool", "seen", tool_call_id="c"),
        )
    )
    assert [event["type"] for event in events] == ["message", "tool_use", "tool_result"]
    assert events[-1]["content"]["text"] == "seen"


def test_parts_of_an_unknown_shape_are_kept() -> None:
    records = (GOLDEN / "jan/thread/input/messages.jsonl").read_bytes()
    assert detect_format(Source("x", data=records)) == "jan"
    _, events = read(records.replace(b'"value"', b'"valued"'))
    assert events


@pytest.mark.parametrize(
    "value",
    [
        {"object": "thread.message", "thread_id": "t", "run_id": None, "role": "user"},
        {"object": "thread.message", "role": "user"},
        {"object": "thread", "thread_id": "t"},
    ],
)
def test_what_is_not_claimed(value: Any) -> None:
    assert not READER.sniff(Source("x", data=json.dumps(value).encode()))
