"""Amp threads: how runs of tools ended, whose messages are whose, what was spent, and what else
looks like a thread."""

import json
from pathlib import Path
from typing import Any

import pytest

from open_token.builder.draft import Draft
from open_token.model.document import Event
from open_token.registry import READERS, detect_format
from open_token.sources.source import Source
from readers.odd_values import iter_mangled
from readers.provider_readers import build_read_function, summarize_events, tokens

READER = READERS["amp"]

GOLDEN = Path(__file__).parent.parent / "golden" / "amp"
read = build_read_function(READER)


def thread(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"v": 1, "id": "T-1", "messages": list(messages), **more}


def text(role: str, words: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": words}], **more}


def called(*names: str) -> dict[str, Any]:
    blocks = [{"type": "tool_use", "id": name, "name": "Bash", "input": {}} for name in names]
    return {"role": "assistant", "content": blocks}


def ran(name: str, **run: Any) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "tool_result", "toolUseID": name, "run": run}]}


def result(**run: Any) -> tuple[Any, dict[str, Any]]:
    """The output and the facts of one run."""
    _, events = read(thread(called("t"), ran("t", **run)))
    [reported] = [event for event in events if event["type"] == "tool_result"]
    facts = [event["content"]["data"] for event in events if event["type"] == "annotation"]
    content = reported["content"]
    return content.get("text", content.get("data")), facts[0] if facts else {}


class TestRuns:
    def test_output_of_a_command_without_its_exit_code(self) -> None:
        assert result(status="done", result={"output": "x", "exitCode": 3}) == (
            "x",
            {"kind": "result_facts", "exit_code": 3},
        )
        assert result(status="done", result={"output": "x", "more": 1}) == (
            {"output": "x", "more": 1},
            {},
        )

    @pytest.mark.parametrize(
        ("run", "output"),
        [
            ({"error": {"message": "no"}}, "no"),
            ({"error": "no"}, "no"),
            ({"reason": "why"}, "why"),
            ({"progress": {"output": "half"}}, "half"),
            ({"progress": "half"}, "half"),
            ({}, ""),
        ],
    )
    def test_output_of_runs_without_a_result(self, run: dict[str, Any], output: str) -> None:
        reported, facts = result(status="cancelled", **run)
        assert (reported, facts["status"], facts["is_error"]) == (output, "cancelled", True)

    def test_an_unfinished_run_leaves_its_call_open(self) -> None:
        assert result(status="in-progress") == ({"missing_result": True}, {})
        assert result(status="in-progress", progress={"output": "so far"})[0] == "so far"


class TestUsage:
    def spent(self, usage: Any, **more: Any) -> list[Any]:
        message = text("assistant", "x", messageId=4, **({"usage": usage} if usage else {}))
        _, events = read(thread(message, **more))
        return [event["usage"] for event in events if "usage" in event]

    def test_input_tokens_include_cached_tokens(self) -> None:
        parts = {
            "inputTokens": 1,
            "outputTokens": 2,
            "cacheReadInputTokens": 3,
            "cacheCreationInputTokens": 4,
        }
        made = tokens(input_tokens=8, output_tokens=2, cache_read_tokens=3, cache_write_tokens=4)
        assert self.spent(parts) == self.spent({**parts, "totalInputTokens": 8}) == [made]

    def test_the_ledger_gives_usage_where_messages_do_not(self) -> None:
        event = {"toMessageId": 4, "model": "gpt-5", "tokens": {"input": 5, "output": 6}}
        ledger: Any = {"events": [event, None, {"toMessageId": []}]}
        assert self.spent(None, usageLedger=ledger) == [tokens(input_tokens=5, output_tokens=6)]
        own = {"inputTokens": 1, "outputTokens": 1}
        assert self.spent(own, usageLedger=ledger) == [tokens(input_tokens=1, output_tokens=1)]


class TestSubagents:
    def messages(self) -> list[dict[str, Any]]:
        inner = text("assistant", "deep", parentToolUseId="t")
        return [called("t"), inner, ran("t", status="done", result="r"), text("assistant", "end")]

    def test_their_span_ends_before_the_result(self) -> None:
        _, events = read(thread(*self.messages()))
        assert [event["type"] for event in events] == [
            "tool_use",
            "span_start",
            "message",
            "span_end",
            "tool_result",
            "message",
        ]
        assert [event["visibility"] for event in events if event["type"] == "message"] == [
            "internal",
            "public",
        ]

    def test_left_out(self) -> None:
        record, events = read(thread(*self.messages()), subagents="none")
        assert [event["type"] for event in events] == ["tool_use", "tool_result", "message"]
        assert [note.code for note in record.notes] == ["subagent", "experimental-reader"]


def test_text_around_results_keeps_its_order() -> None:
    blocks: list[Any] = [
        {"type": "text", "text": "before"},
        *ran("t", status="done", result="r")["content"],
    ]
    blocks.append({"type": "text", "text": "after"})
    _, events = read(thread(called("t"), {"role": "user", "content": blocks}))
    assert summarize_events(events)[1:] == [("user", "before"), ("tool", "r"), ("user", "after")]


def test_content_may_be_a_string() -> None:
    _, events = read(thread({"role": "user", "content": "hi"}))
    assert summarize_events(events) == [("user", "hi")]


@pytest.mark.parametrize(
    "value",
    [
        {"id": "T-1", "messages": []},
        {"id": "X-1", "messages": [], "v": 1},
        {"id": "T-1", "messages": {}, "v": 1},
        [thread()],
    ],
)
def test_documents_that_are_not_threads(value: Any) -> None:
    assert not READER.sniff(Source("x", data=json.dumps(value).encode()))


@pytest.mark.parametrize(
    "value", [thread(text("user", "x"), created=1), thread(text("user", "x", messageId=0))]
)
def test_no_other_reader_claims_a_thread(value: Any) -> None:
    for indent in (None, 2):
        assert detect_format(Source("x", data=json.dumps(value, indent=indent).encode())) == "amp"


@pytest.mark.parametrize(
    ("uri", "folder"),
    [
        ("file:///home/a%20b", "/home/a b"),
        ("/plain", "/plain"),
        ("file://[", "file://["),
        ("", None),
        (5, None),
    ],
)
def test_peek_gives_the_directory(uri: Any, folder: str | None) -> None:
    value = thread(env={"initial": {"trees": [{"uri": uri}]}}, title="t")
    assert READER.peek([value]) == {"id": "T-1", "title": "t"} | ({"cwd": folder} if folder else {})
    assert READER.peek([thread(env={"initial": {"trees": [1]}}), 2]) == {"id": "T-1"}
    assert READER.peek([]) == READER.peek([[]]) == {}


@pytest.mark.parametrize("case", ["basic", "info", "runs", "subagent"])
def test_odd_values_do_not_fail(case: str) -> None:
    value = json.loads((GOLDEN / case / "input.json").read_text())
    for odd in iter_mangled(value):
        draft = Draft()
        READER.read(Source("x", data=json.dumps(odd).encode()), draft)
        events: list[Event] = list(draft.finish(lambda: "0" * 64).events)
        assert all(event["id"] for event in events)
