"""Gemini CLI: documents and lines, rewritten messages, rewinds, snapshots, subagents."""

import json
from pathlib import Path
from typing import Any

import pytest

from open_token.registry import READERS, detect_format, load_reader
from open_token.sources.source import Source
from readers.provider_readers import build_read_function, summarize_events, tokens
from readers.session_files import (
    assert_paired,
    assert_takes_odd_shapes,
    assert_whole,
    facts,
    laid_out,
    lines,
    read_file,
    summarize_messages,
)

READER = READERS["gemini_cli"]

HEADER = {
    "sessionId": "s-1",
    "projectHash": "ab",
    "startTime": "2026-04-02T09:00:00.000Z",
    "kind": "main",
}
TS = "2026-04-02T09:00:01.000Z"
read = build_read_function(READER)


def user(name: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"id": name, "timestamp": TS, "type": "user", "content": content, **more}


def model(name: str, content: Any = "", *calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    made = {
        "id": name,
        "timestamp": TS,
        "type": "gemini",
        "content": content,
        "model": "gemini-3-pro",
        **more,
    }
    return {**made, "toolCalls": list(calls)} if calls else made


def call(name: str, output: str | None = None, **more: Any) -> dict[str, Any]:
    made = {
        "id": name,
        "name": "glob",
        "args": {"pattern": "*"},
        "status": "success",
        "timestamp": TS,
        **more,
    }
    return {**made, "result": [answer(name, output=output)]} if output is not None else made


def answer(name: str, **response: Any) -> dict[str, Any]:
    return {"functionResponse": {"id": name, "name": "glob", "response": response}}


class TestShapes:
    def test_a_document_and_its_lines_give_the_same_events(self) -> None:
        talked = [user("u", "hi"), model("m", "", call("c", "a.md"))]
        _, whole = read({**HEADER, "messages": talked})
        _, streamed = read(lines(HEADER, *talked))
        assert whole == streamed
        assert [event["type"] for event in whole] == [
            "annotation",
            "message",
            "tool_use",
            "tool_result",
        ]

    def test_a_document_on_one_line_with_the_name_of_lines(self, tmp_path: Path) -> None:
        laid_out(tmp_path, **{"x.jsonl": [{**HEADER, "messages": [user("u", "hi")]}]})
        assert detect_format(Source.of(tmp_path / "x.jsonl")) == "gemini_cli"
        record, events = read_file(READER, tmp_path / "x.jsonl")
        assert record.conversation["id"] == "s-1"
        assert summarize_messages(events) == [("user", "public", "hi")]

    def test_an_image_next_to_results_is_not_a_prompt(self) -> None:
        picture = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}
        _, events = read(
            lines(
                HEADER, model("m", "", call("c")), user("u", [answer("c", output="seen"), picture])
            )
        )
        (result,) = (event for event in events if event["type"] == "tool_result")
        assert [block["type"] for block in result["content"]["data"]] == ["text", "image"]
        assert not [event for event in events if event.get("role") == "user"]

    def test_a_resumed_session_keeps_its_beginning(self) -> None:
        later = {**HEADER, "startTime": "2026-04-03T09:00:00.000Z"}
        record, _ = read(lines(HEADER, user("u", "hi"), later, user("v", "again")))
        assert record.conversation["started_at"] == HEADER["startTime"]

    @pytest.mark.parametrize(
        "data",
        [
            lines({"sessionId": "s", "uuid": "u", "projectHash": "x"}),
            lines({"sessionId": "s"}, user("u", "x")),
            lines({"projectHash": "s"}),
            b"[1]",
        ],
    )
    def test_what_is_not_its_own(self, data: bytes) -> None:
        assert not READER.sniff(Source("x", data=data))

    def test_no_other_reader_claims_it(self) -> None:
        source = Source("x", data=lines(HEADER, user("u", "hi")))
        assert [name for name in READERS if load_reader(name).sniff(source)] == ["gemini_cli"]

    def test_peek(self) -> None:
        seen = READER.peek(
            [HEADER, user("u", [{"text": "do"}], displayContent=[{"text": "/init"}])]
        )
        assert seen == {"id": "s-1", "cwd_sha256": "ab", "title": "/init", "words": "/init"}
        whole = READER.peek([{**HEADER, "summary": "Setting up", "messages": [user("u", "hi")]}])
        assert (whole["title"], whole["words"]) == ("Setting up", "hi")
        assert READER.peek([HEADER, {"$set": {"summary": "Later"}}])["title"] == "Later"
        patches = [5, {"$set": {"summary": "a"}}, {"$set": {"summary": "b"}}, {"$set": 1}]
        assert READER.peek_tail(patches) == {"title": "b"}
        assert READER.peek_tail([HEADER]) == {}


class TestRewrittenMessages:
    def test_the_last_version_is_at_the_position_of_the_first(self) -> None:
        record, events = read(
            lines(
                HEADER,
                model("m", "early"),
                user("u", "meanwhile"),
                model("m", "middle"),
                model("m", "late"),
            )
        )
        assert summarize_messages(events) == [
            ("assistant", "public", "late"),
            ("user", "public", "meanwhile"),
        ]
        assert record.notes == []

    def test_two_at_once(self) -> None:
        rows = [
            model("a", "1"),
            model("b", "1"),
            user("u", "x"),
            model("b", "2"),
            model("a", "2"),
            user("v", "y"),
        ]
        _, events = read(lines(HEADER, *rows))
        assert [words for _, _, words in summarize_messages(events)] == ["2", "2", "x", "y"]

    def test_usage_is_counted_once(self) -> None:
        counts = {"input": 10, "output": 2, "cached": 4, "thoughts": 3, "tool": 1, "total": 16}
        first = model("m", "", tokens=counts)
        _, events = read(
            lines(HEADER, first, {**first, "toolCalls": [call("c", "x"), call("d", "y")]})
        )
        assert [event["usage"] for event in events if "usage" in event] == [
            tokens(input_tokens=11, output_tokens=5, reasoning_tokens=3, cache_read_tokens=4)
        ]

    def test_a_message_of_thoughts_alone_carries_its_usage_there(self) -> None:
        thoughts = [{"subject": "S", "description": "D", "timestamp": TS}, {"subject": "T"}]
        _, events = read(
            lines(HEADER, model("m", "", thoughts=thoughts, tokens={"input": 1, "output": 0}))
        )
        assert [(event["content"]["text"], "usage" in event) for event in events[1:]] == [
            ("S\n\nD", True),
            ("T", False),
        ]
        assert events[1]["content"]["data"] == {"summary": "runtime"}

    def test_usage_of_an_empty_answer_is_an_annotation(self) -> None:
        _, events = read(lines(HEADER, model("m", "", tokens={"input": 7, "output": 0})))
        assert events[-1]["usage"]["input_tokens"] == 7
        assert facts(events, "usage") == [{"kind": "usage"}]


class TestPrompts:
    def test_what_was_typed_and_what_was_sent(self) -> None:
        _, events = read(
            lines(HEADER, user("u", [{"text": "Long prompt"}], displayContent=[{"text": "/init"}]))
        )
        assert summarize_messages(events) == [
            ("user", "public", "/init"),
            ("user", "internal", "Long prompt"),
        ]

    def test_equal_texts_are_exported_once(self) -> None:
        _, events = read(
            lines(HEADER, user("u", [{"text": "hi"}], displayContent=[{"text": "hi"}]))
        )
        assert summarize_messages(events) == [("user", "public", "hi")]

    def test_the_client_asks_to_go_on(self) -> None:
        result = [answer("c", output="x")]
        record, events = read(
            lines(
                HEADER,
                model("m", "", call("c", "x")),
                user("u", "System: Please continue.", displayContent=result),
                user("v", "System: Please continue."),
            )
        )
        assert summarize_messages(events) == [("user", "internal", "System: Please continue.")] * 2
        assert [note.code for note in record.notes] == ["repeated-result"]
        assert_paired(events)

    def test_one_part_alone(self) -> None:
        _, events = read(lines(HEADER, user("u", {"text": "hi"})))
        assert summarize_messages(events) == [("user", "public", "hi")]

    def test_a_part_that_is_none_is_noted(self) -> None:
        record, events = read(lines(HEADER, user("u", [5, {"text": "hi"}]), user("v", 7)))
        assert summarize_messages(events) == [("user", "public", "hi")]
        assert [(note.code, note.count) for note in record.notes] == [("unknown-part", 2)]


class TestCalls:
    def test_an_error_and_a_cancelled_call_have_results(self) -> None:
        failed = call("a", result=[answer("a", error="no such file")], status="error")
        stopped = call("b", result=[answer("b", error="[Operation Cancelled]")], status="cancelled")
        waiting = call("c", status="cancelled")
        _, events = read(lines(HEADER, model("m", "", failed, stopped, waiting)))
        assert facts(events, "result_facts") == [
            {"kind": "result_facts", "is_error": True, "status": "error"},
            {"kind": "result_facts", "is_error": True, "status": "cancelled"},
        ]
        results = [event["content"] for event in events if event["type"] == "tool_result"]
        assert results[-1] == {"mime": "application/json", "data": {"missing_result": True}}
        assert results[0]["text"] == "no such file"
        assert events[3]["content"]["data"]["status"] == "cancelled"

    def test_the_time_of_a_result_is_its_own(self) -> None:
        late = "2026-04-02T09:05:00.000Z"
        _, events = read(lines(HEADER, model("m", "", call("c", "x", timestamp=late))))
        assert (events[1]["ts"], events[2]["ts"]) == (TS, late)

    def test_an_image_next_to_a_result(self) -> None:
        picture = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}
        made = call("c", result=[answer("c", output="1 image"), picture])
        _, events = read(lines(HEADER, model("m", "", made)))
        blocks = events[2]["content"]["data"]
        assert [block["type"] for block in blocks] == ["text", "image"]

    def test_results_of_siblings_in_one_result(self) -> None:
        both = [answer("a", output="1"), answer("b", output="2")]
        calls = [call("a", result=both), call("b", result=both)]
        _, events = read(lines(HEADER, model("m", "", *calls)))
        assert [event["content"]["text"] for event in events if event["type"] == "tool_result"] == [
            "1",
            "2",
        ]

    def test_an_object_that_is_more_than_an_output_stays(self) -> None:
        made = call("c", result=[answer("c", output="x", exitCode=3)])
        _, events = read(lines(HEADER, model("m", "", made)))
        assert events[2]["content"]["data"] == {"output": "x", "exitCode": 3}

    def test_a_description_is_exported_once_and_only_if_new(self) -> None:
        calls = [
            call("a", "1", description="*"),
            call("b", "2", description="Finds files."),
            call("c", "3", description="Finds files."),
        ]
        _, events = read(lines(HEADER, model("m", "", *calls)))
        reported = [
            event["content"]["data"].get("description")
            for event in events
            if event["type"] == "tool_use"
        ]
        assert reported == [None, "Finds files.", None]

    def test_a_call_without_an_id(self) -> None:
        made = {"name": "glob", "args": None, "result": "plain", "status": "success"}
        _, events = read(lines(HEADER, model("m", "", made, made)))
        assert summarize_events(events)[1:] == [
            ("assistant", {"tool_name": "glob", "arguments": {}}),
            ("assistant", {"tool_name": "glob", "arguments": {}}),
            ("tool", "plain"),
            ("tool", "plain"),
        ]
        assert_paired(events)


class TestRewinds:
    ROWS = (user("a", "one"), model("b", "two"), user("c", "three"), model("d", "four"))

    def test_all_from_the_target_on_is_left(self) -> None:
        _, events = read(lines(HEADER, *self.ROWS, {"$rewindTo": "c"}, user("e", "five")))
        assert [words for _, _, words in summarize_messages(events)] == ["one", "two", "five"]

    def test_an_unknown_target_leaves_everything(self) -> None:
        _, events = read(lines(HEADER, *self.ROWS, {"$rewindTo": "?"}, user("e", "five")))
        assert [words for _, _, words in summarize_messages(events)] == ["five"]

    def test_rewound_twice_it_is_one_branch(self) -> None:
        rows = [
            *self.ROWS,
            {"$rewindTo": "c"},
            user("e", "five"),
            {"$rewindTo": "b"},
            user("f", "six"),
        ]
        _, events = read(lines(HEADER, *rows), branches="all")
        kinds = [event["type"] for event in events if event["type"].startswith("span")]
        assert kinds == ["span_start", "span_end"]
        assert [words for _, _, words in summarize_messages(events)] == [
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
        ]

    def test_an_id_may_come_again_after_it(self) -> None:
        _, events = read(lines(HEADER, *self.ROWS, {"$rewindTo": "c"}, user("c", "anew")))
        assert [words for _, _, words in summarize_messages(events)] == ["one", "two", "anew"]

    def test_many_rewinds_are_no_trouble(self) -> None:
        rows = [row for n in range(3000) for row in (user(f"u{n}", "x"), {"$rewindTo": f"u{n}"})]
        _, events = read(lines(HEADER, *rows, user("last", "y")))
        assert summarize_messages(events) == [("user", "public", "y")]


class TestSession:
    def test_notices_are_annotations(self) -> None:
        rows = [
            {"id": kind, "type": kind, "timestamp": TS, "content": kind}
            for kind in ("info", "warning", "error")
        ]
        cancelled = {"id": "c", "type": "info", "content": "Request cancelled."}
        _, events = read(lines(HEADER, *rows, cancelled))
        assert [event["content"]["data"] for event in events[1:]] == [
            {"kind": "notice", "level": "info", "text": "info"},
            {"kind": "notice", "level": "warning", "text": "warning"},
            {"kind": "error", "error": "error"},
            {"kind": "interrupted", "text": "Request cancelled."},
        ]

    def test_what_is_unknown_is_noted_by_name_only(self) -> None:
        odd = {"id": "x", "type": "secret words here!", "content": "z"}
        record, _ = read(
            lines(HEADER, user("u", "hi"), odd, 5, {"$set": {"mood": 1}}, {"type": "hologram"})
        )
        assert [(note.code, note.detail) for note in record.notes] == [
            ("skipped-record", "type without a known type"),
            ("skipped-record", "record is not a JSON object"),
            ("skipped-field", "field mood of the session"),
            ("skipped-record", "type hologram"),
        ]

    def test_documents_of_qwen_name_their_client(self) -> None:
        made = {
            **HEADER,
            "messages": [
                user("u", "hi"),
                {**model("m", "yo"), "type": "qwen", "model": "qwen3-max"},
            ],
        }
        record, _ = read(made)
        assert record.participants[0]["name"] == "Qwen Code"
        assert "provider" not in record.conversation

    def test_a_snapshot_that_leaves_nothing_out_is_no_compaction(self) -> None:
        rows = [user("u", "hi"), model("m", "yo")]
        _, events = read(lines(HEADER, *rows, {"$set": {"messages": rows}}))
        assert facts(events, "compaction") == []
        assert len(summarize_messages(events)) == 2

    def test_history_snapshots_give_a_summary_once(self) -> None:
        summed = [user("s", [{"text": "In short"}]), user("v", "now")]
        rows = [user("u", "hi"), model("m", "yo"), user("v", "now")]
        snapshot = {"$set": {"messages": summed}}
        _, events = read(
            lines(
                HEADER,
                *rows,
                snapshot,
                snapshot,
                user("w", "then"),
                {"$set": {"messages": summed[:1]}},
            )
        )
        assert [data["messages_left_out"] for data in facts(events, "compaction")] == [2]
        assert [data["messages_left_out"] for data in facts(events, "history_shortened")] == [2]
        assert [words for _, _, words in summarize_messages(events)] == [
            "hi",
            "yo",
            "now",
            "In short",
            "then",
        ]


class TestSubagents:
    MAIN = (
        HEADER,
        user("u", "go"),
        model("m", "", call("c", "found", agentId="inv-1", args={"objective": "Look"})),
    )
    AGENT = (
        {**HEADER, "sessionId": "inv-1", "kind": "subagent"},
        user("a", "Look"),
        model("b", "found"),
    )

    def test_a_subagent_is_inserted_before_the_result_of_its_call(self, tmp_path: Path) -> None:
        laid_out(
            tmp_path, **{"session-x.jsonl": list(self.MAIN), "s-1/inv-1.jsonl": list(self.AGENT)}
        )
        _, events = read_file(READER, tmp_path / "session-x.jsonl")
        kinds = [event["type"] for event in events]
        assert kinds[2:] == [
            "tool_use",
            "span_start",
            "annotation",
            "message",
            "message",
            "span_end",
            "tool_result",
        ]
        assert events[3]["content"]["data"] == {
            "kind": "subagent",
            "spawn_reason": "Look",
            "tooling_scope": "glob",
            "subagent_type": "glob",
            "agent_id": "inv-1",
        }
        assert {event["visibility"] for event in events[5:7]} == {"internal"}

    def test_an_agent_of_an_agent_lies_in_a_folder_of_its_own(self, tmp_path: Path) -> None:
        deep = (self.AGENT[0], model("b", "", call("c", "deep", agentId="inv-2")))
        deeper = ({**HEADER, "sessionId": "inv-2", "kind": "subagent"}, model("b", "at the bottom"))
        files = {
            "session-x.jsonl": list(self.MAIN),
            "s-1/inv-1.jsonl": list(deep),
            "inv-1/inv-2.jsonl": list(deeper),
        }
        laid_out(tmp_path, **files)
        _, events = read_file(READER, tmp_path / "session-x.jsonl")
        assert [event["type"] for event in events].count("span_start") == 2
        assert "at the bottom" in [words for _, _, words in summarize_messages(events)]
        _, alone = read_file(READER, tmp_path / "s-1" / "inv-1.jsonl")
        assert [event["type"] for event in alone].count("span_start") == 1
        assert_paired(events)

    def test_an_id_that_leads_elsewhere_is_not_followed(self, tmp_path: Path) -> None:
        laid_out(
            tmp_path,
            **{"chats/session-x.jsonl": [{**HEADER, "sessionId": "../out"}, *self.MAIN[1:]]},
        )
        laid_out(tmp_path, **{"out/inv-1.jsonl": list(self.AGENT)})
        _, events = read_file(READER, tmp_path / "chats" / "session-x.jsonl")
        assert "span_start" not in [event["type"] for event in events]

    def test_a_half_line_of_a_subagent_is_noted_with_its_name(self, tmp_path: Path) -> None:
        laid_out(
            tmp_path, **{"session-x.jsonl": list(self.MAIN), "s-1/inv-1.jsonl": list(self.AGENT)}
        )
        with (tmp_path / "s-1" / "inv-1.jsonl").open("ab") as file:
            file.write(b'{"id": "c", "type": "ge')
        record, _ = read_file(READER, tmp_path / "session-x.jsonl")
        assert [(note.code, note.place) for note in record.notes] == [("half-line", "inv-1 line 4")]


def test_odd_shapes() -> None:
    assert_takes_odd_shapes(READER, "gemini_cli")


def test_real_files(corpus: Path) -> None:
    paths = sorted((corpus / "gemini_cli").glob("*.json*"))
    assert len(paths) >= 3
    for path in paths:
        # What stands in `text` of a resultDisplay is shown on the screen alone.
        assert_whole(
            path,
            "gemini_cli",
            ("content", "args", "result", "subject", "description"),
            _is_no_label,
        )


def _is_no_label(text: str) -> bool:
    return not text.startswith(("Index: ", "## ", "> "))


@pytest.mark.parametrize(
    ("record", "is_claimed"),
    [
        ({"type": "init", "timestamp": "t", "session_id": "s", "model": "m"}, True),
        ({"type": "tool_use", "timestamp": "t", "tool_name": "x", "tool_id": "i"}, True),
        ({"type": "init", "session_id": "s", "model": "m"}, False),
        ({"type": "system", "subtype": "init", "session_id": "s", "model": "m"}, False),
        ({"type": "tool_use", "id": "i", "name": "x", "timestamp": "t"}, False),
        ({"type": "message", "timestamp": "t", "role": "user", "content": "x"}, False),
    ],
)
def test_a_stream_is_reported_apart(record: dict[str, Any], is_claimed: bool) -> None:
    data = json.dumps(record).encode() + b"\n"
    assert READER.sniff(Source("stream", data=data * 2)) is is_claimed
