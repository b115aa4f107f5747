"""Repeated readings of a session give only new events, with ids that are free."""

from typing import Any

from open_token.library.reread import EventTracker, has_new_reasoning
from open_token.model.document import Participant, Record

USER: Participant = {"actor_id": "act_001", "kind": "human", "name": "user"}
MODEL: Participant = {"actor_id": "act_002", "kind": "model", "name": "assistant"}


def said(text: str, actor: str = "act_001") -> dict[str, Any]:
    return {
        "type": "message",
        "role": "user",
        "actor_id": actor,
        "content": {"mime": "text/plain", "text": text},
    }


def fact(kind: str) -> dict[str, Any]:
    return {
        "type": "annotation",
        "actor_id": "act_001",
        "content": {"mime": "application/json", "data": {"kind": kind}},
    }


def use(call: str, tool: str = "ls", **more: str) -> dict[str, Any]:
    data = {"tool_name": tool, "arguments": {}}
    content = {"mime": "application/json", "data": data}
    return {
        "type": "tool_use",
        "role": "assistant",
        "actor_id": "act_001",
        "content": content,
        "links": {"call_id": call} | more,
    }


def result(call: str, output: Any) -> dict[str, Any]:
    content = {"mime": "application/json", "data": output}
    return {
        "type": "tool_result",
        "role": "tool",
        "actor_id": "act_001",
        "content": content,
        "links": {"call_id": call},
    }


def span(kind: str, name: str) -> dict[str, Any]:
    content = {"mime": "application/json", "data": {}}
    return {"type": kind, "actor_id": "act_001", "content": content, "links": {"span_id": name}}


def reading(*events: dict[str, Any], people: tuple[Participant, ...] = (USER,)) -> Record:
    made: Any = [
        {"id": f"evt_{number:06d}", "seq": 0, **event} for number, event in enumerate(events, 1)
    ]
    return Record({"id": "session"}, list(people), made, next_event_number=len(made) + 1)


def short(events: Any) -> list[tuple[str, Any]]:
    return [
        (event["id"][-1], event["content"].get("text") or event["content"].get("data"))
        for event in events
    ]


def test_only_what_is_new_is_reported() -> None:
    tracker = EventTracker()
    assert short(tracker.update(reading(said("one")))) == [("1", "one")]
    assert short(tracker.update(reading(said("one"), said("two")))) == [("2", "two")]
    assert short(tracker.update(reading(said("one"), said("two")), is_end=True)) == []


def test_what_changed_is_reported_at_the_end() -> None:
    tracker = EventTracker()
    tracker.update(reading(said("half")))
    assert short(tracker.update(reading(said("half and whole"), said("two")))) == [("2", "two")]
    (late,) = tracker.update(reading(said("half and whole"), said("two")), is_end=True)
    assert late["links"] == {"parent_id": "evt_000001"}
    assert late["content"]["data"]["content"]["text"] == "half and whole"


def test_what_moved_on_is_not_what_changed() -> None:
    tracker = EventTracker()
    tracker.update(reading(said("one"), fact("sum")))
    made = tracker.update(reading(said("one"), said("two"), fact("sum")), is_end=True)
    assert short(made) == [("4", "two")]


def test_the_same_words_twice_are_two_events() -> None:
    tracker = EventTracker()
    tracker.update(reading(said("yes")))
    assert short(tracker.update(reading(said("yes"), said("yes")))) == [("2", "yes")]


def test_a_call_keeps_its_name_when_others_come_before_it() -> None:
    tracker = EventTracker()
    tracker.update(reading(use("call_000001", "ls")))
    tracker.update(
        reading(
            use("call_000001", "first"), use("call_000002", "ls"), result("call_000002", "files")
        )
    )
    made = tracker.update(
        reading(
            use("call_000001", "first"), use("call_000002", "ls"), result("call_000002", "files")
        ),
        is_end=True,
    )
    assert [(event["type"], event["links"], event["content"]["data"]) for event in made] == [
        ("tool_result", {"call_id": "call_000002"}, {"missing_result": True})
    ]


def test_a_result_that_never_came_waits_for_the_end() -> None:
    tracker = EventTracker()
    missing = result("call_000001", {"missing_result": True})
    assert [event["type"] for event in tracker.update(reading(use("call_000001"), missing))] == [
        "tool_use"
    ]
    assert short(tracker.update(reading(use("call_000001"), result("call_000001", "done")))) == [
        ("2", "done")
    ]


def test_a_result_that_changed_is_reported_beside_the_first() -> None:
    tracker = EventTracker()
    tracker.update(reading(use("call_000001"), result("call_000001", "half")))
    made = tracker.update(
        reading(use("call_000001"), said("new"), result("call_000001", "whole")), is_end=True
    )
    assert [(event["type"], event.get("links")) for event in made] == [
        ("message", None),
        ("annotation", {"parent_id": "evt_000002"}),
    ]


def test_a_span_ends_when_all_of_it_is_reported() -> None:
    tracker = EventTracker()
    inside = said("inside") | {"links": {"span_id": "span_000001"}}
    more = said("more") | {"links": {"span_id": "span_000001"}}
    start, end = span("span_start", "span_000001"), span("span_end", "span_000001")
    assert [event["type"] for event in tracker.update(reading(start, inside, end))] == [
        "span_start",
        "message",
    ]
    made = tracker.update(reading(start, inside, more, end), is_end=True)
    assert [(event["type"], event["links"]) for event in made] == [
        ("message", {"span_id": "span_000001"}),
        ("span_end", {"span_id": "span_000001"}),
    ]


def test_people_keep_their_names() -> None:
    tracker = EventTracker()
    tracker.update(reading(said("one"), people=(USER,)))
    turned: tuple[Participant, ...] = (
        {**MODEL, "actor_id": "act_001"},
        {**USER, "actor_id": "act_002"},
    )
    made = tracker.update(
        reading(
            said("hi", "act_001"), said("one", "act_002"), said("two", "act_002"), people=turned
        )
    )
    assert [(event["content"]["text"], event["actor_id"]) for event in made] == [
        ("hi", "act_002"),
        ("two", "act_001"),
    ]
    assert tracker.participants == [USER, MODEL]


def test_thoughts_that_were_left_out() -> None:
    one, two, thought = said("one"), said("two"), {**said("hm"), "role": "assistant_thought"}
    assert has_new_reasoning([one, two], [one, thought, two])  # type: ignore[list-item]
    assert not has_new_reasoning([one, two], [one, two, thought])  # type: ignore[list-item]
    assert not has_new_reasoning([one, thought, two], [one, thought, thought, two])  # type: ignore[list-item]
    assert not has_new_reasoning([], [thought])  # type: ignore[list-item]
