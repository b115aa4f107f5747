"""iFlow CLI: snapshots of one answer, wrapped results, files of other agents."""

from pathlib import Path
from typing import Any

import pytest

from open_token.registry import READERS, load_reader
from open_token.sources.source import Source
from readers.provider_readers import build_read_function, tokens
from readers.session_files import (
    assert_paired,
    assert_takes_odd_shapes,
    assert_whole,
    facts,
    lines,
    summarize_messages,
)

READER = READERS["iflow"]
read = build_read_function(READER)
TS = "2026-01-20T08:00:00.000Z"


def row(name: str, parent: str | None, kind: str, content: Any, **more: Any) -> dict[str, Any]:
    message = more.pop("message", {})
    made = {
        "uuid": name,
        "parentUuid": parent,
        "sessionId": "session-1",
        "timestamp": TS,
        "type": kind,
        **more,
    }
    return {**made, "message": {"role": kind, "content": content, **message}}


def model(
    name: str, parent: str, *blocks: Any, usage: dict[str, int] | None = None
) -> dict[str, Any]:
    about = {
        "id": f"response-{name}",
        "model": "glm-4.7",
        "usage": usage or {"input_tokens": 0, "output_tokens": 0},
    }
    return row(name, parent, "assistant", list(blocks), message=about)


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": name, "name": "read_file", "input": arguments}


def result(name: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": name, "content": content, **more}


def wrapped(name: str, **response: Any) -> dict[str, Any]:
    parts = {"functionResponse": {"id": name, "name": "read_file", "response": response}}
    return {"callId": name, "responseParts": parts, "resultDisplay": "shown"}


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


class TestSniff:
    @pytest.mark.parametrize(
        "record",
        [
            row("a", None, "user", "hi"),
            {
                **row("a", None, "user", [result("c", wrapped("c", output="x"))]),
                "sessionId": "plain",
            },
            {**model("a", "b", text("x")), "sessionId": "plain"},
        ],
    )
    def test_no_other_reader_claims_it(self, record: dict[str, Any]) -> None:
        source = Source("x", data=lines(record))
        assert [name for name in READERS if load_reader(name).sniff(source)] == ["iflow"]

    def test_claude_code_and_qwen_code_keep_their_own(self) -> None:
        claude = {
            **row("a", None, "user", "hi"),
            "sessionId": "0198aaaa-0000-7000-8000-000000000001",
        }
        qwen = {
            **row("a", None, "user", "hi"),
            "message": {"role": "user", "parts": [{"text": "hi"}]},
        }
        for record, owner in ((claude, "claude_code"), (qwen, "qwen_code")):
            source = Source("x", data=lines(record))
            assert [name for name in READERS if load_reader(name).sniff(source)] == [owner]
        assert not READERS["claude_code"].sniff(
            Source("x", data=lines(claude, row("b", "a", "user", "ho")))
        )

    def test_peek(self) -> None:
        first = row("a", None, "user", "hello there", cwd="/w")
        assert READER.peek([None, first]) == {
            "id": "session-1",
            "cwd": "/w",
            "title": "hello there",
        }


class TestSnapshots:
    def test_a_call_is_exported_when_its_id_is_first_seen(self) -> None:
        rows = [
            row("a", None, "user", "read"),
            model("b", "a", text("I read"), call("x", path="1"), call("y", path="2")),
            model("c", "a", call("y", path="2"), call("z", path="3")),
            row("d", "c", "user", [result("x", wrapped("x", output="one"))]),
            row("e", "c", "user", [result("y", wrapped("y", output="two"))]),
            row("f", "c", "user", [result("z", wrapped("z", output="three"))]),
            model("g", "a", call("z", path="3"), text("done")),
        ]
        record, events = read(lines(*rows))
        assert [event["type"] for event in events[1:]] == [
            "message",
            *["message"],
            *["tool_use"] * 3,
            *["tool_result"] * 3,
            "message",
        ]
        assert record.notes == []
        assert_paired(events)

    def test_other_arguments_under_the_same_id_are_noted(self) -> None:
        record, events = read(
            lines(model("b", "a", call("x", path="1")), model("c", "a", call("x", path="2")))
        )
        assert [note.code for note in record.notes] == ["changed-call"]
        assert len([event for event in events if event["type"] == "tool_use"]) == 1

    def test_the_same_words_again_in_one_burst(self) -> None:
        rows = [
            model("b", "a", text("so")),
            model("c", "a", text("so")),
            row("d", "c", "user", "?"),
            model("e", "d", text("so")),
        ]
        record, events = read(lines(*rows))
        assert [words for role, _, words in summarize_messages(events) if role == "assistant"] == [
            "so",
            "so",
        ]
        assert [(note.code, note.count) for note in record.notes] == [("repeated-text", 1)]

    def test_counts_are_exported_once_and_zeros_never(self) -> None:
        spent = {"input_tokens": 10, "output_tokens": 2}
        rows = [
            model("b", "a", text("1"), usage=spent),
            model("c", "a", text("2"), usage=spent),
            model("d", "a", text("3")),
        ]
        _, events = read(lines(*rows))
        assert [event.get("usage") for event in events[1:]] == [tokens(**spent), None, None]


class TestResults:
    @pytest.mark.parametrize(
        ("content", "output"),
        [
            (wrapped("x", output="one"), "one"),
            ({"functionResponse": {"id": "x", "response": {"output": "one"}}}, "one"),
            (
                {
                    "callId": "x",
                    "responseParts": [{"functionResponse": {"response": {"output": "one"}}}],
                },
                "one",
            ),
            ({"callId": "x", "responseParts": "one"}, "one"),
            ("one", "one"),
            ([text("one")], "one"),
            (None, ""),
        ],
    )
    def test_every_wrapper(self, content: Any, output: str) -> None:
        _, events = read(
            lines(model("b", "a", call("x")), row("c", "b", "user", [result("x", content)]))
        )
        assert events[-1]["content"] == {"mime": "text/plain", "text": output}
        assert_paired(events)

    def test_errors(self) -> None:
        failed = row(
            "c",
            "b",
            "user",
            [result("x", wrapped("x", error="no"))],
            toolUseResult={"status": "error"},
        )
        _, events = read(lines(model("b", "a", call("x")), failed))
        assert facts(events, "result_facts") == [
            {"kind": "result_facts", "is_error": True, "status": "error"}
        ]


class TestUser:
    def test_what_was_put_in(self) -> None:
        rows = [
            row("a", None, "user", "<system-reminder>x</system-reminder>hello"),
            row("b", "a", "user", "caveat", isMeta=True),
            row("c", "b", "user", "In short", isCompactSummary=True),
            row("d", "c", "user", "[Request interrupted by user]"),
        ]
        _, events = read(lines(*rows))
        assert [seen for _, seen, _ in summarize_messages(events)] == [
            "internal",
            "public",
            "internal",
            "internal",
            "internal",
        ]
        assert len(facts(events, "compaction_summary")) == len(facts(events, "interrupted")) == 1

    def test_what_is_unknown_is_noted(self) -> None:
        record, _ = read(lines(row("a", None, "user", "hi"), {"type": "checkpoint"}, [1]))
        assert [note.detail for note in record.notes] == [
            "type checkpoint",
            "line is not a JSON object",
        ]


def test_odd_shapes() -> None:
    assert_takes_odd_shapes(READER, "iflow")


def test_real_files(corpus: Path) -> None:
    paths = sorted((corpus / "iflow").glob("*.jsonl"))
    assert paths
    for path in paths:
        assert_whole(path, "iflow", ("text", "input", "output"))
