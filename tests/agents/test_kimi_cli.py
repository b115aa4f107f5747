"""Kimi: turns and steps of the event log, undos, compactions, subagents, and the wire log."""

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

READER = READERS["kimi_cli"]

read = build_read_function(READER)
HEADER = {"type": "metadata", "protocol_version": "1.4", "created_at": 1785600000000}
NOW = 1785600001000
USAGE = {"inputOther": 3, "output": 2, "inputCacheRead": 10, "inputCacheCreation": 1}
SPENT = tokens(input_tokens=14, output_tokens=2, cache_read_tokens=10, cache_write_tokens=1)


def row(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, **more, "time": NOW}


def prompt(text: str, **origin: Any) -> dict[str, Any]:
    return row(
        "turn.prompt", input=[{"type": "text", "text": text}], origin=origin or {"kind": "user"}
    )


def taken(text: str, **origin: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    message = {
        "role": "user",
        "content": content,
        "toolCalls": [],
        "origin": origin or {"kind": "user"},
    }
    return row("context.append_message", message=message)


def event(kind: str, **more: Any) -> dict[str, Any]:
    return row("context.append_loop_event", event={"type": kind, **more})


def says(text: str) -> dict[str, Any]:
    return event("content.part", part={"type": "text", "text": text})


def call(name: str, tool: str = "Bash", **arguments: Any) -> dict[str, Any]:
    return event("tool.call", toolCallId=name, name=tool, args=arguments)


def result(name: str, output: Any, **more: Any) -> dict[str, Any]:
    return event("tool.result", toolCallId=name, result={"output": output, **more})


BEGIN, END = (
    event("step.begin", uuid="s"),
    event("step.end", uuid="s", usage=USAGE, finishReason="end_turn"),
)


class TestSniff:
    @pytest.mark.parametrize(
        "records",
        [
            [HEADER],
            [says("x")],
            [prompt("x")],
            [{"timestamp": 1.0, "message": {"type": "TurnBegin", "payload": {"user_input": "hi"}}}],
        ],
    )
    def test_no_other_reader_claims_it(self, records: list[Any]) -> None:
        source = Source("x", data=lines(*records))
        assert [name for name in READERS if load_reader(name).sniff(source)] == ["kimi_cli"]

    @pytest.mark.parametrize(
        "record",
        [{"type": "metadata"}, {"type": "turn.prompt"}, {"message": {"type": "TurnBegin"}}, 5],
    )
    def test_what_is_not_its_own(self, record: Any) -> None:
        assert not READER.sniff(Source("x", data=lines(record)))

    def test_peek(self) -> None:
        bound = row("profile.bind", environmentDisclosure={"cwd": "/w"})
        assert READER.peek([HEADER, bound, prompt("hi")]) == {"cwd": "/w", "title": "hi"}
        assert READER.peek([HEADER, row("config.update", cwd="/w"), prompt("hi")]) == {
            "cwd": "/w",
            "title": "hi",
        }
        wire = {"timestamp": 1.0, "message": {"type": "TurnBegin", "payload": {"user_input": "ho"}}}
        assert READER.peek([None, wire]) == {"title": "ho"}


class TestPrompts:
    def test_a_prompt_and_its_message_are_exported_once(self) -> None:
        _, events = read(lines(HEADER, prompt("hi"), taken("hi"), prompt("hi"), taken("hi")))
        assert summarize_messages(events) == [("user", "public", "hi")] * 2

    def test_a_prompt_that_got_no_further(self) -> None:
        _, events = read(
            lines(HEADER, prompt("one"), row("turn.cancel", reason="aborted"), prompt("two"))
        )
        assert [event["type"] for event in events] == ["message", "annotation", "message"]
        assert facts(events, "interrupted") == [{"kind": "interrupted", "reason": "aborted"}]

    def test_a_command_precedes_its_expansion(self) -> None:
        origin = {"kind": "skill_activation", "trigger": "user-slash"}
        _, events = read(
            lines(HEADER, prompt("/fix", **origin), taken("Fix everything.", **origin))
        )
        assert summarize_messages(events) == [
            ("user", "public", "/fix"),
            ("user", "internal", "Fix everything."),
        ]

    def test_a_message_that_is_more_than_its_prompt(self) -> None:
        _, events = read(lines(HEADER, prompt("see @a"), taken("see @a\n<file>a</file>")))
        assert summarize_messages(events) == [
            ("user", "public", "see @a"),
            ("user", "internal", "see @a\n<file>a</file>"),
        ]

    def test_words_while_the_model_works(self) -> None:
        steer = {**prompt("faster"), "type": "turn.steer"}
        rows = [
            prompt("go"),
            taken("go"),
            BEGIN,
            steer,
            says("going"),
            END,
            taken("faster"),
            BEGIN,
            says("yes"),
            END,
        ]
        _, events = read(lines(HEADER, *rows))
        assert [words for _, _, words in summarize_messages(events)] == [
            "go",
            "going",
            "faster",
            "yes",
        ]

    @pytest.mark.parametrize(
        "kind", ["injection", "hook_result", "cron_job", "task", "retry", "system_trigger", "new"]
    )
    def test_what_no_person_typed(self, kind: str) -> None:
        _, events = read(lines(HEADER, taken("reminder", kind=kind)))
        assert summarize_messages(events) == [("user", "internal", "reminder")]


class TestSteps:
    def test_what_a_step_cost_is_counted_once(self) -> None:
        record = row("usage.record", usage=USAGE, usageScope="turn")
        _, events = read(
            lines(
                HEADER,
                BEGIN,
                event("content.part", part={"type": "think", "think": "hm"}),
                says("yes"),
                END,
                record,
            )
        )
        assert [event.get("usage") for event in events] == [None, SPENT]

    def test_a_step_of_calls_carries_it_on_the_first(self) -> None:
        _, events = read(
            lines(HEADER, BEGIN, call("a"), call("b"), result("b", "2"), result("a", "1"), END)
        )
        assert [event.get("usage") for event in events] == [SPENT, None, None, None]
        assert_paired(events)

    def test_a_step_of_thought_alone_carries_it_there(self) -> None:
        _, events = read(
            lines(HEADER, BEGIN, event("content.part", part={"type": "think", "think": "hm"}), END)
        )
        assert events[0]["usage"] == SPENT

    def test_usage_of_an_empty_step_is_an_annotation(self) -> None:
        _, events = read(lines(HEADER, BEGIN, END))
        assert (facts(events, "usage"), events[0]["usage"]) == ([{"kind": "usage"}], SPENT)

    def test_encrypted_reasoning_and_an_unusual_stop(self) -> None:
        end = event("step.end", finishReason="filtered")
        _, events = read(
            lines(
                HEADER, BEGIN, event("content.part", part={"type": "think", "encrypted": "x"}), end
            )
        )
        assert events[0]["content"]["data"] == {"redacted": True, "encrypted": True}
        assert facts(events, "stop") == [{"kind": "stop", "reason": "filtered"}]

    def test_the_model_is_the_one_that_was_asked(self) -> None:
        asked = row("llm.request", model="kimi-k3")
        record, _ = read(
            lines(
                HEADER, row("config.update", modelAlias="m/kimi-k2"), BEGIN, asked, says("x"), END
            )
        )
        assert [who.get("model") for who in record.participants if who["kind"] == "model"] == [
            "kimi-k3"
        ]

    def test_facts_about_a_result(self) -> None:
        _, events = read(
            lines(HEADER, BEGIN, call("a"), result("a", "no", isError=True, note="1 line"))
        )
        assert facts(events, "result_facts") == [
            {"kind": "result_facts", "is_error": True, "note": "1 line"}
        ]

    def test_an_image_in_a_result(self) -> None:
        parts = [
            {"type": "text", "text": "see"},
            {"type": "image_url", "imageUrl": {"url": "data:image/png;base64,AA=="}},
        ]
        _, events = read(lines(HEADER, BEGIN, call("a"), result("a", parts)))
        assert events[-1]["content"]["data"][1]["media_type"] == "image/png"

    def test_a_call_that_was_never_answered(self) -> None:
        _, events = read(lines(HEADER, BEGIN, call("a"), END))
        assert events[-1]["content"]["data"] == {"missing_result": True}

    def test_messages_in_one_piece(self) -> None:
        function = {"name": "Bash", "arguments": '{"command": "ls"}'}
        assistant = {
            "role": "assistant",
            "content": [{"type": "text", "text": "ok"}],
            "toolCalls": [{"id": "a", "function": function}],
        }
        tool = {"role": "tool", "content": "x", "toolCallId": "a"}
        rows = [
            row("context.append_message", message=message)
            for message in (assistant, tool, {"role": "?"}, 5)
        ]
        record, events = read(lines(HEADER, *rows))
        assert events[1]["content"]["data"]["arguments"] == {"command": "ls"}
        assert len(record.notes) == 2
        assert_paired(events)


class TestSession:
    def test_settings_prompts_and_tools_are_exported_when_they_change(self) -> None:
        update = row("config.update", systemPrompt="Be kind.", profileName="agent")
        names = row("tools.set_active_tools", names=["Bash"])
        _, events = read(
            lines(HEADER, update, names, update, names, row("config.update", profileName="plan"))
        )
        assert summarize_messages(events) == [("system", "internal", "Be kind.")]
        assert facts(events, "context") == [
            {"kind": "context", "profile": "agent"},
            {"kind": "context", "profile": "plan"},
        ]
        assert facts(events, "tools") == [{"kind": "tools", "names": ["Bash"]}]

    def test_an_undone_turn_is_left(self) -> None:
        rows = [
            prompt("1"),
            taken("1"),
            prompt("2"),
            taken("2"),
            taken("x", kind="injection"),
            prompt("3"),
            taken("3"),
        ]
        _, events = read(
            lines(HEADER, *rows, row("context.undo", count=2), prompt("4"), taken("4"))
        )
        assert [words for _, _, words in summarize_messages(events)] == ["1", "4"]
        _, events = read(
            lines(HEADER, *rows, row("context.undo", count=1), row("context.undo", count=1)),
            branches="all",
        )
        assert [event["type"] for event in events].count("span_start") == 1

    @pytest.mark.parametrize("count", [0, -1, 9, "1", None])
    def test_an_undo_of_nothing_is_noted(self, count: Any) -> None:
        record, events = read(
            lines(HEADER, prompt("1"), taken("1"), row("context.undo", count=count))
        )
        assert [note.detail for note in record.notes] == ["type context.undo"]
        assert len(events) == 1

    def test_a_summary_may_be_a_message(self) -> None:
        summary = {"role": "user", "content": [{"type": "text", "text": "In short"}]}
        _, events = read(lines(HEADER, row("context.apply_compaction", summary=summary, count=2)))
        assert summarize_messages(events) == [("user", "internal", "In short")]

    def test_notices_and_what_is_not_carried(self) -> None:
        rows = [
            row("plan_mode.exit"),
            row("turn.ended", reason="completed"),
            row("cron.cursor", at=1),
            {"kind": "?"},
        ]
        record, events = read(lines(HEADER, prompt("x"), *rows, event("step.nap"), event("")))
        assert facts(events, "notice") == [{"kind": "notice", "event": "plan_mode.exit"}]
        assert [note.detail for note in record.notes] == [
            "type cron.cursor",
            "record without a type",
            "event step.nap",
            "event without a known type",
        ]


class TestSubagents:
    MAIN = (
        HEADER,
        prompt("go"),
        taken("go"),
        BEGIN,
        call("Agent_0", "Agent", description="Look", subagent_type="explore"),
        result("Agent_0", "agent_id: agent-0\nstatus: completed\n\nagent_id: ../main"),
        END,
    )
    AGENT = (
        HEADER,
        prompt("look", kind="system_trigger", name="subagent"),
        taken("look", kind="system_trigger", name="subagent"),
        BEGIN,
        call("Agent_0"),
        result("Agent_0", "seen"),
        says("looked"),
        END,
    )

    def lay(self, folder: Path) -> Path:
        base = "wd_x/session_1/agents"
        laid_out(
            folder,
            **{
                f"{base}/main/wire.jsonl": list(self.MAIN),
                f"{base}/agent-0/wire.jsonl": list(self.AGENT),
            },
        )
        laid_out(folder, **{"wd_x/session_1/state.json": {"title": "T"}})
        return folder / base

    def test_subagent_is_inserted_before_the_result_of_its_call(self, tmp_path: Path) -> None:
        record, events = read_file(READER, self.lay(tmp_path) / "main" / "wire.jsonl")
        kinds = [event["type"] for event in events]
        assert kinds == [
            "message", "tool_use",
            "span_start", "message", "tool_use", "tool_result", "message", "span_end",
            "tool_result",
        ]  # fmt: skip
        assert (record.conversation["id"], record.conversation["title"]) == ("session_1", "T")
        assert events[3]["visibility"] == "internal"
        assert [
            event["content"]["data"]["native_call_id"]
            for event in events
            if event["type"] == "tool_use"
        ] == ["Agent_0"] * 2
        assert_paired(events)

    def test_files_that_were_copied_out(self, tmp_path: Path) -> None:
        laid_out(
            tmp_path,
            **{
                "chat.jsonl": list(self.MAIN),
                "subagent_agent-0.jsonl": list(self.AGENT),
                "agent-9.jsonl": [HEADER],
            },
        )
        _, events = read_file(READER, tmp_path / "chat.jsonl")
        assert [event["type"] for event in events].count("span_start") == 1

    def test_a_subagents_own_file(self, tmp_path: Path) -> None:
        record, events = read_file(READER, self.lay(tmp_path) / "agent-0" / "wire.jsonl")
        assert record.conversation["id"] == "session_1_agent-0"
        assert record.participants[1]["name"] == "parent agent"
        assert "span_start" not in [event["type"] for event in events]

    def test_a_broken_state_is_noted(self, tmp_path: Path) -> None:
        path = self.lay(tmp_path) / "main" / "wire.jsonl"
        (tmp_path / "wd_x" / "session_1" / "state.json").write_text("{")
        record, _ = read_file(READER, path)
        assert [note.place for note in record.notes] == ["state.json"]


class TestWire:
    @staticmethod
    def wire(kind: str, **payload: Any) -> dict[str, Any]:
        return {"timestamp": 1770000000.25, "message": {"type": kind, "payload": payload}}

    def agent(self, kind: str, **payload: Any) -> dict[str, Any]:
        return self.wire(
            "SubagentEvent", parent_tool_call_id="t", event={"type": kind, "payload": payload}
        )

    def test_a_subagent_in_the_same_file(self) -> None:
        shell = {"id": "s", "function": {"name": "Shell", "arguments": "{}"}}
        rows = [
            self.wire("TurnBegin", user_input="go"),
            self.wire("ToolCall", id="t", function={"name": "Task", "arguments": "{}"}),
            self.agent("TurnBegin", user_input="look"),
            self.agent("ToolCall", **shell),
            self.agent(
                "ToolResult", tool_call_id="s", return_value={"output": "x", "is_error": False}
            ),
            self.wire("ToolResult", tool_call_id="t", return_value={"output": "done"}),
        ]
        _, events = read(lines(HEADER, *rows))
        kinds = [event["type"] for event in events]
        assert kinds == [
            "message",
            "tool_use",
            "span_start",
            "message",
            "tool_use",
            "tool_result",
            "span_end",
            "tool_result",
        ]
        assert events[0]["ts"] == "2026-02-02T02:40:00.250Z"
        assert_paired(events)
        _, events = read(lines(HEADER, *rows), subagents="reference")
        assert events[3]["content"]["data"] == {"records": 3}
        record, events = read(lines(HEADER, *rows), subagents="none")
        assert [note.code for note in record.notes] == ["subagent"]
        assert len(events) == 3

    def test_a_subagent_that_never_came_back(self) -> None:
        _, events = read(
            lines(
                self.wire("TurnBegin", user_input="go"), self.agent("TurnBegin", user_input="look")
            )
        )
        assert events[-1]["type"] == "span_end"

    def test_what_is_not_carried_is_named(self) -> None:
        record, _ = read(
            lines(
                self.wire("TurnBegin", user_input="go"),
                self.wire("Teleport"),
                self.wire("TurnEnd"),
                {"x": 1},
            )
        )
        assert [note.detail for note in record.notes] == [
            "type Teleport",
            "record without a message",
        ]


def test_odd_shapes() -> None:
    assert_takes_odd_shapes(READER, "kimi_cli")


def test_real_files(corpus: Path) -> None:
    paths = sorted((corpus / "kimi_cli").glob("*.jsonl"))
    assert len(paths) >= 2
    for path in paths:
        assert_whole(
            path,
            "kimi_cli",
            ("text", "think", "args", "result", "systemPrompt", "summary", "contextSummary"),
        )
