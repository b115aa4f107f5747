"""Hidden reasoning: left out, a placeholder, a summary, or its words; and nothing else is
touched."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_token.builder.draft import Draft
from open_token.context import Context, Policy
from open_token.model.document import Event, Record
from open_token.options import ExportOptions
from open_token.passes import select
from readers.provider_readers import tokens

WORDS = "First I look. Then I think about it."
PLACEHOLDER = {"mime": "application/json", "data": {"redacted": True}}


def made() -> Record:
    draft = Draft()
    system, person, model = (
        draft.get_actor(kind, name)
        for kind, name in (("system", "system"), ("human", "user"), ("model", "m"))
    )
    draft.add_message("system", "be good", system)
    draft.add_message("user", "hi", person)
    draft.add_reasoning(WORDS, model)
    draft.add_reasoning("the gist", model, summary=True)
    draft.add_reasoning(None, model)
    draft.add_reasoning("counted", model, usage={"output_tokens": 7})
    draft.add_tool_call("a", "ls", {}, model)
    draft.add_tool_result("a", "x", facts={"exit_code": 0})
    draft.add_message("assistant", "done", model)
    return draft.finish(lambda: "0" * 64)


def run(record: Record, policy: Policy | None = None, **words: str) -> list[Event]:
    return list(select(record, Context(ExportOptions.of(words), policy=policy or Policy())).events)


def thoughts(events: list[Event]) -> list[Any]:
    return [event["content"] for event in events if event.get("role") == "assistant_thought"]


@pytest.mark.spec("tools-always-exported")
def test_only_thoughts_are_left_out() -> None:
    events = run(made())
    assert thoughts(events) == []
    assert [event["type"] for event in events] == [
        "message",
        "message",
        "annotation",
        "tool_use",
        "tool_result",
        "annotation",
        "message",
    ]
    assert [event["id"] for event in events][:3] == ["evt_000001", "evt_000002", "evt_000006"]


def test_the_tokens_of_a_thought_left_out_stay() -> None:
    kept = next(event for event in run(made()) if event["id"] == "evt_000006")
    assert kept["usage"] == tokens(output_tokens=7)
    assert kept["content"] == {"mime": "application/json", "data": {"kind": "usage"}}
    assert kept["visibility"] == "metadata"
    assert "role" not in kept


@pytest.mark.spec("internal-redacted")
def test_placeholders_hold_no_word() -> None:
    found = thoughts(run(made(), include="include-internal"))
    sealed = {"mime": "application/json", "data": {"redacted": True, "encrypted": True}}
    assert found == [PLACEHOLDER, PLACEHOLDER, sealed, PLACEHOLDER]


@pytest.mark.spec("internal-summary")
def test_summaries_are_the_runtimes_or_the_first_sentence() -> None:
    found = thoughts(run(made(), include="include-internal", internal="summary"))
    assert found[0] == {
        "mime": "text/plain",
        "text": "First I look.",
        "data": {"summary": "extract"},
    }
    assert found[1] == {"mime": "text/plain", "text": "the gist", "data": {"summary": "runtime"}}
    assert found[2]["data"]["encrypted"] is True
    assert found[3]["text"] == "counted"


@pytest.mark.spec("internal-full")
def test_full_is_every_word() -> None:
    found = thoughts(run(made(), include="include-internal", internal="full"))
    assert found[0] == {"mime": "text/plain", "text": WORDS}


@pytest.mark.spec("internal-full-policy")
def test_the_policy_can_forbid_full() -> None:
    found = thoughts(
        run(made(), Policy(forbid_internal_full=True), include="include-internal", internal="full")
    )
    assert found[0]["text"] == "First I look."


def test_internal_alone_lets_nothing_in() -> None:
    assert thoughts(run(made(), internal="full")) == []


@pytest.mark.parametrize(
    ("text", "extract"),
    [
        ("One. Two.", "One."),
        ("  Is v1.2 out? Yes.", "Is v1.2 out?"),
        ("no end at all", "no end at all"),
        ("a line\nand more! Then", "a line\nand more!"),
        ("まず見る。次に考える。", "まず見る。"),
        ("x" * 1000, "x" * 280),
        ("x" * 300 + ". end", "x" * 280),
    ],
)
def test_the_first_sentence(text: str, extract: str) -> None:
    draft = Draft()
    draft.add_reasoning(text, draft.get_actor("model", "m"))
    record = draft.finish(lambda: "0" * 64)
    (content,) = thoughts(run(record, include="include-internal", internal="summary"))
    assert content["text"] == extract


@pytest.mark.parametrize("empty", ["", "  \n"])
def test_an_empty_thought_has_no_summary(empty: str) -> None:
    draft = Draft()
    draft.add_reasoning(empty, draft.get_actor("model", "m"))
    record = draft.finish(lambda: "0" * 64)
    assert thoughts(run(record, include="include-internal", internal="summary")) == [PLACEHOLDER]


@given(
    st.lists(st.none() | st.text(max_size=600), max_size=6),
    st.sampled_from(["visible-only", "include-internal"]),
    st.sampled_from(["redacted", "summary", "full"]),
)
def test_a_second_time_changes_nothing(
    texts: list[str | None], include: str, internal: str
) -> None:
    draft = Draft()
    model = draft.get_actor("model", "m")
    for text in texts:
        draft.add_reasoning(text, model, usage={"output_tokens": 1} if text == "" else None)
    context = Context(ExportOptions.of({"include": include, "internal": internal}))
    once = select(draft.finish(lambda: "0" * 64), context)
    assert list(select(once, context).events) == list(once.events)


def test_the_source_is_not_changed() -> None:
    record = made()
    before = [dict(event) for event in record.events]
    run(record, include="include-internal")
    assert [dict(event) for event in record.events] == before
