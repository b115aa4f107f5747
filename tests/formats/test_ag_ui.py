"""AG-UI streams: pieces joined where they began, snapshots woven in, subagents side by side, times
of any unit."""

import json
from typing import Any

import pytest

from open_token.registry import READERS
from open_token.sources.source import Source
from readers.framework_files import claimed, lines, notes_of, paired, stream
from readers.provider_readers import build_read_function, summarize_events, tokens

READER = READERS["ag_ui"]

read = build_read_function(READER)
BEGIN = {"type": "RUN_STARTED", "threadId": "t", "runId": "r"}
END = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, **fields}


def text(name: str, *deltas: str, **more: Any) -> list[dict[str, Any]]:
    return [
        event("TEXT_MESSAGE_START", messageId=name, role="assistant", **more),
        *(event("TEXT_MESSAGE_CONTENT", messageId=name, delta=delta, **more) for delta in deltas),
        event("TEXT_MESSAGE_END", messageId=name, **more),
    ]


def call(name: str, *deltas: str, **more: Any) -> list[dict[str, Any]]:
    return [
        event("TOOL_CALL_START", toolCallId=name, toolCallName="f", **more),
        *(event("TOOL_CALL_ARGS", toolCallId=name, delta=delta, **more) for delta in deltas),
        event("TOOL_CALL_END", toolCallId=name, **more),
    ]


def result(name: str, content: Any = "ok") -> dict[str, Any]:
    return event("TOOL_CALL_RESULT", messageId="m", toolCallId=name, content=content)


def snapshot(*messages: Any) -> dict[str, Any]:
    return event("MESSAGES_SNAPSHOT", messages=[*messages])


def user(words: Any, name: str = "u") -> dict[str, Any]:
    return {"id": name, "role": "user", "content": words}


@pytest.mark.parametrize(
    "value",
    [
        lines(BEGIN, END),
        stream(BEGIN, END),
        [BEGIN, END],
        {"threadId": "t", "runId": "r", "messages": [user("q")]},
        lines({"threadId": "t", "runId": "r", "messages": [user("q")]}, BEGIN),
        lines(event("CUSTOM", name="x", value=1), *text("m", "a")),
    ],
    ids=lambda value: str(value)[:40],
)
def test_claims(value: Any) -> None:
    assert claimed(value) == "ag_ui"


@pytest.mark.parametrize(
    "value",
    [
        [{"type": "CUSTOM"}],
        [{"type": "run_started"}],
        lines(BEGIN, {"type": "message"}),
        [],
        {"threadId": "t", "messages": []},
    ],
    ids=lambda value: str(value)[:40],
)
def test_leaves_to_others(value: Any) -> None:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    assert not READER.sniff(Source("input", data=data))


def test_a_snapshot_completes_a_text_that_broke_off() -> None:
    whole = {"id": "n", "role": "assistant", "content": "The water is high."}
    _, events = read(lines(BEGIN, *text("m", "The ", "wat")[:-1], snapshot(user("hi"), whole), END))
    said = [item for item in summarize_events(events) if item[0] != "annotation"]
    assert said == [("user", "hi"), ("assistant", "The water is high.")]


def test_a_snapshot_with_two_texts_exports_both() -> None:
    short = {"id": "m", "role": "assistant", "content": "The"}
    long = {"id": "n", "role": "assistant", "content": "The water is high."}
    _, events = read(lines(BEGIN, *text("m", "The"), snapshot(user("hi"), short, long), END))
    said = [item for item in summarize_events(events) if item[0] == "assistant"]
    assert said == [("assistant", "The"), ("assistant", "The water is high.")]


def test_pieces_are_joined_where_they_began() -> None:
    _, events = read(
        lines(
            BEGIN,
            *text("m", "a", "b", "")[:-1],
            *call("1", '{"x":', "1}"),
            event("TEXT_MESSAGE_CONTENT", messageId="m", delta="c"),
            result("1"),
            END,
        )
    )
    assert summarize_events(events)[1] == ("assistant", "abc")
    assert events[2]["content"]["data"]["arguments"] == {"x": 1}


def test_an_empty_message_before_a_call_is_nothing() -> None:
    record, events = read(lines(BEGIN, *text("m"), *call("1"), END))
    assert [item["type"] for item in events if item["type"] != "annotation"] == [
        "tool_use",
        "tool_result",
    ]
    assert record.notes == []


def test_the_end_of_a_call_is_the_end_of_its_arguments() -> None:
    _, events = read(lines(BEGIN, *call("1", "{}"), END))
    assert [item["content"]["data"] for item in events if item["type"] == "tool_result"] == [
        {"missing_result": True}
    ]


def test_chunks_go_on_with_the_message_of_their_agent() -> None:
    chunks = [
        event("TEXT_MESSAGE_CHUNK", messageId="1", delta="a", subagentRunId="s"),
        event("TEXT_MESSAGE_CHUNK", messageId="2", delta="x"),
        event("TEXT_MESSAGE_CHUNK", delta="b", subagentRunId="s"),
        event("TEXT_MESSAGE_CHUNK", delta="y"),
        event("TEXT_MESSAGE_CHUNK", messageId="3", delta="z"),
        event("REASONING_MESSAGE_CHUNK", messageId="4", delta="r"),
        event("REASONING_MESSAGE_CHUNK", delta="s"),
        event("TOOL_CALL_CHUNK", toolCallId="5", toolCallName="f", delta="{"),
        event("TOOL_CALL_CHUNK", delta="}"),
    ]
    _, events = read(lines(BEGIN, *chunks, END))
    assert [words for role, words in summarize_events(events) if role == "assistant"][:3] == [
        "ab",
        "xy",
        "z",
    ]
    assert ("assistant_thought", "rs") in summarize_events(events)
    paired(events)


@pytest.mark.parametrize(
    "kinds",
    [
        (
            "THINKING_TEXT_MESSAGE_START",
            "THINKING_TEXT_MESSAGE_CONTENT",
            "THINKING_TEXT_MESSAGE_END",
        ),
        ("THINKING_TEXT_MESSAGE_CONTENT",),
        ("REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_END"),
    ],
)
def test_thinking_of_every_version(kinds: tuple[str, ...]) -> None:
    thoughts = [
        event(kind, delta="hm", messageId="m") if "CONTENT" in kind else event(kind, messageId="m")
        for kind in kinds
    ]
    if kinds[0].startswith("THINKING"):
        thoughts = [
            {key: item for key, item in thought.items() if key != "messageId"}
            for thought in thoughts
        ]
    _, events = read(lines(BEGIN, *thoughts, *thoughts, END))
    assert [words for role, words in summarize_events(events) if role == "assistant_thought"] in (
        ["hm", "hm"],
        ["hmhm"],
    )


def test_encrypted_reasoning() -> None:
    sealed = event("REASONING_ENCRYPTED_VALUE", subtype="message", entityId="m", encryptedValue="x")
    begin = event("REASONING_MESSAGE_START", messageId="m", role="reasoning")
    record, events = read(
        lines(BEGIN, begin, sealed, {**sealed, "subtype": "tool-call", "entityId": "c"}, END)
    )
    assert [words for role, words in summarize_events(events) if role == "assistant_thought"] == [
        {"redacted": True, "encrypted": True}
    ]
    assert [note.code for note in record.notes] == ["sealed-reasoning"]


def test_an_encrypted_value_beside_a_result_or_text_is_not_reasoning() -> None:
    result = event("TOOL_CALL_RESULT", messageId="r", toolCallId="c", content="done")
    sealed = [
        event("REASONING_ENCRYPTED_VALUE", subtype="message", entityId=n, encryptedValue="x")
        for n in "rm"
    ]
    record, events = read(
        lines(BEGIN, event("TOOL_CALL_START", toolCallId="c", toolCallName="f"), result, sealed[0])
    )
    assert "assistant_thought" not in [role for role, _ in summarize_events(events)]
    assert [note.code for note in record.notes] == ["sealed-value"]
    _, events = read(lines(BEGIN, *text("m", "a"), sealed[1], END))
    assert [role for role, _ in summarize_events(events) if role == "assistant_thought"] == []


def test_a_snapshot_shows_what_the_person_said() -> None:
    shown = snapshot(user("q"), {"id": "x", "role": "assistant", "content": "a"})
    _, events = read(
        lines(BEGIN, event("STEP_STARTED", stepName="s"), *text("m", "a"), shown, shown, END)
    )
    assert [words for role, words in summarize_events(events) if role != "annotation"] == ["q", "a"]


def test_snapshots_with_new_ids_say_nothing_twice() -> None:
    def shown(name: str) -> dict[str, Any]:
        made = {
            "id": name,
            "role": "assistant",
            "content": "a",
            "toolCalls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}],
        }
        return snapshot(
            user("q", name + "u"),
            made,
            {"id": name + "t", "role": "tool", "toolCallId": "1", "content": "ok"},
        )

    _, events = read(
        lines(
            BEGIN,
            shown("1"),
            *text("m", "a"),
            *call("1", "{}"),
            shown("2"),
            result("1"),
            shown("3"),
            END,
        )
    )
    output = [(item.get("role"), item["type"]) for item in events if item["type"] != "annotation"]
    assert output == [
        ("user", "message"),
        ("assistant", "message"),
        ("assistant", "tool_use"),
        ("tool", "tool_result"),
    ]


def test_a_result_that_only_a_snapshot_has_stands_before_the_answer() -> None:
    answered = [
        user("q"),
        {"id": "t", "role": "tool", "toolCallId": "1", "content": "r", "error": "late"},
        {"id": "a", "role": "assistant", "content": "done"},
    ]
    _, events = read(lines(BEGIN, *call("1", "{}"), *text("m", "done"), snapshot(*answered), END))
    assert [words for role, words in summarize_events(events) if role in ("user", "tool")] == [
        "q",
        "r",
    ]
    assert [item.get("role") for item in events if item["type"] in ("message", "tool_result")] == [
        "user",
        "tool",
        "assistant",
    ]
    assert notes_of(events, "result_facts") == [{"is_error": True, "error": "late"}]


def test_a_later_run_says_the_same_words_again() -> None:
    runs = [
        [BEGIN, snapshot(user("yes")), *text("a", "good"), END],
        [
            BEGIN,
            snapshot(user("yes"), {"id": "a", "role": "assistant", "content": "good"}, user("yes")),
            *text("b", "good"),
            END,
        ],
        [
            {**BEGIN, "input": {"threadId": "t", "runId": "r", "messages": [user("yes")]}},
            *text("c", "good"),
            END,
        ],
    ]
    _, events = read(lines(*(item for run in runs for item in run)))
    assert [words for role, words in summarize_events(events) if role != "annotation"] == [
        "yes",
        "good",
    ] * 3


def test_the_input_beside_a_stream() -> None:
    given = {
        "threadId": "t",
        "runId": "r",
        "messages": [{"id": "s", "role": "system", "content": "s"}, user("q")],
        "tools": [{"name": "f"}],
        "forwardedProps": {"x": 1},
    }
    record, events = read(lines(given, BEGIN, *text("m", "a"), END))
    assert [words for role, words in summarize_events(events) if role != "annotation"] == [
        "s",
        "q",
        "a",
    ]
    assert notes_of(events, "tools") == [{"names": ["f"]}]
    assert [note.code for note in record.notes] == ["state"]


@pytest.mark.parametrize(
    ("given", "output"),
    [
        (1770000000, "2026-02-02T02:40:00Z"),
        (1770000000000, "2026-02-02T02:40:00Z"),
        ("2026-02-02T02:40:00Z", "2026-02-02T02:40:00Z"),
        (5, None),
    ],
)
def test_times_in_seconds_and_milliseconds(given: Any, output: str | None) -> None:
    _, events = read(lines({**BEGIN, "timestamp": given}, END))
    assert events[0].get("ts") == output


def test_subagents_side_by_side() -> None:
    started = [
        event(
            "SUBAGENT_STARTED",
            subagentRunId=name,
            name="helper",
            parentToolCallId=call_id,
            parentSubagentRunId=above,
        )
        for name, call_id, above in (("s1", "1", None), ("s2", "x", "s1"))
    ]
    mixed = [
        pair
        for pairs in zip(
            text("a", "one", subagentRunId="s1"), text("b", "two", subagentRunId="s2"), strict=True
        )
        for pair in pairs
    ]
    finished = event("SUBAGENT_FINISHED", subagentRunId="s1", outcome={"type": "suspended"})
    again = event("SUBAGENT_STARTED", subagentRunId="s1", name="helper")
    record, events = read(
        lines(
            BEGIN,
            *call("1", "{}"),
            *started,
            *mixed,
            finished,
            event("SUBAGENT_ERROR", subagentRunId="s2", message="no"),
            again,
            *text("c", "three", subagentRunId="s1"),
            END,
        )
    )
    spans = [item["content"]["data"] for item in events if item["type"] == "span_start"]
    assert [span["run_id"] for span in spans] == ["s1", "s2", "s1"]
    assert spans[1]["parent_span"] == "span_000001"
    assert [item["links"]["span_id"] for item in events if item["type"] == "message"] == [
        "span_000001",
        "span_000002",
        "span_000003",
    ]
    assert [item["content"]["data"] for item in events if item["type"] == "span_end"][:2] == [
        {"outcome": {"type": "suspended"}},
        {"error": "no"},
    ]
    assert len([who for who in record.participants if who["name"] == "helper"]) == 2


@pytest.mark.parametrize(("subagents", "spans"), [("reference", 1), ("none", 0)])
def test_subagents_left_out(subagents: str, spans: int) -> None:
    started = event("SUBAGENT_STARTED", subagentRunId="s", name="helper")
    record, events = read(
        lines(
            BEGIN,
            started,
            *text("a", "deep", subagentRunId="s"),
            event("CUSTOM", name="x", value=1, subagentRunId="s"),
            END,
        ),
        subagents=subagents,
    )
    assert [item["type"] for item in events].count("span_start") == spans
    assert "deep" not in str(events)
    assert [note.code for note in record.notes] == ["subagent"]


def test_what_stands_beside_the_conversation() -> None:
    record, events = read(
        lines(
            BEGIN,
            event("ACTIVITY_DELTA", messageId="p", activityType="PLAN", patch=[{"op": "add"}]),
            event("STATE_SNAPSHOT", snapshot={}, metadata={"a": 1}, rawEvent={"b": 1}),
            event("RAW", event={}),
            event("SOMETHING_NEW"),
            {**END, "usage": [{"model": "m", "inputTokens": 3, "outputTokens": 1}, 5]},
        )
    )
    assert notes_of(events, "activity") == [
        {"activity_type": "PLAN", "message_id": "p", "patch": [{"op": "add"}]}
    ]
    assert events[-1]["usage"] == tokens(input_tokens=3, output_tokens=1)
    assert {note.code for note in record.notes} == {
        "state",
        "metadata",
        "raw-event",
        "unknown-event",
    }


@pytest.mark.parametrize("odd", [None, 5, "x", [], {}, [[]], {"type": 5}, True])
def test_hostile_shapes(odd: Any) -> None:
    names = (
        "messageId",
        "delta",
        "role",
        "toolCallId",
        "toolCallName",
        "content",
        "snapshot",
        "messages",
        "name",
        "value",
        "threadId",
        "input",
        "usage",
        "subagentRunId",
        "timestamp",
        "stepName",
        "outcome",
        "entityId",
        "metadata",
        "title",
    )
    kinds = (
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_CHUNK",
        "TEXT_MESSAGE_END",
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_CHUNK",
        "TOOL_CALL_RESULT",
        "MESSAGES_SNAPSHOT",
        "CUSTOM",
        "RUN_STARTED",
        "RUN_FINISHED",
        "RUN_ERROR",
        "SUBAGENT_STARTED",
        "SUBAGENT_FINISHED",
        "SUBAGENT_ERROR",
        "REASONING_MESSAGE_START",
        "REASONING_ENCRYPTED_VALUE",
        "THINKING_START",
        "ACTIVITY_SNAPSHOT",
        "STEP_STARTED",
        "STATE_DELTA",
    )
    read(lines(BEGIN, *(event(kind, **dict.fromkeys(names, odd)) for kind in kinds)))
    read(
        lines(
            BEGIN,
            snapshot(
                odd,
                {"role": odd},
                {"role": "assistant", "content": odd, "toolCalls": odd},
                {"role": "tool", "content": odd},
                {"role": "reasoning", "content": odd},
            ),
            END,
        )
    )
    read(lines(*[BEGIN] * 70, odd))
