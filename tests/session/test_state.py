"""The fold of a log: at once, entry by entry, and at a client; long streams, bad entries, both
dialects."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.growth import grows_linearly
from helpers.server.random_sessions import SessionLog, session_logs
from helpers.server.reference_client import ReferenceClient
from open_token.model.log_events import LogEntry, LogError, NewEvent, merge_deltas
from open_token.model.session_types import TurnProjection, from_builtins, to_builtins
from open_token.session import SessionState, fold_log, to_legacy_event, to_stream_item

AT = "2026-01-01T00:00:00Z"


def wired(value: Any) -> Any:
    """As it arrives at the other end."""
    return json.loads(msgspec.json.encode(value))


def seen(turns: list[dict[str, Any]]) -> list[Any]:
    """Turns of a client, without what only the stream carries."""
    beside = ("session_id", "parent_id", "solution_id", "template_id")
    bare = [{name: item for name, item in turn.items() if name not in beside} for turn in turns]
    return [to_builtins(from_builtins(turn, TurnProjection)) for turn in bare]


def log_of(*made: NewEvent) -> tuple[SessionState, list[LogEntry]]:
    state = SessionState("s")
    return state, [state.add(kind, data, AT) for kind, data in made]


@given(session_logs(), st.integers(0, 200))
def test_folded_at_once_or_entry_by_entry(session_log: SessionLog, place: int) -> None:
    entries = msgspec.json.decode(msgspec.json.encode(session_log.entries), type=list[LogEntry])
    whole = fold_log(entries).snapshot()
    assert wired(whole) == wired(session_log.state.snapshot())
    again = SessionState("sess_1")
    for number, entry in enumerate(entries):
        if number == place:
            again.branch()  # to look at it changes nothing
        again.apply(entry)
    assert again.snapshot() == whole
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))


@given(session_logs())
def test_a_client_has_the_same_turns_after_every_event(session_log: SessionLog) -> None:
    state, old, new = SessionState("sess_1"), ReferenceClient(), ReferenceClient()
    for entry in session_log.entries:
        state.apply(entry)
        if (item := to_stream_item(entry, state)) is not None:
            new.hear_raw(wired(item))
        if (result := to_legacy_event(entry, state)) is not None:
            old.hear(*wired(result))
        branch = wired(to_builtins(state.branch()))
        assert seen(new.branch()) == branch
        assert seen(old.branch()) == branch
    for mirror in (old, new):
        assert mirror.session["status"] == state.session.status
        assert mirror.session["intent"] == state.session.intent
        assert len(mirror.turns()) == len(state.turns)


@given(session_logs(), st.data())
def test_a_client_that_comes_back_has_the_same_turns(
    session_log: SessionLog, data: st.DataObject
) -> None:
    """It is sent the rest of the log, rendered with the turns as they are by then, and some of it
    twice."""
    cut = data.draw(st.integers(0, len(session_log.entries)))
    again = data.draw(st.integers(0, cut))
    state, mirror = SessionState("sess_1"), ReferenceClient()
    for entry in session_log.entries[:cut]:
        state.apply(entry)
        if (item := to_stream_item(entry, state)) is not None:
            mirror.hear_raw(wired(item))
    for entry in session_log.entries[again:]:
        if (item := to_stream_item(entry, session_log.state)) is not None:
            mirror.hear_raw(wired(item))
    assert seen(mirror.branch()) == wired(to_builtins(session_log.state.branch()))
    assert mirror.session["status"] == session_log.state.session.status


@pytest.mark.spec("stream-sequence")
@given(session_logs())
def test_numbers_only_grow(session_log: SessionLog) -> None:
    items = [
        item
        for entry in session_log.entries
        if (item := to_stream_item(entry, session_log.state)) is not None
    ]
    stream = [item["stream_sequence"] for item in items]
    assert stream == sorted(set(stream))
    assert not stream or stream[0] >= 1
    patches: dict[str, list[int]] = {}
    for item in items:
        if item["type"] == "turn:patch":
            patches.setdefault(item["payload"]["turn_id"], []).append(item["payload"]["sequence"])
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in patches.values())
    assert [turn.facts.sequence for turn in session_log.state.turns.values()] == list(
        range(len(session_log.state.turns))
    )


@given(session_logs())
def test_pieces_that_were_put_together_make_the_same_turns(session_log: SessionLog) -> None:
    made = [(entry.kind, {**entry.data, "patch": 0}) for entry in session_log.entries]
    state = SessionState("sess_1")
    for kind, data in merge_deltas(made):
        state.add(kind, data, AT)
    assert [turn.blocks for turn in state.branch()] == [
        turn.blocks for turn in session_log.state.branch()
    ]
    assert [turn.tool_calls for turn in state.branch()] == [
        turn.tool_calls for turn in session_log.state.branch()
    ]


def opened(name: str = "t", **more: Any) -> NewEvent:
    return "turn.opened", {"turn": {"turn_id": name, **more}}


def test_a_long_stream_costs_no_more_than_its_length() -> None:
    def work(count: int) -> None:
        state, _ = log_of(opened())
        for _ in range(count):
            to_stream_item(state.add("text.delta", {"turn_id": "t", "text": "word "}, AT), state)
        assert state.turn("t").blocks[0].content == "word " * count

    assert grows_linearly(work, 2_000, 8)


def test_what_was_shown_stays_as_it_was() -> None:
    state, _ = log_of(opened(), ("text.delta", {"turn_id": "t", "text": "a"}))
    before = state.turn("t")
    state.add("text.delta", {"turn_id": "t", "text": "b"}, AT)
    state.add("turn.ended", {"turn_id": "t"}, AT)
    assert (before.blocks[0].content, before.status) == ("a", "streaming")
    assert (state.turn("t").blocks[0].content, state.turn("t").status) == ("ab", "completed")


@pytest.mark.spec("raw-dialect")
def test_a_raw_patch_is_small_and_a_legacy_one_whole() -> None:
    state, _ = log_of(opened(), ("text.delta", {"turn_id": "t", "text": "one "}))
    entry = state.add("text.delta", {"turn_id": "t", "text": "two"}, AT)
    envelope = {
        "session_id": "s",
        "sequence": 2,
        "turn_id": "t",
        "loop_id": "root",
        "patch_type": "add_content",
    }
    data = {"type": "text", "text_delta": "two", "block_index": 0}
    assert to_stream_item(entry, state) == {
        "type": "turn:patch",
        "stream_sequence": 3,
        "payload": {**envelope, "data": data},
    }
    name, payload = to_legacy_event(entry, state) or ("", {})
    assert (name, payload["data"]["content"], payload["data"]["text_delta"]) == (
        "turn:patch",
        "one two",
        "two",
    )
    assert payload["data"]["turn"]["blocks"][0]["content"] == "one two"


@pytest.mark.parametrize(
    ("ended", "new", "old"),
    [
        ({"output": "w"}, {"result": "w"}, {"result": "w", "output": "w", "schema": None}),
        (
            {"output": {"n": 1}, "schema": {"type": "object"}},
            {"n": 1},
            {"n": 1, "output": {"n": 1}, "schema": {"type": "object"}},
        ),
        ({"status": "failed", "error": "no"}, {"err_msg": "no"}, {"err_msg": "no"}),
    ],
)
def test_the_result_of_a_run(ended: dict[str, Any], new: Any, old: Any) -> None:
    state, entries = log_of(
        ("run.started", {"run_id": "r"}), ("run.ended", {"run_id": "r", **ended})
    )
    item = to_stream_item(entries[1], state) or {}
    assert (item["type"], item["payload"]["result"], item["payload"]["stream_sequence"]) == (
        "chat:end",
        new,
        2,
    )
    assert item["payload"]["session_id"] == "s"
    assert (to_legacy_event(entries[1], state) or ("", {}))[1]["result"] == old


CALLED: NewEvent = ("tool.called", {"turn_id": "t", "call": {"id": "c", "tool_name": "Bash"}})
BAD: list[tuple[list[NewEvent], NewEvent]] = [
    ([], ("nonsense", {})),
    ([], ("text.delta", {"turn_id": "t", "text": "x"})),
    ([], ("text.delta", {"turn_id": 5, "text": "x"})),
    ([], ("turn.ended", {"turn_id": "t"})),
    ([], ("turn.opened", {"turn": {}})),
    ([], ("turn.opened", {"turn": {"turn_id": "t", "role": "wizard"}})),
    ([], ("message.taken", {"message_id": "m"})),
    ([], ("branch.moved", {"head": "nowhere", "reason": "rewind"})),
    ([opened()], opened()),
    ([opened()], ("session.created", {"session": {}})),
    ([opened()], ("session.changed", {"changes": {"status": "odd"}})),
    ([opened()], ("imported", {})),
    ([opened()], ("turn.opened", {"turn": {"turn_id": "u"}, "parent_id": None})),
    ([opened()], ("text.delta", {"turn_id": "t", "text": "x", "block_index": 4})),
    ([opened()], ("block.added", {"turn_id": "t", "block": {"type": "text"}, "block_index": 4})),
    ([opened()], ("block.added", {"turn_id": "t", "block": {"type": "hologram"}})),
    ([opened()], ("tool.result", {"turn_id": "t", "tool_call_id": "c"})),
    ([opened()], ("memory.recalled", {"turn_id": "t", "refs": [{"id": "x"}]})),
    ([opened(), CALLED], CALLED),
    ([opened(), CALLED], ("text.delta", {"turn_id": "t", "text": "x", "block_index": 0})),
    ([opened(), CALLED], ("question.answered", {"turn_id": "t", "tool_call_id": "c"})),
    ([opened(status="completed")], ("text.delta", {"turn_id": "t", "text": "x"})),
    (
        [opened(), CALLED, ("tool.result", {"turn_id": "t", "tool_call_id": "c"})],
        ("tool.arguments", {"turn_id": "t", "tool_call_id": "c", "delta": "x"}),
    ),
    ([("checkpoint.made", {"checkpoint_id": "k"})], ("checkpoint.made", {"checkpoint_id": "k"})),
]


@pytest.mark.parametrize(("before", "bad"), BAD, ids=lambda value: str(value)[:60])
def test_an_entry_that_does_not_fit_changes_nothing(before: list[NewEvent], bad: NewEvent) -> None:
    state, _ = log_of(*before)
    was = wired(state.snapshot())
    with pytest.raises(LogError):
        state.add(*bad, AT)
    assert wired(state.snapshot()) == was


def test_entries_in_order_and_of_one_session() -> None:
    state, entries = log_of(opened(), ("turn.ended", {"turn_id": "t"}))
    with pytest.raises(LogError):
        state.apply(entries[0])
    with pytest.raises(LogError):
        fold_log([entries[0], LogEntry("other", 2, AT, *("turn.ended", {"turn_id": "t"}))])
    with pytest.raises(LogError):
        fold_log([])


def test_nothing_of_an_entry_is_in_its_fault() -> None:
    with pytest.raises(LogError) as fault:
        SessionState("s").add("text.delta", {"turn_id": {"secret": 1}, "text": "hidden"}, AT)
    assert "secret" not in str(fault.value)
    assert "hidden" not in str(fault.value)


def test_queue_and_messages_sent_twice() -> None:
    state, _ = log_of(
        ("message.queued", {"message_id": "m", "message": {"message": "later"}}),
        ("turn.opened", {"turn": {"turn_id": "t", "role": "user"}, "client_message_id": "m"}),
    )
    assert state.queue == {"m": {"message": "later"}}
    state.add("message.taken", {"message_id": "m"}, AT)
    assert (state.queue, state.sent) == ({}, {"m": "t"})


def test_a_block_in_the_place_of_another() -> None:
    state, entries = log_of(
        opened(),
        (
            "block.added",
            {
                "turn_id": "t",
                "block": {"type": "plan_status", "content": {"status": "drafting"}, "x": 1},
            },
        ),
        (
            "block.added",
            {"turn_id": "t", "block": {"type": "plan_status", "content": None}, "block_index": 0},
        ),
    )
    mirror = ReferenceClient()
    for entry in entries:
        mirror.hear_raw(wired(to_stream_item(entry, state)))
    assert seen(mirror.branch()) == wired(to_builtins(state.branch()))
    assert [block.content for block in state.turn("t").blocks] == [None]
