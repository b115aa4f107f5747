"""Factory Droid: sessions, streams, broken settings, files of other agents."""

import json
from pathlib import Path
from typing import Any

import pytest

from open_token.builder.draft import Draft
from open_token.registry import READERS, load_reader
from open_token.sources.source import Source
from readers.provider_readers import build_read_function
from readers.session_files import (
    assert_paired,
    assert_takes_odd_shapes,
    facts,
    laid_out,
    lines,
    read_file,
    summarize_messages,
)

READER = READERS["factory_droid"]
read = build_read_function(READER)
TS = "2026-03-01T10:00:00.000Z"
START = {"type": "session_start", "id": "s1", "title": "New Session", "cwd": "/home/ada"}


def message(role: str, *blocks: Any, **more: Any) -> dict[str, Any]:
    body = {"role": role, "content": list(blocks)}
    return {"type": "message", "id": "m", "timestamp": TS, "message": body, **more}


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def result(words: str) -> dict[str, str]:
    return {"type": "tool_result", "tool_use_id": "c", "content": words}


def claims(*records: Any) -> list[str]:
    source = Source("x", data=lines(*records))
    return [name for name in READERS if load_reader(name).sniff(source)]


class TestSniff:
    def test_no_other_reader_claims_it(self) -> None:
        prompt = message("user", text("hi"), parentId="s1")
        assert claims(START, prompt, message("user", result("x"), parentId="m")) == [
            "factory_droid"
        ]

    def test_without_its_start_nobody_claims_results_as_words(self) -> None:
        assert claims(message("user", result("x"), parentId="m")) == []

    def test_a_start_of_something_else_is_not_claimed(self) -> None:
        assert claims({"type": "session_start", "version": "1.0", "timestamp": TS}) == []
        assert claims({"type": "session_start", "id": 1, "data": {}}) == []

    def test_a_stream_needs_a_session_in_every_record(self) -> None:
        call = {"type": "tool_call", "toolName": "Read", "parameters": {}}
        assert claims({**call, "session_id": "r"}) == ["factory_droid"]
        assert claims(call) == []


def test_results_are_results() -> None:
    call = {"type": "tool_use", "id": "c", "name": "Read", "input": {"file_path": "a"}}
    _, events = read(lines(START, message("assistant", call), message("user", result("words"))))
    assert summarize_messages(events) == []
    assert_paired(events)


def test_a_default_title_gives_way_to_the_first_words() -> None:
    reminder = "<system-reminder>\nBe brief.\n</system-reminder>\n\n"
    assert READER.peek([START, message("user", text(f"{reminder}Count"))]) == {
        "id": "s1",
        "cwd": "/home/ada",
        "title": "Count",
    }


def test_older_streams() -> None:
    run = {"session_id": "r", "timestamp": TS}
    _, events = read(
        lines(
            {**run, "type": "system", "model": "m", "cwd": "/a"},
            {**run, "type": "tool_call", "toolCallId": "c", "toolName": "Shell", "parameters": {}},
            {**run, "type": "tool_result", "toolCallId": "c", "value": {"exitCode": 0}},
            {**run, "type": "completion", "finalText": "Done."},
        )
    )
    assert summarize_messages(events) == [("assistant", "public", "Done.")]
    assert_paired(events)


def test_broken_settings_are_noted(tmp_path: Path) -> None:
    laid_out(tmp_path, **{"s1.jsonl": [START, message("user", text("hi"))]})
    (tmp_path / "s1.settings.json").write_text("{")
    record, events = read_file(READER, tmp_path / "s1.jsonl")
    assert [note.code for note in record.notes] == ["broken-file"]
    assert facts(events, "settings") == []
    assert summarize_messages(events) == [("user", "public", "hi")]


@pytest.mark.parametrize("role", [None, 1, "robot"])
def test_an_unknown_role_is_noted(role: Any) -> None:
    source = Source("x", data=lines(START, message(role, text("hidden"))))
    assert not READER.sniff(source)
    draft = Draft()
    READER.read(source, draft)
    assert [note.code for note in draft.notes] == ["unknown-role"]


def test_takes_odd_shapes() -> None:
    assert_takes_odd_shapes(READER, "factory_droid")


def test_token_counts_of_messages_are_not_counted_again_by_the_session(tmp_path: Path) -> None:
    usage = {"input_tokens": 100, "output_tokens": 10}
    answer = {"role": "assistant", "content": [{"type": "text", "text": "Hi"}], "usage": usage}
    records = [
        {"type": "session_start", "id": "s", "title": "t", "version": 2},
        {"type": "message", "id": "m", "message": answer},
    ]
    path = tmp_path / "s.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    totals = {"tokenUsage": {"inputTokens": 100, "outputTokens": 10}}
    (tmp_path / "s.settings.json").write_text(json.dumps(totals))
    draft = Draft()
    READERS["factory_droid"].read(Source.of(path), draft)
    record = draft.finish(lambda: "0" * 64)
    counts = [event["usage"]["input_tokens"] for event in record.events if "usage" in event]
    assert counts == [100]
