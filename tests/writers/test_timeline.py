"""The order of items: calls with their results, subagents inside their calls."""

from typing import Any

from helpers.handoff_conversation import (
    build_annotation,
    build_call,
    build_document,
    build_message,
    build_result,
)
from open_token.writers.timeline import Item, Timeline, TimelineIndex


def story(*events: Any) -> list[Item]:
    listed = build_document(*events)["events"]
    known = TimelineIndex()
    for event in listed:
        known.add(event)
    return list(Timeline(known).iter_items(listed))


def span(kind: str, number: int, call: int = 0, within: int = 0) -> dict[str, Any]:
    links = {"span_id": f"span_{number}"} | ({"call_id": f"call_{call:06d}"} if call else {})
    return {"type": kind, "content": {"data": {"kind": "subagent"}}, "links": links}


def inside(number: int, event: dict[str, Any]) -> dict[str, Any]:
    return {**event, "links": {**event.get("links", {}), "span_id": f"span_{number}"}}


def test_parallel_calls_keep_their_order_and_get_their_results() -> None:
    output = story(
        build_call(1),
        build_call(2),
        build_result(2, "b"),
        build_result(1, "a"),
        build_annotation(4, kind="result_facts", exit_code=1),
    )
    assert [(item.kind, item.result and item.result["content"]["text"]) for item in output] == [
        ("call", "a"),
        ("call", "b"),
    ]
    assert output[0].facts == {"exit_code": 1}


def test_call_without_result_does_not_hold_the_story_up() -> None:
    output = story(
        build_call(1), build_message("assistant", "on"), build_call(2), build_result(2, "b")
    )
    assert [item.kind for item in output] == ["call", "say", "call"]
    assert output[0].result is None


def test_interleaved_subagents_stand_in_their_calls() -> None:
    output = story(
        build_call(1, "Task"), build_call(2, "Task"), span("span_start", 1, 1), span("span_start", 2, 2),
        inside(1, build_message("user", "first")), inside(2, build_message("user", "second")), inside(1, build_message("assistant", "done 1")),
        span("span_end", 1), span("span_end", 2), build_result(1, "a"), build_result(2, "b"), build_message("assistant", "end"),
    )  # fmt: skip
    assert [(item.kind, len(item.children)) for item in output] == [
        ("call", 2),
        ("call", 1),
        ("say", 0),
    ]


def test_span_without_call_and_result_without_call_stand_alone() -> None:
    output = story(
        span("span_start", 1),
        inside(1, build_message("user", "x")),
        span("span_end", 1),
        build_result(9, "orphan"),
    )
    assert [(item.kind, len(item.children)) for item in output] == [("span", 1), ("result", 0)]


def test_broken_spans_lose_nothing() -> None:
    output = story(
        span("span_end", 7),
        span("span_start", 1),
        inside(1, build_message("user", "x")),
        build_message("assistant", "y"),
    )
    assert [item.kind for item in output] == ["note", "span", "say"]


def test_what_the_runtime_says_in_the_place_of_the_user_is_no_prompt() -> None:
    output = story(
        {**build_message("user", "reminder"), "visibility": "internal"},
        build_message("user", "hello"),
        build_message("developer", "x"),
    )
    assert [item.kind for item in output] == ["system", "prompt", "system"]
    assert story(build_annotation(1, kind="cost"))[0].is_machine_note


def handed_over(*events: Any) -> list[tuple[str, int, bool]]:
    """Each item as it was in the moment it was yielded: how much stood in it, whether it had a
    result."""
    listed = build_document(*events)["events"]
    known = TimelineIndex()
    for event in listed:
        known.add(event)
    return [
        (item.kind, len(item.children), item.result is not None)
        for item in Timeline(known).iter_items(listed)
    ]


def test_span_without_an_end_waits_for_its_last_event() -> None:
    output = handed_over(
        span("span_start", 1), inside(1, build_message("user", "x")), build_message("assistant", "on"), inside(1, build_message("assistant", "y")),
        build_message("assistant", "end"),
    )  # fmt: skip
    assert output == [("span", 2, False), ("say", 0, False), ("say", 0, False)]


def test_an_event_after_its_item_was_emitted_is_a_separate_item() -> None:
    output = handed_over(
        build_call(1, "Task"), span("span_start", 1, 1), inside(1, build_call(2)), span("span_end", 1), build_result(1, "done"),
        build_message("assistant", "on"), inside(1, build_result(2, "late")),
    )  # fmt: skip
    assert output == [("call", 1, True), ("say", 0, False), ("result", 0, True)]


def test_facts_of_what_is_no_result_stay_a_note() -> None:
    output = story(
        build_message("user", "x"),
        build_annotation(1, kind="result_facts", exit_code=7),
        build_message("assistant", "end"),
    )
    assert [item.kind for item in output] == ["prompt", "note", "say"]
