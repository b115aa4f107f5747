"""Draft keeps numbering, pairing, spans and notes right, for any calls of a reader."""

import weakref
from typing import Any

import pytest

from open_token.builder.draft import Draft
from open_token.model.document import Event, Record
from readers.provider_readers import tokens


def finish(draft: Draft) -> tuple[Record, list[Event]]:
    record = draft.finish(lambda: "0123456789abcdef", "20260131")
    return record, list(record.events)


@pytest.fixture
def draft() -> Draft:
    return Draft()


def types(events: list[Event]) -> list[str]:
    return [event["type"] for event in events]


@pytest.mark.spec("one-participant-each")
def test_participants_are_entered_once(draft: Draft) -> None:
    assert draft.get_actor("human", "user") == draft.get_actor("human", "user") == "act_001"
    assert (
        draft.get_actor("model", "assistant", provider="anthropic", model="m", instance_id="i")
        == "act_002"
    )
    assert draft.participants[1] == {
        "actor_id": "act_002",
        "kind": "model",
        "name": "assistant",
        "provider": "anthropic",
        "model": "m",
        "instance_id": "i",
    }


def test_a_finished_draft_lets_go_of_its_events(draft: Draft) -> None:
    draft.add_message("user", "hi", draft.get_actor("human", "user"))
    spool = weakref.ref(draft.spool)
    record, events = finish(draft)
    assert len(events) == draft.count == 1
    del record
    assert spool() is None


def test_messages(draft: Draft) -> None:
    user = draft.get_actor("human", "user")
    draft.add_message("system", "be good", draft.get_actor("system", "system"))
    draft.add_message("user", "hi", user, ts="2026-01-31T00:00:00Z")
    draft.add_message("user", [{"type": "text", "text": "a"}], user)
    _, events = finish(draft)
    assert [event["visibility"] for event in events] == ["internal", "public", "public"]
    assert events[1]["content"] == {"mime": "text/plain", "text": "hi"}
    assert events[2]["content"]["mime"] == "application/json"
    assert list(events[1]) == [
        "id",
        "seq",
        "ts",
        "type",
        "actor_id",
        "visibility",
        "role",
        "content",
    ]


def test_reasoning_sets_the_internal_availability(draft: Draft) -> None:
    model = draft.get_actor("model", "assistant")
    draft.add_reasoning("hm", model)
    draft.add_reasoning(None, model)
    draft.add_reasoning("short", model, summary=True)
    record, events = finish(draft)
    assert record.conversation["internal_availability"] == "available"
    assert events[1]["content"] == {
        "mime": "application/json",
        "data": {"redacted": True, "encrypted": True},
    }
    assert events[2]["content"] == {
        "mime": "text/plain",
        "text": "short",
        "data": {"summary": "runtime"},
    }


@pytest.mark.parametrize("word", ["unavailable", "unknown"])
def test_no_thought(word: str) -> None:
    draft = Draft(without_thoughts=word)
    draft.add_message("user", "hi", draft.get_actor("human", "user"))
    assert finish(draft)[0].conversation["internal_availability"] == word


def test_a_call_and_its_result(draft: Draft) -> None:
    model = draft.get_actor("model", "assistant")
    draft.add_tool_call("toolu_1", "Bash", {"command": "ls"}, model)
    draft.add_tool_result("toolu_1", "a\nb", facts={"exit_code": 0})
    _, events = finish(draft)
    assert types(events) == ["tool_use", "tool_result", "annotation"]
    assert events[0]["content"]["data"] == {
        "tool_name": "Bash",
        "arguments": {"command": "ls"},
        "native_call_id": "toolu_1",
    }
    assert events[0]["links"]["call_id"] == events[1]["links"]["call_id"] == "call_000001"
    assert events[1]["content"] == {"mime": "text/plain", "text": "a\nb"}
    assert events[2]["content"]["data"] == {"kind": "result_facts", "exit_code": 0}
    assert events[2]["links"] == {"parent_id": events[1]["id"]}
    assert draft.participants[-1]["kind"] == "tool"


@pytest.mark.parametrize(("given", "raw"), [("not json", "not json"), (7, "7"), (None, "null")])
def test_arguments_that_are_no_object_are_raw(draft: Draft, given: Any, raw: str) -> None:
    draft.add_tool_call("t", "x", given, draft.get_actor("model", "assistant"))
    assert finish(draft)[1][0]["content"]["data"]["arguments"] == {"raw": raw}


@pytest.mark.spec("missing-result")
def test_a_missing_result_stands_behind_the_tool_events_of_its_message(draft: Draft) -> None:
    model = draft.get_actor("model", "assistant")
    draft.add_tool_call("t1", "a", {}, model, group="m1")
    draft.add_tool_call("t2", "b", {}, model, group="m1")
    draft.add_tool_result("t2", "out")
    draft.add_message("assistant", "done", model)
    record, events = finish(draft)
    assert types(events) == ["tool_use", "tool_use", "tool_result", "tool_result", "message"]
    assert events[3]["content"]["data"] == {"missing_result": True}
    assert events[3]["links"]["call_id"] == "call_000001"
    assert [event["id"] for event in events] == [
        "evt_000001",
        "evt_000002",
        "evt_000003",
        "evt_000005",
        "evt_000004",
    ]
    assert record.next_event_number == 6


@pytest.mark.spec("shared-call-id")
def test_a_result_that_comes_much_later_still_pairs(draft: Draft) -> None:
    model = draft.get_actor("model", "assistant")
    draft.add_tool_call("t1", "a", {}, model)
    draft.add_message("assistant", "meanwhile", model)
    draft.add_tool_result("t1", {"n": 1})
    _, events = finish(draft)
    assert types(events) == ["tool_use", "message", "tool_result"]
    assert events[2]["content"] == {"mime": "application/json", "data": {"n": 1}}


def test_an_orphan_result_says_so(draft: Draft) -> None:
    draft.add_tool_result("gone", "out")
    _, events = finish(draft)
    assert types(events) == ["tool_result", "annotation"]
    assert events[1]["content"]["data"]["kind"] == "orphan_result"
    assert events[1]["links"]["parent_id"] == events[0]["id"]


@pytest.mark.spec("tool-pairing")
def test_a_second_result_is_an_annotation(draft: Draft) -> None:
    draft.add_tool_call("t", "a", {}, draft.get_actor("model", "assistant"))
    draft.add_tool_result("t", "one")
    draft.add_tool_result("t", "two")
    _, events = finish(draft)
    assert types(events) == ["tool_use", "tool_result", "annotation"]
    assert events[2]["content"]["data"] == {
        "kind": "repeated_result",
        "call_id": "call_000001",
        "output": "two",
    }


def test_the_same_open_call_reported_twice_is_noted(draft: Draft) -> None:
    model = draft.get_actor("model", "assistant")
    draft.add_tool_call("t", "a", {}, model)
    draft.add_tool_call("t", "a", {}, model)
    record, events = finish(draft)
    assert types(events) == ["tool_use", "tool_result"]
    assert [note.code for note in record.notes] == ["duplicate-call"]


@pytest.mark.spec("span-end")
def test_spans_are_closed(draft: Draft) -> None:
    main, sub = (
        draft.get_actor("model", "assistant"),
        draft.get_actor("model", "explorer", instance_id="a1"),
    )
    call = draft.add_tool_call("task", "Task", {}, main)
    span = draft.start_span({"spawn_reason": "look"}, sub, call=call)
    draft.add_message("assistant", "found", sub, span=span)
    draft.end_span(span, call=call)
    other = draft.start_span({}, sub)
    _, events = finish(draft)
    assert types(events) == [
        "tool_use",
        "span_start",
        "message",
        "span_end",
        "tool_result",
        "span_start",
        "span_end",
    ]
    assert events[1]["links"] == {"call_id": "call_000001", "span_id": "span_000001"}
    assert events[-1]["links"]["span_id"] == other == "span_000002"


def test_usage_may_come_late() -> None:
    draft = Draft()
    event = draft.add_message("assistant", "hi", draft.get_actor("model", "assistant"))
    draft.set_usage(event, {"output_tokens": 1})
    draft.set_usage(event, {"output_tokens": 9})
    assert finish(draft)[1][0]["usage"] == tokens(output_tokens=9)


@pytest.mark.spec("complete-output")
def test_notes_are_counted_with_their_first_place(draft: Draft) -> None:
    for line in (3, 9):
        draft.note_omission("skipped-record", f"line {line}", "type progress")
    draft.add_message("user", "hi", draft.get_actor("human", "user"))
    note = finish(draft)[0].notes[0]
    assert (note.code, note.place, note.detail, note.count) == (
        "skipped-record",
        "line 3",
        "type progress",
        2,
    )


@pytest.mark.parametrize("branches", ["active", "all"])
def test_abandoned_branches(branches: str) -> None:
    draft = Draft(branches=branches)
    user, model = draft.get_actor("human", "user"), draft.get_actor("model", "assistant")
    draft.add_message("user", "one", user)
    draft.add_tool_call("t", "a", {}, model)
    draft.add_message("user", "two", user)
    draft.drop_branch(0, 2, {"kind": "branch"}, user)
    _, events = finish(draft)
    if branches == "active":
        assert [event["content"].get("text") for event in events] == ["two"]
    else:
        assert types(events) == [
            "span_start",
            "message",
            "tool_use",
            "tool_result",
            "span_end",
            "message",
        ]
        assert {event["links"]["span_id"] for event in events[:3]} == {"span_000001"}


def test_big_integers_are_coerced_and_reported(draft: Draft) -> None:
    draft.add_tool_call("t", "a", {"n": 2**60}, draft.get_actor("model", "assistant"))
    record, events = finish(draft)
    assert events[0]["content"]["data"]["arguments"] == {"n": str(2**60)}
    assert record.coercions == [
        {"id": "evt_000001", "ptr": "/content/data/arguments/n", "was": "integer"}
    ]


@pytest.mark.spec("conversation-id")
def test_ids_of_the_conversation(draft: Draft) -> None:
    draft.add_message("user", "hi", draft.get_actor("human", "user"))
    assert finish(draft)[0].conversation["id"] == "conv_20260131_01234567"


@pytest.mark.spec("generated-id")
def test_the_day_of_a_made_id_is_that_of_the_first_timestamp(draft: Draft) -> None:
    draft.add_message("user", "hi", draft.get_actor("human", "user"), ts="2025-05-05T05:05:05Z")
    assert finish(draft)[0].conversation["id"].startswith("conv_20250505_")


@pytest.mark.parametrize("branches", ["active", "all"])
def test_a_branch_that_is_left_out_is_noted(branches: str) -> None:
    draft = Draft(branches=branches)
    user = draft.get_actor("human", "user")
    for text in ("one", "two", "three"):
        draft.add_message("user", text, user)
    draft.drop_branch(1, 2, {"kind": "abandoned_branch"}, user)
    draft.drop_branch(3, 3, {"kind": "abandoned_branch"}, user)
    result = [(note.code, note.place, note.count) for note in draft.notes]
    assert result == ([("abandoned-branch", "event 2", 1)] if branches == "active" else [])
