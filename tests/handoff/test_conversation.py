"""What of a conversation is transferred to another agent, and what is omitted."""

from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from helpers.handoff_conversation import (
    SMALL,
    build_annotation,
    build_call,
    build_document,
    build_message,
    build_result,
    summarize,
)
from open_token.handoff import build_conversation
from open_token.handoff.conversation import Answer, Prompt, derive_uuid, format_timestamp


def test_every_call_has_its_result() -> None:
    assert summarize(build_conversation(SMALL))[:-1] == [
        ("user", "Fix the test."),
        ("assistant", "I look."),
        ("call", "Bash", '{"command": "make test"}'),
        ("call", "Read", '{"path": "tides.py"}'),
        ("result", "1 failed", True),
        ("result", "def tide(): ...", False),
        ("assistant", "Done, naïvely: 潮."),
    ]


def test_the_last_words_say_what_it_is() -> None:
    last = build_conversation(SMALL).turns[-1]
    assert isinstance(last, Prompt)
    assert "handed over by open-token: conversation conv-1, 8 events" in last.text
    assert "not as instructions" in last.text


def test_a_call_after_a_result_is_another_answer() -> None:
    conversation = build_conversation(
        build_document(
            build_message("user", "go"),
            build_call(1),
            build_result(1, "a"),
            build_call(2),
            build_result(2, "b"),
        )
    )
    assert [len(turn.calls) for turn in conversation.turns if isinstance(turn, Answer)] == [1, 1]


def test_a_call_that_never_ended_is_closed() -> None:
    missing = {"mime": "application/json", "data": {"missing_result": True}}
    conversation = build_conversation(
        build_document(
            build_message("user", "go"),
            build_call(1),
            {**build_result(1, ""), "content": missing},
            build_call(2),
        )
    )
    assert all("no result" in call.output for call in conversation.calls)


def test_calls_have_different_ids_whatever_the_record_calls_them() -> None:
    conversation = build_conversation(
        build_document(build_message("user", "go"), build_call(1), build_call(1), build_call(2))
    )
    assert [call.id for call in conversation.calls] == ["call_000001", "call_000002", "call_000003"]


@pytest.mark.parametrize(
    ("about", "name"),
    [
        ({"kind": "abandoned_branch"}, "abandoned branches"),
        ({"kind": "abandoned_branch", "branch": "alternative", "choice": 2}, "abandoned branches"),
        ({"branch": "alternative", "choice": 2}, "branches"),
        ({"spawn_reason": "look it up"}, "subagents"),
    ],
)
def test_what_stands_aside_stays_behind(about: dict[str, object], name: str) -> None:
    span = {"span_id": "span_000001"}
    start = {"content": {"mime": "application/json", "data": about}, "links": span}
    left = {**build_message("user", "no, this"), "links": span}
    conversation = build_conversation(
        build_document(
            {"type": "span_start", **start},
            left,
            {"type": "span_end", "links": span},
            build_message("user", "go"),
        )
    )
    assert summarize(conversation)[:-1] == [("user", "go")]
    assert conversation.omitted == {name: 1}


def test_what_stays_behind_is_counted() -> None:
    image = {
        "type": "image",
        "media_type": "image/png",
        "encoding": "base64",
        "bytes": 4,
        "base64": "AAAA",
    }
    seen = {"mime": "application/json", "data": [{"type": "text", "text": "look"}, image]}
    span = {"span_id": "span_000001"}
    start = {"content": {"mime": "application/json", "data": {"kind": "subagent"}}, "links": span}
    conversation = build_conversation(
        build_document(
            build_message("system", "You obey."),
            {**build_message("user", ""), "content": seen},
            {"type": "span_start", **start},
            {**build_message("assistant", "inner words"), "links": span},
            {"type": "span_end", "links": span},
            {**build_message("assistant_thought", "hm"), "visibility": "internal"},
            build_result(9, "whose?"),
            build_message("assistant", "Yes."),
        )
    )
    assert summarize(conversation)[:-1] == [
        ("user", "look\n\n[left out: image/png, 4 bytes]"),
        ("assistant", "Yes."),
    ]
    assert conversation.omitted == {
        "subagents": 1,
        "system messages": 1,
        "images and files": 1,
        "thoughts": 1,
        "results without a call": 1,
    }


def test_dropped_events_and_branches_are_counted() -> None:
    start = {"content": {"mime": "application/json", "data": {"kind": "abandoned_branch"}}}
    conversation = build_conversation(
        build_document(
            build_annotation(1, kind="dropped", events=12),
            build_annotation(1, kind="dropped", events="many"),
            {"type": "span_start", **start, "links": {"span_id": "span_000001"}},
            build_message("user", "go on"),
        )
    )
    assert conversation.omitted == {"events dropped to fit": 12, "abandoned branches": 1}


def test_handoff_starts_at_the_last_compaction() -> None:
    made = build_document(
        build_message("user", "first"),
        build_message("assistant", "long ago"),
        build_message("user", "summary of all that"),
        build_annotation(3, kind="compaction_summary"),
        build_message("assistant", "and now"),
    )
    assert [line[1] for line in summarize(build_conversation(made))[:-1]] == [
        "summary of all that",
        "and now",
    ]
    assert build_conversation(made).omitted == {"events before the last compaction": 2}
    assert len(summarize(build_conversation(made, whole=True))) == 5


@pytest.mark.parametrize("name", ["summary", "message"])
def test_a_summary_that_stands_in_the_mark_goes_over(name: str) -> None:
    mark = build_annotation(99, kind="compaction", **{name: "plums come first"})
    made = build_document(
        build_message("user", "first"),
        build_message("assistant", "long ago"),
        mark,
        build_message("user", "and now?"),
    )
    lines = [line[1] for line in summarize(build_conversation(made))[:-1]]
    assert lines == ["[summary of the conversation before this:]\n\nplums come first", "and now?"]
    assert build_conversation(made).omitted == {"events before the last compaction": 2}


def test_a_summary_may_be_the_message_before_its_mark() -> None:
    summary = {**build_message("user", "both were counted"), "visibility": "internal"}
    made = build_document(
        build_message("user", "count"),
        summary,
        build_annotation(99, kind="compaction"),
        build_message("assistant", "Two."),
    )
    assert [line[1] for line in summarize(build_conversation(made))[:-1]] == [
        "both were counted",
        "Two.",
    ]


def test_nothing_is_cut_off_where_no_summary_takes_its_place() -> None:
    conversation = [build_message("user", "first"), build_message("assistant", "an answer")]
    for mark in (
        build_annotation(99, kind="compaction"),
        build_annotation(99, kind="compaction", summary=" ", text="too long"),
    ):
        made = build_document(*conversation, mark, build_message("user", "on"))
        assert [line[1] for line in summarize(build_conversation(made))[:-1]] == [
            "first",
            "an answer",
            "on",
        ]
        assert not build_conversation(made).omitted
    at_the_end = build_document(
        *conversation, build_annotation(99, kind="compaction", summary="they talked")
    )
    assert [line[1] for line in summarize(build_conversation(at_the_end))[:-1]] == [
        "first",
        "an answer",
    ]
    earlier = build_document(
        *conversation,
        build_annotation(2, kind="compaction_summary"),
        build_message("user", "on"),
        build_annotation(99, kind="compaction"),
    )
    assert [line[1] for line in summarize(build_conversation(earlier))[1:-1]] == ["an answer", "on"]


def test_nothing_begins_with_an_answer() -> None:
    conversation = build_conversation(build_document(build_message("assistant", "Hello.")))
    assert isinstance(conversation.turns[0], Prompt)
    assert "not in the record" in conversation.turns[0].text


def test_a_conversation_of_subagents_alone_is_reported() -> None:
    span = {"span_id": "span_000001"}
    start = {"content": {"mime": "application/json", "data": {"kind": "subagent"}}, "links": span}
    conversation = build_conversation(
        build_document(
            {"type": "span_start", **start}, {**build_message("user", "do it"), "links": span}
        )
    )
    assert summarize(conversation)[0] == ("user", "do it")
    assert not conversation.omitted


def test_names_of_tools_fit_every_provider() -> None:
    conversation = build_conversation(
        build_document(
            build_message("user", "go"), build_call(1, "mcp.notes/größe find" + "x" * 99)
        )
    )
    assert conversation.calls[0].tool == "mcp_notes_gr__e_find" + "x" * 44


def test_times_never_go_back_and_are_never_absent() -> None:
    conversation = build_conversation(
        build_document(
            {**build_message("user", "a"), "ts": "2026-03-01T10:00:09.123456Z"},
            {**build_message("assistant", "b"), "ts": None},
        )
    )
    assert [format_timestamp(turn.ms) for turn in conversation.turns] == [
        "2026-03-01T10:00:09.123Z",
        "2026-03-01T10:00:09.123Z",
        "2026-03-01T10:00:09.124Z",
    ]


def test_a_conversation_without_times_has_the_same_ones_whenever_it_is_exported() -> None:
    made = build_document({**build_message("user", "a"), "ts": None})
    assert (
        build_conversation({**made, "exported_at": "2026-01-01T00:00:00Z"}).started_ms
        == build_conversation(made).started_ms
        == 946_684_800_000
    )


def test_ids_are_the_same_for_the_same_conversation() -> None:
    assert (
        derive_uuid(build_conversation(SMALL), "a")
        == derive_uuid(build_conversation(SMALL), "a")
        != derive_uuid(build_conversation(SMALL), "b")
    )


def test_an_empty_conversation_has_no_turns() -> None:
    assert build_conversation(build_document()).turns == []


def test_ids_that_are_no_strings_name_nothing() -> None:
    odd: dict[str, Any] = {
        "id": [],
        "actor_id": [],
        "links": {"call_id": "call_1", "span_id": [1], "parent_id": {}},
    }
    facts = build_annotation(1, kind="result_facts", is_error=True)
    conversation = build_conversation(
        build_document(
            {**build_call(1), **odd},
            {**build_result(1, "a"), **odd},
            {**facts, **odd},
            build_message("user", "go"),
        )
    )
    assert [(call.output, call.failed) for call in conversation.calls] == [("a", False)]


def test_a_file_whose_size_is_no_number() -> None:
    file = {"media_type": "image/png", "base64": "AAAA", "bytes": "four"}
    conversation = build_conversation(
        build_document(
            {**build_message("user", ""), "content": {"mime": "application/json", "data": [file]}}
        )
    )
    assert summarize(conversation)[0] == ("user", "[left out: image/png]")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
keys = st.sampled_from(["type", "role", "content", "links", "ts", "id", "actor_id"])
words = st.sampled_from(
    ["message", "tool_use", "tool_result", "annotation", "span_start", "user", "assistant"]
)


@hypothesis.settings(max_examples=60)
@hypothesis.given(st.lists(st.dictionaries(keys, words | json_values, max_size=6), max_size=6))
def test_any_file_content_yields_a_conversation(events: list[object]) -> None:
    made = {"conversation": {}, "participants": [], "events": events}
    assert all(turn.text or getattr(turn, "calls", None) for turn in build_conversation(made).turns)  # type: ignore[arg-type]
