"""A session server's turns: blocks and calls, subagents inside their call, branches, patches
folded, many sessions."""

import json
from typing import Any

import pytest

from open_token.builder.draft import Draft
from open_token.model.log_events import LOG_EVENT_TYPES
from open_token.registry import READERS
from open_token.sources.source import Source
from readers.framework_files import claimed, lines, notes_of, paired, stream
from readers.provider_readers import build_read_function, summarize_events, tokens

READER = READERS["session_server"]

read = build_read_function(READER)


def turn(name: str, role: str = "assistant", *blocks: Any, **more: Any) -> dict[str, Any]:
    made = {
        "turn_id": name,
        "loop_id": "root",
        "kind": "message",
        "role": role,
        "status": "completed",
    }
    return {
        **made,
        "blocks": [
            block if isinstance(block, dict) else {"type": "text", "content": block}
            for block in blocks
        ],
        "tool_calls": [],
        **more,
    }


def call(name: str, status: str = "done", **more: Any) -> dict[str, Any]:
    return {
        "id": name,
        "tool_name": "Bash",
        "display_name": "Run",
        "arguments": '{"c": 1}',
        "status": status,
        **more,
    }


def patch(kind: str, number: int = 1, session: str = "s", **data: Any) -> dict[str, Any]:
    return {
        "session_id": session,
        "sequence": number,
        "turn_id": "t",
        "loop_id": "root",
        "patch_type": kind,
        "data": data,
    }


@pytest.mark.parametrize(
    "value",
    [
        {"turns": [turn("a", "user", "q")]},
        [turn("a", "user", "q")],
        {"items": [turn("a", "user", "q")], "total": 1},
        lines(turn("a", "user", "q"), turn("b", "assistant", "a")),
        lines(patch("add_content"), patch("set_status", 2)),
        stream({"session_id": "s"}, patch("add_content")),
        lines(["turn:patch", patch("add_content")]),
        lines({"type": "turn:patch", "payload": patch("add_content"), "stream_sequence": 1}),
        {"nodes": [{"id": "n", "parent_id": None, "turn": turn("a")}]},
        [turn("a", kind="compaction")],
    ],
    ids=lambda value: str(value)[:40],
)
def test_claims(value: Any) -> None:
    assert claimed(value) == "session_server"


@pytest.mark.parametrize(
    "value",
    [
        {"turns": []},
        [{"turn_id": "a"}],
        [{"turn_id": "a", "blocks": []}],
        {"nodes": [{"id": 1}]},
        [{"session_id": "s"}],
        [],
    ],
    ids=lambda value: str(value)[:40],
)
def test_leaves_to_others(value: Any) -> None:
    assert not READER.sniff(Source("input", data=json.dumps(value).encode()))


def test_calls_without_blocks_are_reported_after_them() -> None:
    _, events = read(
        [turn("a", "assistant", "w", tool_calls=[call("1", result="x"), call("2", result="y")])]
    )
    assert [event["type"] for event in events] == [
        "message",
        "tool_use",
        "tool_use",
        "tool_result",
        "tool_result",
    ]
    assert [text for role, text in summarize_events(events) if role == "tool"] == ["x", "y"]
    assert events[1]["content"]["data"]["arguments"] == {"c": 1}
    paired(events)


@pytest.mark.parametrize("status", ["pending", "awaiting_answer", "cancelled"])
def test_calls_without_result(status: str) -> None:
    _, events = read([turn("a", tool_calls=[call("1", status)])])
    assert events[1]["content"]["data"] == {"missing_result": True}
    assert [fact["status"] for fact in notes_of(events, "call_status")] == (
        [] if status == "pending" else [status]
    )


def test_done_without_a_result_is_an_empty_output() -> None:
    _, events = read([turn("a", tool_calls=[call("1", "done", result=None)])])
    assert summarize_events(events)[1] == ("tool", "")


def test_the_meta_of_a_result_is_not_what_the_model_saw() -> None:
    _, events = read(
        [turn("a", tool_calls=[call("1", result={"ok": True, "_meta": {"ui": {"title": "T"}}})])]
    )
    assert summarize_events(events)[1] == ("tool", {"ok": True})
    assert notes_of(events, "result_facts") == [{"_meta": {"ui": {"title": "T"}}}]


def test_a_block_and_a_projection_of_one_call_are_one_call() -> None:
    use = {
        "type": "tool_use",
        "content": {"id": "1", "tool_name": "Bash", "arguments": "{}"},
        "tool_call_id": "1",
    }
    done = {
        "type": "tool_result",
        "content": {"tool_call_id": "1", "result": "x", "status": "done"},
        "tool_call_id": "1",
    }
    _, events = read(
        [turn("a", "assistant", use, done, tool_calls=[call("1", result="x", duration_ms=3)])]
    )
    assert [event["type"] for event in events] == ["tool_use", "tool_result", "annotation"]
    _, events = read([turn("a", "assistant", use, done)])
    assert [event["type"] for event in events] == ["tool_use", "tool_result"]


def test_a_subagent_stands_between_its_call_and_the_result() -> None:
    child = {"loop_id": "child", "parent_fork_tool_call_id": "1"}
    turns = [
        turn("a", tool_calls=[call("1", result="r") | {"tool_name": "Agent"}]),
        turn("b", "user", "do", **child),
        turn("c", "assistant", "did", model="claude-haiku-4-5", **child),
        turn("d", "assistant", "end"),
    ]
    record, events = read(turns)
    output = [event["type"] for event in events]
    assert output == [
        "tool_use",
        "span_start",
        "message",
        "message",
        "span_end",
        "tool_result",
        "message",
    ]
    assert (events[2]["role"], events[2]["visibility"], events[2]["actor_id"]) == (
        "user",
        "internal",
        events[0]["actor_id"],
    )
    assert [who["name"] for who in record.participants if who["kind"] == "model"] == [
        "assistant",
        "child",
    ]


def test_a_loop_without_its_call_has_a_span_of_its_own() -> None:
    _, events = read(
        [
            turn("a", "user", "q"),
            turn("b", "assistant", "x", loop_id="lost", parent_fork_tool_call_id="gone"),
        ]
    )
    assert [event["type"] for event in events] == ["message", "span_start", "message", "span_end"]


def test_subagents_that_call_each_other_end() -> None:
    turns = [
        turn(name, tool_calls=[call(made)], loop_id=name, parent_fork_tool_call_id=served)
        for name, made, served in (("x", "1", "2"), ("y", "2", "1"))
    ]
    _, events = read(turns)
    assert len([event for event in events if event["type"] == "tool_use"]) == 2


@pytest.mark.parametrize(("subagents", "spans"), [("reference", 1), ("none", 0)])
def test_subagents_left_out(subagents: str, spans: int) -> None:
    turns = [
        turn("a", tool_calls=[call("1", result="r")]),
        turn("b", "assistant", "deep", loop_id="c", parent_fork_tool_call_id="1"),
    ]
    record, events = read(turns, subagents=subagents)
    assert [event["type"] for event in events].count("span_start") == spans
    assert "deep" not in str(events)
    assert [note.code for note in record.notes] == ["subagent"]
    paired(events)


@pytest.mark.parametrize(
    ("branches", "words"), [("active", ["q", "new"]), ("all", ["q", "old", "new"])]
)
def test_branches_that_were_left(branches: str, words: list[str]) -> None:
    nodes = [
        {"id": "1", "parent_id": None, "active": True, "turn": turn("a", "user", "q")},
        {"id": "2", "parent_id": "1", "active": False, "turn": turn("b", "assistant", "old")},
        {"id": "3", "parent_id": "1", "active": True, "turn": turn("c", "assistant", "new")},
        {"id": "4", "parent_id": "3", "kind": "checkpoint"},
    ]
    record, events = read({"nodes": nodes}, branches=branches)
    assert [event["content"]["text"] for event in events if event["type"] == "message"] == words
    left = ["abandoned-branch"] if branches == "active" else []
    assert [note.code for note in record.notes] == ["unknown-node", *left]


def test_patches_are_folded() -> None:
    log = [
        patch("add_content", 1, type="text", content="a", text_delta="a"),
        patch("add_content", 2, type="text", content="ab", text_delta="b"),
        patch("add_content", 3, type="text", content="new", text_delta="new"),
        patch("add_content", 4, type="thinking", text_delta="t"),
        patch("add_content", 5, type="text", content={"x": 1}),
        patch("add_tool_call", 6, **call("1", "pending")),
        patch("tool_result", 7, tool_call_id="1", result="r", status="done"),
        patch("tool_result", 8, tool_call_id="2", result="late", status="error"),
        patch("set_status", 9, status="failed", failure_reason="tired"),
    ]
    _, events = read(lines(*log, log[1]))
    assert [text for role, text in summarize_events(events) if role == "assistant"][:2] == [
        "ab",
        "new",
    ]
    assert ("assistant_thought", "t") in summarize_events(events)
    assert [text for role, text in summarize_events(events) if role == "tool"] == ["r", "late"]
    assert notes_of(events, "error") == [{"failure_reason": "tired"}]


def test_the_whole_turn_wins_over_its_patches() -> None:
    whole = {"session_id": "s", **turn("t", "assistant", "all of it")}
    _, events = read(lines(patch("add_content", 1, type="text", text_delta="part"), whole))
    assert summarize_events(events) == [("assistant", "all of it")]
    _, events = read(
        lines(
            patch("add_content", 1, type="text", text_delta="part"),
            patch("sync", 2, turn=turn("t", "assistant", "synced")),
        )
    )
    assert summarize_events(events) == [("assistant", "synced")]


def test_sessions_of_a_log() -> None:
    log = [
        patch("add_content", 1, "one", type="text", text_delta="a"),
        patch("add_content", 1, "two", type="text", text_delta="b"),
        {"session_id": "one", "paths": []},
    ]
    source = Source("input", data=lines(*log))
    assert [found.id for found in READER.list_conversations(source)] == ["one", "two"]
    assert [READER.find_owner(source, f"/{n}", item) for n, item in enumerate(log, 1)] == [
        "one",
        "two",
        "one",
    ]
    assert (
        READER.find_owner(source, "/1", f"event: turn:patch\ndata: {json.dumps(log[1])}\n\n")
        == "two"
    )
    assert READER.find_owner(source, "/1", log) is None
    assert READER.list_conversations(Source("input", data=lines(log[0]))) == []


def test_usage_and_times() -> None:
    _, events = read(
        [
            turn(
                "a",
                "assistant",
                {"type": "thinking", "content": "t"},
                "w",
                started_at="2026-01-01T00:00:00Z",
                usage={"input_tokens": 5, "output_tokens": 1},
            )
        ]
    )
    assert [(event.get("ts"), event.get("usage")) for event in events] == [
        ("2026-01-01T00:00:00Z", None),
        ("2026-01-01T00:00:00Z", tokens(input_tokens=5, output_tokens=1)),
    ]


def row(seq: int, kind: str, owner: str = "s", **data: Any) -> dict[str, Any]:
    return {
        "session_id": owner,
        "seq": seq,
        "at": "2026-01-01T00:00:00Z",
        "kind": kind,
        "data": data,
    }


def test_a_log_is_folded() -> None:
    log = [
        row(1, "session.created", session={"intent": "Title"}),
        row(2, "turn.opened", turn={"turn_id": "t"}),
        row(3, "text.delta", turn_id="t", text="a"),
        row(4, "text.delta", turn_id="t", text="b"),
        row(5, "text.delta", turn_id="nowhere", text="lost"),
        row(6, "later.invention"),
        row(7, "turn.ended", turn_id="t"),
    ]
    assert claimed(lines(*log)) == "session_server"
    record, events = read(lines(*log))
    assert summarize_events(events) == [("assistant", "ab")]
    assert record.conversation["title"] == "Title"
    assert [(note.code, note.place, note.count) for note in record.notes] == [
        ("bad-entry", "line 5", 2)
    ]
    _, events = read(log)
    assert summarize_events(events) == [("assistant", "ab")]


def test_the_logs_of_several_sessions() -> None:
    log = [
        row(
            1,
            "turn.opened",
            name,
            turn={"turn_id": "t", "blocks": [{"type": "text", "content": name}]},
        )
        for name in "ab"
    ]
    source = Source("input", data=lines(*log))
    assert [found.id for found in READER.list_conversations(source)] == ["a", "b"]
    source.conversation = "b"
    draft = Draft()
    READER.read(source, draft)
    assert summarize_events(list(draft.finish(lambda: "").events))[0] == ("assistant", "b")


def test_a_card_stands_behind_the_result_it_came_with() -> None:
    card = {"type": "tool_ui", "content": {"title": "T"}, "tool_call_id": "1"}
    _, events = read([turn("a", "assistant", "w", card, tool_calls=[call("1", result="x")])])
    assert [event["type"] for event in events] == [
        "message",
        "tool_use",
        "tool_result",
        "annotation",
    ]


def test_an_answer_stands_before_the_result_that_came_of_it() -> None:
    given = {"type": "ask_user_answer", "content": {"tool_call_id": "1", "answers": ["blue"]}}
    _, events = read(
        [
            turn("a", tool_calls=[call("1", result="blue")]),
            turn("b", "user", given),
            turn("c", "assistant", "w"),
        ]
    )
    assert [event.get("role") for event in events] == ["assistant", "user", "tool", "assistant"]


@pytest.mark.parametrize("odd", [None, 5, "x", [], {}, [[]], {"type": 5}, True])
def test_hostile_logs(odd: Any) -> None:
    names = (
        "turn",
        "turn_id",
        "text",
        "block",
        "call",
        "tool_call_id",
        "event",
        "anchor",
        "head",
        "reason",
        "session",
    )
    rows = [
        row(
            number,
            kind,
            **({"turn_id": "t", "tool_call_id": "c", "reason": "r", "to": "x", **data}),
        )
        for number, (kind, data) in enumerate(
            ((kind, {name: odd}) for kind in LOG_EVENT_TYPES for name in names), 3
        )
    ]
    begin = [
        row(1, "turn.opened", turn={"turn_id": "t"}),
        row(2, "tool.called", turn_id="t", call={"id": "c", "tool_name": "T"}),
    ]
    read(lines(*begin, *rows))
    read(lines(*rows, *begin))


@pytest.mark.spec("early-end", "attempts")
def test_why_a_turn_ended_and_what_failed_before() -> None:
    attempt = {
        "failed_at": "2026-03-01T10:00:00Z",
        "failure_reason": "overloaded",
        "code": "server",
        "blocks": [
            {"type": "thinking", "content": "Hm."},
            {"type": "text", "content": "some "},
            {"type": "text", "content": "text"},
        ],
    }
    record, said = read(
        [turn("a", "assistant", "half", finish_reason="length", attempts=[attempt])]
    )
    output = [event["content"]["data"] for event in said if event["type"] == "annotation"]
    assert output == [
        {
            "kind": "failed_attempt",
            "failure_reason": "overloaded",
            "code": "server",
            "text": "some text",
        },
        {"kind": "message_facts", "finish_reason": "length"},
    ]
    assert [note.code for note in record.notes] == ["failed-attempt"]


@pytest.mark.parametrize("odd", [None, 5, "x", [], {}, [[]], {"type": 5}, True])
def test_hostile_shapes(odd: Any) -> None:
    kinds = (
        "text",
        "thinking",
        "tool_use",
        "tool_result",
        "tool_ui",
        "ask_user_answer",
        "system_notification",
        "mode_change",
        "plan_status",
    )
    blocks = [{"type": kind, "content": odd, "tool_call_id": odd} for kind in kinds]
    names = ("id", "tool_name", "arguments", "status", "result", "pending_question_ref")
    made = [call(str(n)) | {name: odd} for n, name in enumerate(names)]
    fields = (
        "loop_id",
        "role",
        "status",
        "model",
        "usage",
        "started_at",
        "memory_refs",
        "parent_fork_tool_call_id",
        "tool_calls",
        "context_window",
        "finish_reason",
        "attempts",
    )
    read(
        [
            turn("s", "user", "q"),
            turn("a", "assistant", *blocks, odd, {"type": odd}, tool_calls=[*made, odd]),
            *(turn(f"x{name}") | {name: odd} for name in fields),
        ]
    )
    read([turn("c", kind="compaction", summary_full=odd, tokens_before=odd)])
    data = ("type", "content", "text_delta", "block_index", "id", "tool_call_id", "status", "turn")
    log = [
        patch(kind, n, **dict.fromkeys(data, odd))
        for n, kind in enumerate(
            (
                "add_content",
                "add_tool_call",
                "tool_result",
                "set_status",
                "set_tool_status",
                "sync",
                "x",
            )
        )
    ]
    read(lines(*log, *(item | {"data": odd, "sequence": odd, "session_id": odd} for item in log)))
