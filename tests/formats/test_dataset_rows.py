"""Rows of chat datasets: one conversation a row, with its labels."""

import json
from typing import Any

import pytest

from open_token.registry import READERS, detect_format, list_conversations
from open_token.sources.source import Source
from readers.provider_readers import build_read_function, summarize_events

READER = READERS["dataset_rows"]
read = build_read_function(READER)
SYSTEM = {"role": "system", "content": "Be brief."}


def lines(*rows: Any) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def source_of(*rows: Any) -> Source:
    return Source("rows", data=lines(*rows))


def row(prompt: str, **labels: Any) -> dict[str, Any]:
    user = {"role": "user", "content": prompt}
    return {"messages": [SYSTEM, user, {"role": "assistant", "content": "yes"}], **labels}


def test_several_rows_are_several_conversations() -> None:
    rows = (row("a question"), row("another question"), row("a question"))
    source = source_of(*rows)
    assert detect_format(source) == "dataset_rows"
    found = list_conversations(source, "dataset_rows")
    assert [(item.id, item.title, item.messages) for item in found] == [
        ("1", "a question", 3),
        ("2", "another question", 3),
        ("3", "a question", 3),
    ]
    _, events = read(lines(*rows))
    assert summarize_events(events) == [
        ("system", "Be brief."),
        ("user", "a question"),
        ("assistant", "yes"),
    ]


def test_rows_of_a_list_are_read_alike() -> None:
    source = Source("rows", data=json.dumps([row("a"), row("b")]).encode())
    assert detect_format(source) == "dataset_rows"
    assert len(list_conversations(source, "dataset_rows")) == 2


def test_a_single_row_with_labels_keeps_them() -> None:
    labelled = row("a", instance_id="x__y-1", resolved=False, patch="+1", empty=None)
    assert detect_format(source_of(labelled)) == "dataset_rows"
    record, events = read(lines(labelled))
    assert record.conversation["id"] == "x__y-1"
    assert events[0]["content"]["data"] == {
        "kind": "labels",
        "labels": {"instance_id": "x__y-1", "resolved": False, "patch": "+1"},
    }


@pytest.mark.parametrize(
    "rows",
    [
        [row("a")],
        [row("a", model="gpt-5"), row("b", model="gpt-5")],
        [{"messages": row("a")["messages"][:2]}, row("a")],
        [{**row("a"), "response": {"choices": []}}],
    ],
)
def test_a_log_of_requests_is_no_dataset(rows: list[Any]) -> None:
    assert not READER.sniff(source_of(*rows))


@pytest.mark.parametrize(
    "pair",
    [
        {"prompt": "q", "chosen": "good", "rejected": "bad"},
        {
            "prompt": "q",
            "chosen": {"role": "assistant", "content": "good"},
            "rejected": {"role": "assistant", "content": "bad"},
        },
        {
            "chosen": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "good"}],
            "rejected": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "bad"}],
        },
        {
            "messages": [{"role": "user", "content": "q"}],
            "chosen": "good",
            "rejected": "bad",
        },
    ],
)
def test_preferences_share_their_prompt(pair: Any) -> None:
    record, events = read(lines(pair))
    assert summarize_events(events) == [("user", "q"), ("assistant", "good")]
    assert [note.code for note in record.notes] == ["abandoned-branch"]


def test_facts_of_messages_are_preserved() -> None:
    session = [{"role": "user", "content": "q", "turn": 1}, {"role": "assistant", "content": "a"}]
    _, events = read(lines({"messages": session, "uuid": "u"}))
    facts = [event["content"].get("data") for event in events if event["type"] == "annotation"]
    assert {"kind": "message_facts", "turn": 1} in facts


def test_reasoning_is_no_fact() -> None:
    answer = {
        "role": "assistant",
        "content": "a",
        "thought": "a",
        "thinking_blocks": [{"type": "thinking", "thinking": "hidden"}],
    }
    session = [{"role": "user", "content": "q"}, answer, {**answer, "thought": "secret plan"}]
    _, events = read(lines({"messages": session, "uuid": "u"}))
    assert summarize_events(events)[1:] == [
        ("user", "q"),
        ("assistant_thought", "hidden"),
        ("assistant", "a"),
        ("assistant_thought", "secret plan"),
        ("assistant_thought", "hidden"),
        ("assistant", "a"),
    ]


def test_a_result_may_name_its_call_in_a_list() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    session = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "out", "tool_call_ids": ["c1"]},
    ]
    _, events = read(lines({"messages": json.dumps(session)}))
    assert [event["type"] for event in events][-2:] == ["tool_use", "tool_result"]
    assert events[-1]["links"] == events[-2]["links"]
