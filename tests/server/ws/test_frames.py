"""What is sent of some entries: batches for newer clients, single events with words put together
for older ones."""

import json
from typing import Any

from open_token.model.log_events import LogEntry, NewEvent
from open_token.server.ws.frames import BATCH_EVENT, needs_state, render_legacy, render_raw
from open_token.session import SessionState

AT = "2026-01-01T00:00:00.000Z"


def log_of(*made: NewEvent) -> tuple[SessionState, list[LogEntry]]:
    state = SessionState("s")
    return state, [state.add(kind, data, AT) for kind, data in made]


def word(text: str, **more: Any) -> NewEvent:
    return "text.delta", {"turn_id": "t", "text": text, **more}


OPENED: NewEvent = ("turn.opened", {"turn": {"turn_id": "t"}})


def test_a_batch_closes_before_what_is_an_event_of_its_own() -> None:
    run = {"run_id": "r"}
    state, entries = log_of(
        ("run.started", run),
        ("run.ended", run),
        ("error.raised", {"message": "no"}),
        ("notice.given", {"message": "x"}),
    )
    frames = render_raw(entries, state)
    assert [frame.name for frame in frames] == [
        BATCH_EVENT,
        "chat:end",
        BATCH_EVENT,
        "system:error",
        BATCH_EVENT,
    ]
    assert [[item["type"] for item in frame.items] for frame in frames] == [
        ["chat:start", "chat:end"],
        [],
        ["system:error"],
        [],
        ["system:notification"],
    ]
    assert [frame.payload["stream_sequence"] for frame in frames if frame.name != BATCH_EVENT] == [
        2,
        3,
    ]
    assert frames[0].payload == {"session_id": "s", "events": frames[0].items}


def test_a_batch_has_an_end() -> None:
    state, entries = log_of(OPENED, *[word("w") for _ in range(250)])
    assert [len(frame.items) for frame in render_raw(entries, state)] == [100, 100, 51]
    state, entries = log_of(OPENED, *[word("w" * 100_000) for _ in range(5)])
    assert [len(frame.items) for frame in render_raw(entries, state)] == [3, 2, 1]


def test_a_frame_and_its_json_say_the_same() -> None:
    state, entries = log_of(OPENED, word('"三"\u2028'), ("run.ended", {"run_id": "r"}))
    for frame in (*render_raw(entries, state), *render_legacy(entries, state)):
        assert json.loads(frame.json()) == frame.payload


def test_only_pieces_of_one_block_are_put_together() -> None:
    state, entries = log_of(
        OPENED,
        word("a"),
        word("b"),
        ("thinking.delta", {"turn_id": "t", "text": "c"}),
        ("tool.called", {"turn_id": "t", "call": {"id": "x", "tool_name": "Bash"}}),
        ("tool.arguments", {"turn_id": "t", "tool_call_id": "x", "delta": "{"}),
        ("tool.arguments", {"turn_id": "t", "tool_call_id": "x", "delta": "}"}),
        word("d"),
    )
    frames = render_legacy(entries, state)
    data = [frame.payload.get("data", {}) for frame in frames]
    assert [item.get("text_delta", item.get("arguments_delta")) for item in data] == [
        None,
        "ab",
        "c",
        None,
        "{}",
        "d",
    ]
    assert [frame.payload["stream_sequence"] for frame in frames] == [1, 3, 4, 5, 7, 8]
    assert [frame.payload.get("sequence") for frame in frames[1:]] == [2, 3, 4, 6, 7]


def test_entries_that_say_nothing_or_are_not_known_are_left_out() -> None:
    state, entries = log_of(("message.queued", {"message_id": "m", "message": {}}))
    entries.append(LogEntry("s", 2, AT, "invented.later", {}))
    assert render_raw(entries, state) == render_legacy(entries, state) == []


def test_words_need_no_look_at_the_session() -> None:
    _, entries = log_of(OPENED, word("a"), ("turn.ended", {"turn_id": "t"}))
    assert not needs_state("raw", entries[:2])
    assert needs_state("raw", entries)
    assert needs_state("legacy", entries[:2])
    assert render_raw(entries[:2], None)[0].items[1]["payload"]["data"]["text_delta"] == "a"
