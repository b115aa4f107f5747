"""One trace in OTLP JSON: spans of agents, models and tools, their ids, times and messages."""

import json
from typing import Any

import pytest

from helpers.small_conversations import (
    ask,
    call,
    fact,
    result,
    say,
    span,
    think,
    write_conversation,
)

BEGAN = 1772359200
"""The seconds of 10:00:00 on that day."""


def spans(*events: Any) -> list[dict[str, Any]]:
    (batch,) = write_conversation("otel", *events)[0]["resourceSpans"]
    (scope,) = batch["scopeSpans"]
    made: list[dict[str, Any]] = scope["spans"]
    for item in made:
        pairs = [(pair["key"], *pair["value"].values()) for pair in item["attributes"]]
        assert len({pair[0] for pair in pairs}) == len(pairs)
        item["given"] = dict(pairs)
        assert item["given"]["gen_ai.conversation.id"] == "talk-1"
    return parents_first(made, None)


def parents_first(made: list[dict[str, Any]], parent: str | None) -> list[dict[str, Any]]:
    """A span is written when it ends."""
    found = [item for item in made if item.get("parentSpanId") == parent]
    return [item for own in found for item in (own, *parents_first(made, own["spanId"]))]


def messages(item: dict[str, Any], side: str) -> list[Any]:
    return list(json.loads(item["given"].get(f"gen_ai.{side}.messages", "[]")))


def seconds(item: dict[str, Any]) -> tuple[float, float]:
    return tuple(
        int(item[name]) / 10**9 - BEGAN for name in ("startTimeUnixNano", "endTimeUnixNano")
    )  # type: ignore[return-value]


def text(role: str, words: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": words}]}


def test_agent_model_and_tool() -> None:
    agent, first, tool, second = spans(
        ask("a", ts=1),
        say("b", ts=3),
        call(1, given={"x": 1}, ts=3),
        result(1, "c", ts=5),
        say("d", ts=8),
    )
    assert [item["name"] for item in (agent, first, tool, second)] == [
        "invoke_agent assistant",
        "chat model-1",
        "execute_tool run",
        "chat model-1",
    ]
    assert [item["kind"] for item in (agent, first, tool, second)] == [1, 3, 1, 3]
    assert "parentSpanId" not in agent
    assert {item["parentSpanId"] for item in (first, tool, second)} == {agent["spanId"]}
    assert len({item["traceId"] for item in (agent, first, tool, second)}) == 1
    assert [seconds(item) for item in (agent, first, tool, second)] == [
        (1, 8),
        (1, 3),
        (3, 5),
        (5, 8),
    ]
    assert tool["given"]["gen_ai.tool.call.arguments"] == '{"x":1}'
    assert tool["given"]["gen_ai.tool.call.result"] == "c"
    assert first["given"]["gen_ai.provider.name"] == "openai"


def test_model_is_given_what_is_new_and_its_last_answer() -> None:
    _, first, tool, second, third = spans(
        ask("a"), call(1), result(1, "c"), say("d"), ask("a"), say("e")
    )
    asked = {"type": "tool_call", "id": "call_1", "name": "run", "arguments": {}}
    came = {
        "role": "tool",
        "parts": [{"type": "tool_call_response", "id": "call_1", "response": "c"}],
    }
    assert messages(first, "input") == [text("user", "a")]
    assert messages(first, "output") == [
        {"role": "assistant", "parts": [asked], "finish_reason": "tool_call"}
    ]
    assert messages(second, "input") == [{"role": "assistant", "parts": [asked]}, came]
    assert messages(third, "input") == [text("assistant", "d"), text("user", "a")]
    assert tool["given"]["gen_ai.tool.call.id"] == "call_1"


def test_ids_come_from_the_conversation_and_the_events() -> None:
    one, other = (spans(ask("a"), say(words), call(1), result(1)) for words in ("b", "c"))
    assert [item["spanId"] for item in one] == [item["spanId"] for item in other]
    ids = [item["spanId"] for item in one]
    assert all(len(own) == 16 and int(own, 16) for own in ids)
    assert len(set(ids)) == len(ids)
    assert len(one[0]["traceId"]) == 32


def test_duplicate_event_ids_make_two_spans() -> None:
    made = spans(say("a", id="evt_1"), say("b", id="evt_1"))
    assert len({item["spanId"] for item in made}) == 3


def test_time_that_is_not_known_is_the_one_before_and_says_so() -> None:
    _, first, tool, second = spans(ask("a", ts=1), say("b", ts=3), call(1), result(1), say("c"))
    assert [seconds(item) for item in (first, tool, second)] == [(1, 3), (3, 3), (3, 3)]
    marked = [item["given"].get("open_token.time.estimated") for item in (first, tool, second)]
    assert marked == [None, True, True]


def test_time_never_goes_back() -> None:
    made = spans(ask("a", ts=9), say("b", ts=3), ask("c", ts=4), say("d", ts=12))
    assert [seconds(item) for item in made[1:]] == [(9, 9), (9, 12)]
    assert made[1]["given"]["open_token.time.estimated"] is True
    assert "open_token.time.estimated" not in made[2]["given"]


def test_conversation_without_times_has_none() -> None:
    for item in spans(ask("a"), say("b"), call(1), result(1)):
        assert (item["startTimeUnixNano"], item["endTimeUnixNano"]) == ("0", "0")


def test_call_that_takes_long_does_not_hold_up_what_follows() -> None:
    _, first, tool, second = spans(
        say("a", ts=1), call(1, ts=1), ask("b", ts=2), say("c", ts=4), result(1, ts=50)
    )
    assert [seconds(item) for item in (first, tool, second)] == [(1, 1), (1, 50), (2, 4)]


def test_failed_call() -> None:
    *_, tool = spans(
        call(1), result(1, "no"), fact("result_facts", parent_id="evt_2", is_error=True)
    )
    assert tool["status"] == {"code": 2}
    assert tool["given"]["error.type"] == "_OTHER"


def test_call_without_a_result() -> None:
    *_, tool = spans(call(1), result(1, {"missing_result": True}))
    assert "gen_ai.tool.call.result" not in tool["given"]
    assert tool["given"]["open_token.missing_result"] is True


def test_a_result_without_a_call_is_input_only() -> None:
    _, only = spans(result(7, "late"), say("a"))
    answer = {"type": "tool_call_response", "id": "call_7", "response": "late"}
    assert messages(only, "input") == [{"role": "tool", "parts": [answer]}]


def test_what_nobody_answered_is_a_call_of_a_model_without_an_answer() -> None:
    *_, last = spans(say("a", ts=1), ask("b", ts=2))
    assert messages(last, "input") == [text("assistant", "a"), text("user", "b")]
    assert last["given"]["open_token.no_answer"] is True
    assert "gen_ai.output.messages" not in last["given"]


def test_subagent_stands_in_the_tool_that_it_serves() -> None:
    about = {"subagent_type": "pilot", "agent_id": "a7", "spawn_reason": "why"}
    inner = [
        span("s", about, call_id="call_1", ts=4),
        ask("q", span_id="s"),
        say("b", "n", span_id="s", ts=6),
    ]
    agent, _, tool, child, chat = spans(ask("a", ts=1), call(1, ts=3), *inner, result(1, ts=7))
    assert child["parentSpanId"] == tool["spanId"]
    assert chat["parentSpanId"] == child["spanId"]
    assert child["name"] == "invoke_agent pilot"
    assert child["given"]["gen_ai.agent.id"] == "a7"
    assert child["given"]["gen_ai.agent.description"] == "why"
    assert [seconds(item) for item in (agent, tool, child, chat)] == [
        (1, 7),
        (3, 7),
        (4, 6),
        (4, 6),
    ]


def test_subagent_that_serves_no_call_stands_in_the_agent() -> None:
    agent, first, child, inner, second = spans(
        say("a"), span("s"), say("b", "n", span_id="s"), say("c")
    )
    assert (
        child["parentSpanId"] == agent["spanId"] == first["parentSpanId"] == second["parentSpanId"]
    )
    assert inner["parentSpanId"] == child["spanId"]


def test_tokens() -> None:
    usage = {
        "input_tokens": 9,
        "output_tokens": 8,
        "reasoning_tokens": 7,
        "cache_read_tokens": 6,
        "cache_write_tokens": 5,
    }
    _, only = spans(say("a", usage=usage))
    assert {name: value for name, value in only["given"].items() if ".usage." in name} == {
        "gen_ai.usage.input_tokens": "9",
        "gen_ai.usage.output_tokens": "8",
        "gen_ai.usage.reasoning.output_tokens": "7",
        "gen_ai.usage.cache_read.input_tokens": "6",
        "gen_ai.usage.cache_creation.input_tokens": "5",
    }


def test_thought_that_is_a_summary_is_noted() -> None:
    thought = think("In short.")
    thought["content"]["data"] = {"summary": "runtime"}
    made, notes = write_conversation("otel", thought, say("a"))
    assert "In short." in str(made)
    assert notes["summary"].detail.startswith("represented differently in OpenTelemetry")


@pytest.mark.parametrize(
    ("block", "part"),
    [
        (
            {"type": "image", "media_type": "image/png", "base64": "AA=="},
            {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "AA=="},
        ),
        (
            {"type": "document", "base64": "AA=="},
            {"type": "blob", "modality": "file", "content": "AA=="},
        ),
        (
            {"type": "audio", "url": "https://example.org/a"},
            {"type": "uri", "modality": "audio", "uri": "https://example.org/a"},
        ),
        (
            {"type": "tool_call", "name": "x"},
            {"type": "text", "content": '{"type":"tool_call","name":"x"}'},
        ),
    ],
)
def test_blocks(block: Any, part: Any) -> None:
    *_, last = spans(ask([block]))
    assert messages(last, "input") == [{"role": "user", "parts": [part]}]


def test_input_before_reasoning_alone_is_sent_again() -> None:
    _, first, second = spans(
        say("a", usage={"input_tokens": 1}), think("t", usage={"input_tokens": 1})
    )
    *_, last = spans(say("a"), think("t", usage={"input_tokens": 1}), ask("b"))
    assert messages(first, "input") == []
    assert messages(second, "input") == [text("assistant", "a")]
    assert messages(last, "input") == [text("assistant", "a"), text("user", "b")]


def test_what_follows_a_subagent_that_serves_no_call_does_not_begin_before_it() -> None:
    inner = [span("s", ts=9), say("b", "n", span_id="s", ts=10)]
    *_, child, _, last = spans(say("a", ts=1), *inner, say("c", ts=20))
    assert [seconds(item) for item in (child, last)] == [(9, 10), (9, 20)]


def test_result_without_a_time_marks_its_call() -> None:
    *_, tool = spans(say("a", ts=1), call(1, ts=2), result(1))
    assert tool["given"]["open_token.time.estimated"] is True


@pytest.mark.parametrize(
    "ts", ["0001-01-01T00:00:00Z", "9999-01-01T00:00:00Z", "2026-03-01T10:00:00", "no time"]
)
def test_time_that_otlp_cannot_hold_is_none(ts: str) -> None:
    odd = say("a")
    odd["ts"] = ts
    assert [item["startTimeUnixNano"] for item in spans(odd)] == ["0", "0"]
