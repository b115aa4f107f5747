"""Copilot CLI logs: messages, calls that are logged twice, usage and subagents."""

import json
from pathlib import Path
from typing import Any, ClassVar

import pytest

from open_token.builder.draft import Draft
from open_token.jsontools.walk import iter_strings
from open_token.model.document import Event
from open_token.registry import READERS, detect_format
from open_token.sources.source import Source
from readers.odd_values import iter_mangled
from readers.provider_readers import build_read_function

READER = READERS["copilot_cli"]

GOLDEN = Path(__file__).parent.parent / "golden" / "copilot_cli"
CASES = [
    "arguments_twice", "asides", "autopilot", "basic", "results", "resumed", "sent_text", "subagent", "user_tools"
]  # fmt: skip
read_bytes = build_read_function(READER)


def event(kind: str, data: Any = None, **more: Any) -> dict[str, Any]:
    made = {
        "type": kind,
        "data": {} if data is None else data,
        "id": "e",
        "timestamp": "2026-01-01T00:00:00.000Z",
    }
    return {**made, "parentId": None, **more}


def lines(*events: Any) -> bytes:
    return "".join(json.dumps(item) + "\n" for item in events).encode()


def read_events(*events: Any, **options: Any) -> list[Event]:
    return read_bytes(lines(event("session.start", {"sessionId": "s"}), *events), **options)[1]


def answer(text: str = "", *requests: Any, **more: Any) -> dict[str, Any]:
    agent = {"agentId": more.pop("agent")} if "agent" in more else {}
    return event(
        "assistant.message", {"content": text, "toolRequests": list(requests), **more}, **agent
    )


def request(name: str, tool: str = "bash", given: Any = None) -> dict[str, Any]:
    return {"toolCallId": name, "name": tool, "arguments": given or {}}


def done(name: str, output: str = "ok", **more: Any) -> dict[str, Any]:
    result = {"toolCallId": name, "success": True, "result": {"content": output}}
    return event("tool.execution_complete", {**result, **more})


def of_type(events: list[Event], kind: str) -> list[Event]:
    return [item for item in events if item["type"] == kind]


def notes(events: list[Event], kind: str) -> list[Any]:
    return [
        item["content"]["data"]
        for item in of_type(events, "annotation")
        if item["content"]["data"]["kind"] == kind
    ]


class TestDuplicates:
    def test_a_call_is_exported_once_with_the_requested_arguments(self) -> None:
        start = event(
            "tool.execution_start",
            {"toolCallId": "c", "toolName": "bash", "arguments": {"command": "ls"}},
        )
        events = read_events(
            answer("", request("c", given={"command": "ls", "description": "d"})),
            start,
            done("c"),
            start,
        )
        [call] = of_type(events, "tool_use")
        assert call["content"]["data"]["arguments"] == {"command": "ls", "description": "d"}
        assert len(of_type(events, "tool_result")) == 1

    def test_a_call_that_no_answer_asked_for(self) -> None:
        start = event(
            "tool.execution_start",
            {"toolCallId": "c", "toolName": "glob", "arguments": '{"pattern":"*"}'},
        )
        [call] = of_type(read_events(start), "tool_use")
        assert call["content"]["data"] == {
            "tool_name": "glob",
            "arguments": {"pattern": "*"},
            "native_call_id": "c",
        }

    def test_a_changed_system_prompt_is_exported_again(self) -> None:
        def prompt(text: str, role: str = "system") -> dict[str, Any]:
            return event("system.message", {"role": role, "content": text})

        events = read_events(
            prompt("a"),
            prompt("a"),
            prompt("b", "developer"),
            prompt("a"),
            prompt("c"),
            prompt("a"),
        )
        said = [(item["role"], item["content"]["text"]) for item in of_type(events, "message")]
        assert said == [("system", "a"), ("developer", "b"), ("system", "c"), ("system", "a")]

    def test_a_thought_in_a_line_of_its_own(self) -> None:
        line = event("assistant.reasoning", {"reasoningId": "r", "content": "hm"})
        for data in ({"reasoningText": "hm"}, {"reasoningOpaque": "x"}, {}):
            roles = [
                item["role"] for item in of_type(read_events(line, answer("a", **data)), "message")
            ]
            assert roles == ["assistant_thought", "assistant"]
        other = read_events(line, answer("a", reasoningText="more"))
        assert [item["content"]["text"] for item in of_type(other, "message")] == [
            "hm",
            "more",
            "a",
        ]
        assert [item["role"] for item in of_type(read_events(line, event("abort")), "message")] == [
            "assistant_thought"
        ]
        assert [item["role"] for item in of_type(read_events(line), "message")] == [
            "assistant_thought"
        ]

    def test_tokens_of_an_answer_in_parts_count_once(self) -> None:
        part = {"apiCallId": "a", "outputTokens": 9}
        events = read_events(
            answer("x", messageId="1", **part),
            answer("y", messageId="2", **part),
            answer("z", outputTokens=1),
        )
        assert [item["usage"]["output_tokens"] for item in events if "usage" in item] == [9, 1]


class TestUser:
    def test_typed_text_is_public_and_sent_text_is_annotated(self) -> None:
        events = read_events(
            event("user.message", {"content": "hi", "transformedContent": "<now/>hi"})
        )
        assert (events[1]["visibility"], events[1]["content"]["text"]) == ("public", "hi")
        assert notes(events, "sent_text") == [{"kind": "sent_text", "text": "<now/>hi"}]
        assert events[2]["links"] == {"parent_id": events[1]["id"]}
        assert (
            notes(
                read_events(event("user.message", {"content": "hi", "transformedContent": "hi"})),
                "sent_text",
            )
            == []
        )

    def test_what_autopilot_asks_is_not_the_persons(self) -> None:
        record, events = read_bytes(
            lines(
                event("session.start"),
                event("user.message", {"content": "", "transformedContent": "go on"}),
            )
        )
        kinds = {who["actor_id"]: who["kind"] for who in record.participants}
        [said] = of_type(events, "message")
        assert (said["visibility"], kinds[said["actor_id"]]) == ("internal", "system")

    @pytest.mark.parametrize(
        ("source", "seen"), [("user", "public"), ("schedule", "internal"), (None, "public")]
    )
    def test_the_source_of_a_message(self, source: Any, seen: str) -> None:
        assert (
            read_events(event("user.message", {"content": "x", "source": source}))[1]["visibility"]
            == seen
        )


class TestResults:
    def test_the_model_saw_the_content_not_the_details(self) -> None:
        result = {"content": "short", "detailedContent": "long"}
        record, events = read_bytes(
            lines(event("session.start"), answer("", request("c")), done("c", result=result))
        )
        [output] = of_type(events, "tool_result")
        assert output["content"]["text"] == "short"
        assert [note.code for note in record.notes] == ["side-data"]

    def test_failures(self) -> None:
        failed = event(
            "tool.execution_complete",
            {"toolCallId": "c", "success": False, "error": {"message": "no"}},
        )
        events = read_events(answer("", request("c")), failed)
        assert of_type(events, "tool_result")[0]["content"]["text"] == "no"
        assert notes(events, "result_facts") == [{"kind": "result_facts", "is_error": True}]


class TestTotals:
    METRICS: ClassVar = {
        "m": {
            "usage": {
                "inputTokens": 100,
                "outputTokens": 12,
                "cacheReadTokens": 60,
                "cacheWriteTokens": 0,
            }
        }
    }

    def test_the_sum_over_all_events_is_the_sum_of_the_session(self) -> None:
        end = event("session.shutdown", {"modelMetrics": {**self.METRICS, "n": self.METRICS["m"]}})
        events = read_events(answer("x", outputTokens=9), end)
        spent: list[Any] = [item["usage"] for item in events if "usage" in item]
        assert [
            sum(usage.get(name, 0) for usage in spent) for name in ("input_tokens", "output_tokens")
        ] == [200, 24]

    @staticmethod
    def end(requests: int, given: int, answered: int) -> Any:
        usage = {"inputTokens": given, "outputTokens": answered}
        return event(
            "session.shutdown",
            {"modelMetrics": {"m": {"requests": {"count": requests}, "usage": usage}}},
        )

    @pytest.mark.parametrize(
        ("second", "why"),
        [
            ((1, 160, 12), "each run has its own figures (1.0.48)"),
            ((3, 410, 45), "they go on (1.0.86)"),
        ],
    )
    def test_runs_that_follow_each_other_are_counted_once(
        self, second: tuple[int, int, int], why: str
    ) -> None:
        first = [answer("one", apiCallId="a"), answer("two", apiCallId="b"), self.end(2, 250, 33)]
        events = read_events(
            *first, event("session.resume", {}), answer("three", apiCallId="c"), self.end(*second)
        )
        spent = [item["usage"] for item in events if "usage" in item]
        assert [(usage["input_tokens"], usage["output_tokens"]) for usage in spent] == [
            (250, 33),
            (160, 12),
        ], why

    def test_repeated_totals_count_once(self) -> None:
        end = event("session.shutdown", {"modelMetrics": self.METRICS})
        events = read_events(end, event("session.resume", {}), end)
        assert [item["usage"]["input_tokens"] for item in events if "usage" in item] == [100]
        assert len(notes(events, "session_totals")) == 2


class TestSubagents:
    def started(self, call: str, **more: Any) -> dict[str, Any]:
        return event("subagent.started", {"toolCallId": call, "agentName": call}, **more)

    def test_two_at_a_time_by_their_own_ids(self) -> None:
        events = read_events(
            answer("", request("a", "task"), request("b", "task")),
            self.started("a", agentId="one"),
            self.started("b", agentId="two"),
            answer("from one", agent="one"),
            answer("from two", agent="two"),
            event("subagent.completed", {"toolCallId": "a"}),
            done("a"),
        )
        spans = {
            item["content"]["data"]["subagent_type"]: item["links"]["span_id"]
            for item in of_type(events, "span_start")
        }
        said = {item["content"]["text"]: item for item in of_type(events, "message")}
        assert said["from one"]["links"]["span_id"] == spans["a"]
        assert said["from two"]["links"]["span_id"] == spans["b"]
        assert said["from two"]["visibility"] == "internal"
        assert len(of_type(events, "span_end")) == 2

    def test_one_in_another(self) -> None:
        events = read_events(
            self.started("a", agentId="one"),
            self.started("b", agentId="one"),
            event("assistant.message", {"content": "deep", "parentToolCallId": "b"}),
        )
        first, second = of_type(events, "span_start")
        assert second["content"]["data"]["parent_span"] == first["links"]["span_id"]
        assert of_type(events, "message")[0]["links"]["span_id"] == second["links"]["span_id"]

    @pytest.mark.parametrize(("wish", "spans"), [("reference", 1), ("none", 0)])
    def test_left_out(self, wish: str, spans: int) -> None:
        events = read_events(
            answer("", request("a", "task")),
            self.started("a"),
            event(
                "assistant.message",
                {"content": "x", "parentToolCallId": "a", "toolRequests": [request("c")]},
            ),
            event(
                "tool.execution_complete",
                {"toolCallId": "c", "parentToolCallId": "a", "result": {"content": "y"}},
            ),
            event("subagent.completed", {"toolCallId": "a"}),
            done("a"),
            subagents=wish,
        )
        assert of_type(events, "message") == []
        assert [len(of_type(events, kind)) for kind in ("tool_use", "tool_result")] == [1, 1]
        assert len(of_type(events, "span_start")) == len(of_type(events, "span_end")) == spans


class TestSniff:
    @pytest.mark.parametrize(
        "record",
        [
            event("session.start", data=[]),
            event("turn.prompt"),
            event("session start"),
            {"type": "session.start", "data": {}},
            {"type": ["session.start"], "data": {}, "id": "", "parentId": "", "timestamp": ""},
        ],
    )
    def test_what_is_no_log(self, record: Any) -> None:
        assert not READER.sniff(Source("x", data=lines(record, record)))

    def test_a_folder(self, tmp_path: Path) -> None:
        folder = Source.of_folder(tmp_path)
        assert not READER.sniff(folder)
        (tmp_path / "events.jsonl").write_bytes(lines(event("session.start", {"sessionId": "s"})))
        assert detect_format(Source.of_folder(tmp_path)) == "copilot_cli"


def test_a_folder_whose_log_breaks_off(tmp_path: Path) -> None:
    whole = lines(
        event("session.start", {"sessionId": "s"}), event("user.message", {"content": "hi"})
    )
    (tmp_path / "events.jsonl").write_bytes(whole + b'{"type": "user.mess')
    draft = Draft()
    READER.read(Source.of_folder(tmp_path), draft)
    assert [note.place for note in draft.finish(lambda: "0" * 64).notes] == ["events.jsonl line 3"]


def test_the_title_from_the_workspace_file(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_bytes(lines(event("session.start", {"sessionId": "s"})))
    for written, title in (("name: Elms\n", "Elms"), ('name: "quoted"\n', None), ("id: x\n", None)):
        (tmp_path / "workspace.yaml").write_text(written)
        draft = Draft()
        READER.read(Source.of(tmp_path / "events.jsonl"), draft)
        assert draft.conversation.get("title") == title


def test_a_look_at_the_ends() -> None:
    start = event("session.start", {"sessionId": "s", "context": {"cwd": "/w"}})
    assert READER.peek([start, 3, event("user.message", {"content": "words"})]) == {
        "id": "s",
        "cwd": "/w",
        "title": "words",
    }
    assert READER.peek([event("session.start", {"context": 5})]) == {}
    assert READER.peek_tail([event("session.title_changed", {"title": "T"})]) == {"title": "T"}
    assert READER.peek_tail([event("session.title_changed", [])]) == {}


@pytest.mark.parametrize("case", CASES)
def test_no_odd_value_is_an_accident(case: str) -> None:
    events = [json.loads(line) for line in (GOLDEN / case / "input.jsonl").read_text().splitlines()]
    for number, item in enumerate(events):
        for odd in iter_mangled(item) if number else ():
            draft = Draft()
            READER.read(
                Source("x", data=lines(*events[:number], odd, *events[number + 1 :])), draft
            )
            list(draft.finish(lambda: "0" * 64).events)


def test_the_corpus_is_read_whole(corpus: Path) -> None:
    paths = [
        *(corpus / "copilot_cli").rglob("*.jsonl"),
        corpus / "native_minimal" / "copilot" / "events.jsonl",
    ]
    for path in paths:
        assert detect_format(Source.of(path)) == "copilot_cli", path.name
        draft = Draft()
        READER.read(Source.of(path), draft)
        events = list(draft.finish(lambda: "0" * 64).events)
        carried = "\0".join(iter_strings([item["content"] for item in events]))
        for _, record in Source.of(path).records():
            data = record["data"]
            held = [
                data.get("content"),
                data.get("transformedContent"),
                data.get("reasoningText"),
                data.get("arguments"),
            ]
            held += [item.get("arguments") for item in data.get("toolRequests") or ()]
            held.append((data.get("result") or {}).get("content"))
            texts = [
                text for text in iter_strings(held) if len(text) > 3 and not text.startswith("{")
            ]
            assert [text for text in texts if text not in carried] == [], path.name


def test_the_corpus_counts_what_the_session_counted(corpus: Path) -> None:
    draft = Draft()
    path = corpus / "copilot_cli" / "vct_events.jsonl"
    READER.read(Source.of(path), draft)
    spent = [event["usage"] for event in draft.finish(lambda: "0" * 64).events if "usage" in event]
    assert sum(usage.get("output_tokens", 0) for usage in spent) == 2848
    assert sum(usage.get("input_tokens", 0) for usage in spent) == 186809
