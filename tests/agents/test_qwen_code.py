"""Qwen Code: typed and injected text, results, branches, subagents, system records."""

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
    laid_out,
    lines,
    read_file,
    summarize_messages,
)

READER = READERS["qwen_code"]

read = build_read_function(READER)
TS = "2026-08-03T10:00:00.000Z"


def row(name: str, parent: str | None, kind: str, *parts: Any, **more: Any) -> dict[str, Any]:
    made = {
        "uuid": name,
        "parentUuid": parent,
        "sessionId": "q-1",
        "timestamp": TS,
        "type": kind,
        **more,
    }
    role = "model" if kind == "assistant" else "user"
    return {**made, "message": {"role": role, "parts": list(parts)}} if parts else made


def user(name: str, parent: str | None, text: str, **more: Any) -> dict[str, Any]:
    return row(name, parent, "user", {"text": text}, **more)


def system(name: str, parent: str | None, subtype: str, **payload: Any) -> dict[str, Any]:
    return row(name, parent, "system", subtype=subtype, systemPayload=payload)


def call(name: str) -> dict[str, Any]:
    return {"functionCall": {"id": name, "name": "glob", "args": {"pattern": "*"}}}


def answer(name: str | None, **response: Any) -> dict[str, Any]:
    return {"functionResponse": {"id": name, "name": "glob", "response": response}}


def said(*records: Any, **options: Any) -> list[Any]:
    return [words for _, _, words in summarize_messages(read(lines(*records), **options)[1])]


class TestSniff:
    def test_no_other_reader_claims_it(self) -> None:
        for records in (
            [user("a", None, "hi")],
            [system("a", None, "custom_title", customTitle="x")],
        ):
            source = Source("x", data=lines(*records))
            assert [name for name in READERS if load_reader(name).sniff(source)] == ["qwen_code"]

    @pytest.mark.parametrize(
        "record",
        [
            {"role": "user", "parts": [{"text": "a content of the API"}]},
            {
                "type": "user",
                "uuid": "u",
                "sessionId": "s",
                "message": {"role": "user", "content": "Claude"},
            },
            {"type": "user", "message": {"parts": []}, "uuid": "u"},
            {"type": "assistant", "sessionId": "s", "message": {"parts": []}},
            5,
        ],
    )
    def test_what_is_not_its_own(self, record: Any) -> None:
        assert not READER.sniff(Source("x", data=lines(record)))

    def test_peek(self) -> None:
        shown = user("a", None, "long", cwd="/w", systemPayload={"displayText": "short"})
        assert READER.peek([shown]) == {
            "id": "q-1",
            "cwd": "/w",
            "title": "short",
            "words": "short",
        }
        assert (
            READER.peek([user("a", None, "hi"), system("b", "a", "custom_title", customTitle="T")])[
                "title"
            ]
            == "T"
        )
        assert READER.peek_tail(
            [None, system("b", "a", "custom_title", customTitle="T"), user("c", "b", "x")]
        ) == {"title": "T"}


class TestPrompts:
    def test_typed_text_and_sent_text(self) -> None:
        hook = "<qwen:user-prompt-submit-context>\nIt rains.\n</qwen:user-prompt-submit-context>"
        payload = {"displayText": "hi", "hookContext": "It rains."}
        _, events = read(
            lines(row("a", None, "user", {"text": "hi"}, {"text": hook}, systemPayload=payload))
        )
        assert summarize_messages(events) == [("user", "public", "hi"), ("user", "internal", hook)]
        _, events = read(lines(row("a", None, "user", {"text": "hi"}, {"text": hook})))
        assert summarize_messages(events) == [("user", "public", "hi"), ("user", "internal", hook)]

    def test_context_of_a_hook_that_no_part_has(self) -> None:
        _, events = read(
            lines(
                user(
                    "a", None, "hi", systemPayload={"displayText": "hi", "hookContext": "It rains."}
                )
            )
        )
        assert summarize_messages(events) == [
            ("user", "public", "hi"),
            ("user", "internal", "It rains."),
        ]

    def test_an_empty_display_means_that_nothing_was_typed(self) -> None:
        _, events = read(lines(user("a", None, "expanded", systemPayload={"displayText": ""})))
        assert summarize_messages(events) == [("user", "internal", "expanded")]

    @pytest.mark.parametrize(
        "more", [{"subtype": "cron"}, {"subtype": "notification"}, {"externalInputKind": "message"}]
    )
    def test_what_no_person_typed(self, more: dict[str, Any]) -> None:
        _, events = read(lines(user("a", None, "tick", **more)))
        assert summarize_messages(events) == [("user", "internal", "tick")]

    def test_files_that_were_referred_to(self) -> None:
        payload = {
            "displayText": "see",
            "attachmentReferences": [{"type": "image", "attachmentId": "i"}],
        }
        _, events = read(lines(user("a", None, "see", systemPayload=payload)))
        assert facts(events, "attachment")[0]["attachmentReferences"][0]["attachmentId"] == "i"


class TestAnswers:
    def test_thoughts_words_and_calls_in_order(self) -> None:
        parts = [
            {"text": "hm", "thought": True},
            {"text": "so", "thought": True},
            {"text": "a"},
            call("c"),
            {"text": "b"},
        ]
        counts = {
            "promptTokenCount": 5,
            "candidatesTokenCount": 7,
            "thoughtsTokenCount": 2,
            "totalTokenCount": 14,
        }
        _, events = read(
            lines(row("a", None, "assistant", *parts, model="qwen3-max", usageMetadata=counts))
        )
        roles = [event.get("role") for event in events if event["type"] != "annotation"]
        assert roles == [
            "assistant_thought",
            "assistant_thought",
            "assistant",
            "assistant",
            "tool",
            "assistant",
        ]
        assert [event["usage"] for event in events if "usage" in event] == [
            tokens(input_tokens=5, output_tokens=9, reasoning_tokens=2)
        ]

    def test_the_total_shows_whether_output_includes_thoughts(self) -> None:
        counts = {
            "promptTokenCount": 5,
            "candidatesTokenCount": 7,
            "thoughtsTokenCount": 2,
            "totalTokenCount": 12,
        }
        _, events = read(lines(row("a", None, "assistant", {"text": "x"}, usageMetadata=counts)))
        assert events[-1]["usage"]["output_tokens"] == 7

    def test_fragments_of_one_record(self) -> None:
        first = row("a", None, "assistant", {"text": "hm", "thought": True})
        second = row(
            "a",
            None,
            "assistant",
            {"text": "yes"},
            model="m",
            usageMetadata={"promptTokenCount": 3},
        )
        record, events = read(lines(first, second))
        assert [who["model"] for who in record.participants if who["kind"] == "model"] == ["m"]
        assert [event["content"]["text"] for event in events if event["type"] == "message"] == [
            "hm",
            "yes",
        ]

    def test_a_thought_alone_carries_the_usage(self) -> None:
        counts = {"promptTokenCount": 3, "candidatesTokenCount": 1}
        _, events = read(
            lines(
                row("a", None, "assistant", {"text": "hm", "thought": True}, usageMetadata=counts)
            )
        )
        assert events[-1]["usage"] == tokens(input_tokens=3, output_tokens=1)


class TestResults:
    def test_status_error_and_duration(self) -> None:
        about = {"callId": "c", "status": "error", "durationMs": 5}
        result = row("b", "a", "tool_result", answer("c", error="no"), toolCallResult=about)
        _, events = read(lines(row("a", None, "assistant", call("c")), result))
        assert facts(events, "result_facts") == [
            {"kind": "result_facts", "is_error": True, "status": "error", "duration_ms": 5}
        ]
        assert_paired(events)

    def test_the_call_id_outside_the_message(self) -> None:
        result = row(
            "b", "a", "tool_result", answer(None, output="x"), toolCallResult={"callId": "c"}
        )
        bare = row("d", "b", "tool_result", {"text": "y"}, toolCallResult={"callId": "e"})
        _, events = read(lines(row("a", None, "assistant", call("c"), call("e")), result, bare))
        assert [event["content"]["text"] for event in events if event["type"] == "tool_result"] == [
            "x",
            "y",
        ]
        assert_paired(events)

    def test_results_in_the_users_place(self) -> None:
        both = row(
            "b", "a", "user", answer("c", output="1"), answer("d", output="2"), {"text": "beside"}
        )
        _, events = read(lines(row("a", None, "assistant", call("c"), call("d")), both))
        results = [event["content"] for event in events if event["type"] == "tool_result"]
        assert results[0]["text"] == "1"
        assert [block["text"] for block in results[1]["data"]] == ["2", "beside"]


class TestTree:
    def test_what_was_rewound_is_left(self) -> None:
        rows = [
            user("a", None, "one"),
            row("b", "a", "assistant", {"text": "two"}),
            system("c", "a", "rewind", truncatedCount=1),
            user("d", "c", "three"),
        ]
        assert said(*rows) == ["one", "three"]
        assert said(*rows, branches="all") == ["one", "two", "three"]

    def test_a_rewind_to_the_very_beginning(self) -> None:
        rows = [user("a", None, "one"), system("b", None, "rewind"), user("c", "b", "two")]
        assert said(*rows) == ["two"]

    def test_a_second_root_without_a_rewind_leaves_nothing(self) -> None:
        assert said(user("a", None, "one"), user("b", None, "two")) == ["one", "two"]

    def test_a_missing_parent_leaves_nothing(self) -> None:
        assert said(user("a", None, "one"), user("b", "gone", "two"), user("c", "b", "three")) == [
            "one",
            "two",
            "three",
        ]

    def test_detached_records_are_no_branch(self) -> None:
        rows = [
            user("a", None, "one"),
            system("b", "a", "session_artifact_snapshot", artifacts=[]),
            system("c", "a", "custom_title", customTitle="T"),
            user("d", "a", "two"),
        ]
        record, events = read(lines(*rows), branches="all")
        assert record.conversation["title"] == "T"
        assert "span_start" not in [event["type"] for event in events]

    def test_a_circle_comes_to_an_end(self) -> None:
        assert said(user("a", "b", "one"), user("b", "a", "two")) == ["one", "two"]

    def test_titles_of_a_left_branch_do_not_hold(self) -> None:
        rows = [
            user("a", None, "one"),
            row("b", "a", "assistant", {"text": "x"}),
            system("c", "b", "custom_title", customTitle="Old"),
            system("d", "a", "rewind"),
            user("e", "d", "two"),
        ]
        record, _ = read(lines(*rows))
        assert "title" not in record.conversation
        assert [(note.code, note.place) for note in record.notes] == [
            ("abandoned-branch", "event 3"),
            ("unused-title", "line 3"),
        ]


class TestSystem:
    def test_a_shortened_context(self) -> None:
        history = [
            {"role": "user", "parts": [{"text": "In short"}]},
            {"role": "model", "parts": [{"text": "Got it."}]},
        ]
        info = {"originalTokenCount": 9, "newTokenCount": 2}
        record, events = read(
            lines(system("a", None, "chat_compression", info=info, compressedHistory=history))
        )
        assert summarize_messages(events) == [("user", "internal", "In short")]
        assert facts(events, "compaction") == [
            {"kind": "compaction", "tokens_before": 9, "tokens_after": 2}
        ]
        assert [note.code for note in record.notes] == ["kept-history"]

    def test_commands(self) -> None:
        rows = [
            system("a", None, "slash_command", phase="invocation", rawCommand="/about"),
            system(
                "b",
                "a",
                "slash_command",
                phase="result",
                rawCommand="/about",
                outputHistoryItems=[{"text": "v1"}],
            ),
        ]
        _, events = read(lines(*rows))
        assert summarize_messages(events) == [("user", "internal", "/about")]
        assert facts(events, "notice")[0]["outputHistoryItems"] == [{"text": "v1"}]

    def test_what_is_not_carried_is_named(self) -> None:
        rows = [
            user("a", None, "x"),
            system("b", "a", "ui_telemetry"),
            system("c", "b", "Ada's secret"),
            7,
        ]
        record, _ = read(lines(*rows))
        assert [note.detail for note in record.notes] == [
            "system ui_telemetry",
            "system without a known type",
            "line is not a JSON object",
        ]


class TestSubagents:
    MAIN = (
        user("a", None, "go"),
        row("b", "a", "assistant", call("c"), model="m"),
        row(
            "d",
            "b",
            "tool_result",
            answer("c", output="done"),
            toolCallResult={"callId": "c", "status": "success"},
        ),
    )

    @staticmethod
    def agent(*parts: Any) -> list[dict[str, Any]]:
        more = {"isSidechain": True, "agentId": "x1", "agentName": "explore"}
        return [user("p", None, "look", **more), row("q", "p", "assistant", *parts, **more)]

    def lay(self, folder: Path, **meta: Any) -> Path:
        files: dict[str, Any] = {
            "chats/q-1.jsonl": list(self.MAIN),
            "subagents/q-1/agent-x1.jsonl": self.agent({"text": "looked"}, call("c")),
        }
        if meta:
            files["subagents/q-1/agent-x1.meta.json"] = meta
        return laid_out(folder, **files) / "chats" / "q-1.jsonl"

    def test_subagent_is_inserted_before_the_result_of_its_call(self, tmp_path: Path) -> None:
        path = self.lay(
            tmp_path, toolUseId="c", agentType="explore", description="Look around", model="m2"
        )
        _, events = read_file(READER, path)
        kinds = [event["type"] for event in events]
        assert kinds == [
            "annotation", "message", "tool_use",
            "span_start", "message", "message", "tool_use", "tool_result", "span_end",
            "tool_result",
        ]  # fmt: skip
        data = events[3]["content"]["data"]
        assert (data["spawn_reason"], data["agent_id"], data["model"]) == (
            "Look around",
            "x1",
            "m2",
        )
        assert_paired(events)

    def test_without_a_known_call_it_is_at_the_end(self, tmp_path: Path) -> None:
        _, events = read_file(READER, self.lay(tmp_path))
        kinds = [event["type"] for event in events]
        assert kinds.index("span_start") > kinds.index("tool_result")
        assert events[kinds.index("span_start")]["content"]["data"]["subagent_type"] == "explore"

    def test_a_broken_sidecar_is_noted(self, tmp_path: Path) -> None:
        path = self.lay(tmp_path)
        (tmp_path / "subagents" / "q-1" / "agent-x1.meta.json").write_text("{")
        record, _ = read_file(READER, path)
        assert [(note.code, note.place) for note in record.notes] == [
            ("broken-file", "agent-x1.meta.json")
        ]

    def test_left_out_or_referred_to(self, tmp_path: Path) -> None:
        path = self.lay(tmp_path, toolUseId="c")
        record, events = read_file(READER, path, subagents="none")
        assert [note.code for note in record.notes] == ["subagent"]
        assert "span_start" not in [event["type"] for event in events]
        _, events = read_file(READER, path, subagents="reference")
        data = next(event["content"]["data"] for event in events if event["type"] == "span_start")
        assert (data["file"], data["records"]) == ("agent-x1.jsonl", 2)

    def test_what_only_the_screen_showed(self) -> None:
        shown = {
            "type": "task_execution",
            "subagentName": "explore",
            "taskPrompt": "look",
            "toolCalls": [
                {
                    "callId": "c",
                    "name": "ls",
                    "args": {},
                    "responseParts": [answer("c", output="a b")],
                },
                {"callId": "s", "name": "ls", "status": "failed", "error": "no"},
                {"callId": "t", "name": "ls", "status": "executing"},
                5,
            ],
        }
        result = {**self.MAIN[2], "toolCallResult": {"callId": "c", "resultDisplay": shown}}
        _, events = read(lines(*self.MAIN[:2], result))
        assert [event["content"].get("text") for event in events if event["type"] == "tool_result"] == [
            "a b", "no", None, "done",
        ]  # fmt: skip
        assert_paired(events)
        for choice in ("reference", "none"):
            _, events = read(lines(*self.MAIN[:2], result), subagents=choice)
            assert len([event for event in events if event["type"] == "tool_use"]) == 1

    def test_a_subagents_own_file(self) -> None:
        record, events = read(lines(*self.agent({"text": "looked"})))
        assert record.conversation["id"] == "agent-x1"
        assert record.participants[1]["name"] == "parent agent"
        assert summarize_messages(events) == [
            ("user", "public", "look"),
            ("assistant", "public", "looked"),
        ]


def test_odd_shapes() -> None:
    assert_takes_odd_shapes(READER, "qwen_code")


def test_real_files(corpus: Path) -> None:
    paths = sorted((corpus / "qwen_code").glob("*.jsonl"))
    assert len(paths) >= 2
    for path in paths:
        assert_whole(path, "qwen_code", ("text", "args", "output"))
