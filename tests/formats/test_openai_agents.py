"""The Agents SDK's saved states: items of all lists exported once, handoffs, approvals that are waited
for, both SDKs."""

import json
from pathlib import Path
from typing import Any

import pytest

from open_token.registry import READERS
from open_token.sources.source import Source
from readers.framework_files import claimed, exported, join_texts, notes_of, paired, said_in
from readers.provider_readers import PNG, build_read_function, summarize_events, tokens

READER = READERS["openai_agents"]

read = build_read_function(READER)
AGENT = {"name": "A"}


def call(native: str, name: str = "f", arguments: str = "{}") -> dict[str, Any]:
    return {"type": "function_call", "call_id": native, "name": name, "arguments": arguments}


def item(kind: str, raw: Any, **more: Any) -> dict[str, Any]:
    return {"type": kind, "raw_item": raw, "agent": AGENT, **more}


def state(*items: Any, **more: Any) -> dict[str, Any]:
    return {
        "$schemaVersion": "1.13",
        "original_input": "go",
        "current_agent": AGENT,
        "generated_items": [*items],
        **more,
    }


def test_claims() -> None:
    assert claimed(state()) == "openai_agents"
    assert (
        claimed({"$schemaVersion": "1.0", "originalInput": "x", "generatedItems": []})
        == "openai_agents"
    )


@pytest.mark.parametrize(
    "value",
    [
        {"$schemaVersion": "1"},
        {"original_input": "x"},
        {"$schemaVersion": 1, "original_input": "x"},
        [],
    ],
)
def test_leaves_to_others(value: Any) -> None:
    assert not READER.sniff(Source("input", data=json.dumps(value).encode()))


def test_an_approval_is_a_call_without_result() -> None:
    waiting = item("tool_approval_item", call("1"), tool_name="f")
    step = {"type": "next_step_interruption", "data": {"interruptions": [waiting]}}
    record, events = read(state(item("tool_call_item", call("1")), waiting, current_step=step))
    assert [event["type"] for event in events] == [
        "message",
        "tool_use",
        "tool_result",
        "annotation",
    ]
    assert events[2]["content"]["data"] == {"missing_result": True}
    assert notes_of(events, "action_required") == [
        {"action": "approval", "status": "requested", "tool": "f", "native_call_id": "1"}
    ]
    assert record.notes == []


def test_an_approval_without_its_call_adds_the_call() -> None:
    _, events = read(
        state(
            current_step={
                "type": "x",
                "data": {"interruptions": [item("tool_approval_item", call("1"))]},
            }
        )
    )
    assert [event["type"] for event in events] == [
        "message",
        "tool_use",
        "tool_result",
        "annotation",
    ]


def test_items_of_both_lists_and_of_the_answers_are_reported_once() -> None:
    said = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "hello"}],
    }
    only_there = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "lost"}],
    }
    _, events = read(
        state(
            item("message_output_item", said),
            session_items=[item("tool_call_item", call("1")), item("message_output_item", said)],
            model_responses=[
                {"output": [call("1"), said], "usage": {"input_tokens": 4, "output_tokens": 2}},
                {"output": [only_there]},
            ],
        )
    )
    assert summarize_events(events)[0] == ("user", "go")
    assert [event["type"] for event in events] == [
        "message",
        "tool_use",
        "tool_result",
        "message",
        "message",
    ]
    assert [event.get("usage") for event in events][1] == tokens(input_tokens=4, output_tokens=2)
    assert summarize_events(events)[-1] == ("assistant", "lost")


def test_each_agent_is_a_participant() -> None:
    output = {"type": "function_call_output", "call_id": "1", "output": "done"}
    record, events = read(
        state(
            item("handoff_call_item", call("1", "transfer_to_b")),
            item("handoff_output_item", output, source_agent=AGENT, target_agent={"name": "B"}),
        )
    )
    assert [who["name"] for who in record.participants if who["kind"] == "model"] == ["A", "B"]
    assert notes_of(events, "handoff") == [{"from": "A", "to": "B"}]
    paired(events)


def test_what_the_tool_returned_beside_what_the_model_read() -> None:
    output = {"type": "function_call_output", "call_id": "1", "output": "short"}
    _, events = read(
        state(
            item("tool_call_item", call("1")),
            item("tool_call_output_item", output, output={"rows": 3}),
        )
    )
    assert events[2]["content"]["text"] == "short"
    assert notes_of(events, "result_facts") == [{"returned": {"rows": 3}}]


def test_items_of_javascript() -> None:
    result = {
        "type": "function_call_result",
        "callId": "1",
        "name": "f",
        "output": [{"type": "input_image", "image": f"data:image/png;base64,{PNG}"}],
    }
    sealed = {
        "type": "reasoning",
        "content": [],
        "rawContent": [{"type": "reasoning_text", "text": "deep"}],
        "providerData": {"encryptedContent": "x"},
    }
    value = {
        "$schemaVersion": "1.0",
        "originalInput": [{"role": "user", "content": "go"}],
        "generatedItems": [
            {"type": "reasoning_item", "rawItem": sealed, "agent": AGENT},
            {
                "type": "tool_call_item",
                "rawItem": {"type": "function_call", "callId": "1", "name": "f", "arguments": "{}"},
                "agent": AGENT,
            },
            {"type": "tool_call_output_item", "rawItem": result, "agent": AGENT, "output": "x"},
            {
                "type": "tool_call_item",
                "rawItem": {
                    "type": "hosted_tool_call",
                    "id": "h",
                    "name": "vision",
                    "arguments": "{}",
                    "output": "ok",
                },
                "agent": AGENT,
            },
        ],
    }
    _, events = read(value)
    assert summarize_events(events)[1] == ("assistant_thought", "deep")
    assert events[3]["content"]["data"][0]["media_type"] == "image/png"
    assert [
        event["content"]["data"]["tool_name"] for event in events if event["type"] == "tool_use"
    ] == ["f", "vision"]
    paired(events)


@pytest.mark.parametrize(
    ("total", "rest"), [(9, {"input_tokens": 5, "output_tokens": 1}), (4, None), (3, None)]
)
def test_what_agents_took_that_ran_as_tools_stands_in_the_total_alone(
    total: int, rest: Any
) -> None:
    answers = [{"output": [call("1")], "usage": {"input_tokens": 4, "output_tokens": 2}}]
    spent = {"usage": {"input_tokens": total, "output_tokens": 3 if total == 9 else 2}}
    _, events = read(state(original_input="q", model_responses=answers, context=spent))
    assert [event.get("usage") for event in events if event["type"] == "annotation"] == (
        [tokens(**rest)] if rest else []
    )


def test_usage_that_belongs_to_nothing_reported_stands_alone() -> None:
    _, events = read(
        state(
            model_responses=[
                {"output": [], "usage": {"input_tokens": 4}},
                {"output": [], "usage": {"input_tokens": 0}},
                5,
            ]
        )
    )
    assert [event.get("usage") for event in events] == [None, tokens(input_tokens=4)]


@pytest.mark.parametrize("odd", [None, 5, "x", [], {}, [[]], {"type": 5}, True])
def test_hostile_shapes(odd: Any) -> None:
    for name in (
        "original_input",
        "current_agent",
        "generated_items",
        "session_items",
        "model_responses",
        "current_step",
        "context",
        "trace",
    ):
        read(state(item("tool_call_item", call("1"))) | {name: odd})
    read(
        state(
            odd,
            item("x", odd),
            item("tool_approval_item", odd, tool_name=odd),
            item("handoff_output_item", {"type": odd}),
        )
    )
    read(
        state(
            context={"context": odd, "approvals": odd},
            model_responses=[
                {"output": odd, "usage": odd},
                {"output": [odd], "usage": {"input_tokens_details": odd}},
            ],
        )
    )


def test_real_states(corpus: Path) -> None:
    for path in sorted((corpus / "openai_agents").glob("*.json")):
        document = exported(path)
        value = json.loads(path.read_text())
        paired(document["events"])
        everything = join_texts(document)
        assert all(
            text in everything
            for text in [
                value["original_input"],
                *said_in(value["generated_items"], ("call_id", "tool_name")),
            ]
        )
        assert [event["content"].get("data") for event in document["events"]].count(
            {"missing_result": True}
        ) == 1
