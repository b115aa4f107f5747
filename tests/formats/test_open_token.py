"""Exports are read again: documents and all three line shapes, with what is missing filled in and
what is odd noted."""

import contextlib
import copy
import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import open_token
from open_token.context import Context
from open_token.errors import InputError, OpenTokenError
from open_token.model.document import Record
from open_token.model.omissions import Note
from open_token.options import ExportOptions
from open_token.pipeline import export, read_record
from open_token.sources.source import Source

Json = dict[str, Any]

EVENTS: list[Json] = [
    {
        "id": "evt_000001",
        "seq": 1,
        "ts": "2026-01-31T10:00:00Z",
        "type": "message",
        "actor_id": "act_001",
        "visibility": "public",
        "role": "user",
        "content": {"mime": "text/plain", "text": "hi"},
    },
    {
        "id": "evt_000002",
        "seq": 2,
        "type": "tool_use",
        "actor_id": "act_002",
        "visibility": "internal",
        "role": "assistant",
        "content": {"mime": "application/json", "data": {"tool_name": "ls", "arguments": {}}},
        "links": {"call_id": "call_000001"},
    },
    {
        "id": "evt_000003",
        "seq": 3,
        "type": "tool_result",
        "actor_id": "act_003",
        "visibility": "internal",
        "role": "tool",
        "content": {"mime": "text/plain", "text": "a b"},
        "links": {"call_id": "call_000001"},
    },
]
PEOPLE = [
    {"actor_id": "act_001", "kind": "human", "name": "user"},
    {"actor_id": "act_002", "kind": "model", "name": "m"},
    {"actor_id": "act_003", "kind": "tool", "name": "ls"},
]
DOCUMENT: Json = {
    "open_token_version": "0.1",
    "exported_at": "2026-01-31T12:00:00Z",
    "conversation": {"id": "conv_1", "provider": "openai"},
    "participants": PEOPLE,
    "events": EVENTS,
}
HEADER: Json = {
    "type": "header",
    **{name: value for name, value in DOCUMENT.items() if name != "events"},
}
FOOTER: Json = {"type": "footer"}


def flat(event: Json) -> Json:
    return {
        "type": "event",
        "event_type": event["type"],
        **{k: v for k, v in event.items() if k != "type"},
    }


def nested(event: Json) -> Json:
    return {"type": "event", "event": event}


def spread(event: Json) -> Json:
    return event


def record_of(*values: Any, now: str | None = None) -> Record:
    data = b"".join(json.dumps(value).encode() + b"\n" for value in values)
    return read_record(
        Source("session", data=data), Context(ExportOptions.of({}), now=now), "open_token"
    )


def list_note_codes(record: Record) -> list[str]:
    return [note.code for note in record.notes]


def changed(**changes: Any) -> Json:
    return copy.deepcopy(DOCUMENT) | changes


def with_event(**changes: Any) -> Json:
    document = copy.deepcopy(DOCUMENT)
    document["events"][1] |= changes
    return document


def test_a_document_is_taken_over_as_it_is() -> None:
    record = record_of(DOCUMENT)
    assert list(record.events) == EVENTS
    assert record.conversation == DOCUMENT["conversation"]
    assert record.participants == PEOPLE
    assert record.exported_at == DOCUMENT["exported_at"]
    assert record.is_export
    assert record.notes == []
    assert record.next_event_number == 4


@pytest.mark.parametrize("shape", [flat, nested, spread])
def test_all_line_shapes_are_the_same_document(shape: Callable[[Json], Json]) -> None:
    record = record_of(HEADER, *map(shape, EVENTS), FOOTER)
    assert list(record.events) == EVENTS
    assert record.conversation == DOCUMENT["conversation"]
    assert record.participants == PEOPLE
    assert record.notes == []


def test_line_shapes_may_be_mixed() -> None:
    record = record_of(HEADER, flat(EVENTS[0]), nested(EVENTS[1]), spread(EVENTS[2]), FOOTER)
    assert list(record.events) == EVENTS


def test_a_stream_without_footer_is_incomplete() -> None:
    assert list_note_codes(record_of(HEADER, *map(flat, EVENTS))) == ["incomplete-stream"]


@pytest.mark.parametrize("mode", ["json", "ndjson"])
def test_an_export_that_was_changed_is_reported(mode: str) -> None:
    made = io.BytesIO()
    options = ExportOptions.of({"mode": mode, "integrity": "hash"})
    export(Source("session.json", data=json.dumps(DOCUMENT).encode()), made, Context(options))
    assert (
        list_note_codes(
            read_record(
                Source("session.json", data=made.getvalue()), Context(options), "open_token"
            )
        )
        == []
    )
    other = made.getvalue().replace(b"evt_000002", b"evt_000009")
    assert list_note_codes(
        read_record(Source("session.json", data=other), Context(options), "open_token")
    ) == ["changed-export"]


def test_a_hash_of_another_kind_is_not_judged() -> None:
    assert (
        list_note_codes(
            record_of(changed(integrity={"hash_alg": "sha512", "events_hash": "0" * 128}))
        )
        == []
    )


def test_a_header_as_the_spec_shows_it_is_filled_in() -> None:
    header = {"type": "header", "open_token_version": "0.1", "exported_at": "2026-02-01T00:00:00Z"}
    record = record_of(header, *map(flat, EVENTS), FOOTER, now="2026-03-01T00:00:00Z")
    assert record.conversation["id"].startswith("conv_20260131_")
    assert [(person["actor_id"], person["kind"]) for person in record.participants] == [
        ("act_001", "human"),
        ("act_002", "model"),
        ("act_003", "tool"),
    ]


def test_without_any_time_the_id_has_the_day_of_the_export() -> None:
    events = [{name: value for name, value in event.items() if name != "ts"} for event in EVENTS]
    header = {"type": "header", "open_token_version": "0.1"}
    dated = {**header, "exported_at": "2026-03-01T00:00:00Z"}
    assert (
        record_of(dated, *events, FOOTER, now="2026-04-01T00:00:00Z").conversation["id"][5:13]
        == "20260301"
    )
    assert (
        record_of(header, *events, FOOTER, now="2026-04-01T00:00:00Z").conversation["id"][5:13]
        == "00000000"
    )
    odd = {**header, "exported_at": "yesterday"}
    assert record_of(odd, *events, FOOTER).conversation["id"][5:13] == "00000000"


def test_the_footer_may_bring_late_facts() -> None:
    header = {
        "type": "header",
        "open_token_version": "0.1",
        "conversation": {"id": "conv_1"},
        "participants": PEOPLE[:1],
    }
    footer = {
        "type": "footer",
        "conversation": {"title": "late"},
        "participants": PEOPLE,
        "integrity": {"events_hash": "00"},
    }
    record = record_of(header, *map(flat, EVENTS), footer)
    assert record.conversation == {"id": "conv_1", "title": "late"}
    assert record.participants == PEOPLE
    assert record.integrity == {"events_hash": "00"}


def test_unknown_keys_of_events_survive() -> None:
    document = with_event(mood="calm", event={"a": 1})
    record = record_of(document)
    kept = list(record.events)[1]
    assert kept == document["events"][1]
    assert list(kept)[-2:] == ["mood", "event"]
    again = record_of(HEADER, *map(flat, record.events), FOOTER)
    assert list(again.events) == list(record.events)


def test_keys_are_put_in_the_order_of_the_spec() -> None:
    event = {name: EVENTS[1][name] for name in reversed(EVENTS[1])}
    record = record_of(changed(events=[event]))
    assert list(next(iter(record.events))) == list(EVENTS[1])


def test_what_an_event_lacks_is_put_in_its_place() -> None:
    event = {
        "id": "evt_000007",
        "type": "span_end",
        "actor_id": "act_009",
        "links": {"span_id": "span_000001"},
    }
    record = record_of(changed(events=[event]))
    assert list(next(iter(record.events))) == ["id", "seq", "type", "actor_id", "content", "links"]
    assert record.participants[-1] == {"actor_id": "act_009", "kind": "system", "name": "unknown"}
    assert record.next_event_number == 8


@pytest.mark.spec("no-extra-keys")
@pytest.mark.parametrize(
    ("document", "code"),
    [
        (changed(conversation={"id": "c", "provider": "acme"}), "unknown-value"),
        (changed(conversation={"id": "c", "source_runtime": ["cli"]}), "unknown-value"),
        (changed(conversation={"id": 5}), "unknown-value"),
        (changed(conversation={"id": ""}), "unknown-value"),
        (changed(conversation={"id": "c", "redaction": "secrets"}), "unknown-value"),
        (changed(conversation={"id": "c", "cost": 2**70}), "coerced"),
        (changed(participants=[*PEOPLE, {"name": "x"}]), "skipped-participant"),
        (changed(participants=[*PEOPLE, "x"]), "skipped-participant"),
        (changed(extra=1), "unknown-key"),
        (with_event(event_type="x"), "unknown-key"),
    ],
)
def test_what_cannot_be_kept_is_reported(document: Json, code: str) -> None:
    record = record_of(document)
    assert list_note_codes(record) == [code]
    assert len(list(record.events)) == 3


def test_lines_that_are_nothing_are_reported() -> None:
    record = record_of(
        HEADER, {"type": "ping"}, {"type": ["event"]}, *map(flat, EVENTS), {"no": "type"}, FOOTER
    )
    assert record.notes == [
        Note("skipped-record", "line 2", "a line that is no header, event or footer", 3)
    ]


@pytest.mark.parametrize("odd", [None, 5, "x", [], [5], {"a": 1}])
def test_odd_frames_are_no_trouble(odd: Any) -> None:
    assert (
        len(
            list(
                record_of(
                    changed(conversation=odd, participants=odd, integrity=odd, exported_at=odd)
                ).events
            )
        )
        == 3
    )
    assert len(list(record_of(changed(integrity={"coercions": odd})).events)) == 3
    assert (
        len(
            list(
                record_of(
                    changed(integrity={"coercions": [{"seq": odd, "ptr": "", "was": "x"}]})
                ).events
            )
        )
        == 3
    )
    assert (
        len(
            list(
                record_of(
                    HEADER, *EVENTS, FOOTER | {"participants": odd, "conversation": odd}
                ).events
            )
        )
        == 3
    )


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"id": None}, "no id"),
        ({"id": "evt_x"}, "no id"),
        ({"id": "evt_" + "1" * 5000}, "no id"),
        ({"id": "evt_000001"}, "twice"),
        ({"type": "speech"}, "no type"),
        ({"type": ["message"]}, "no type"),
        ({"actor_id": 5}, "no actor_id"),
        ({"role": ["user"]}, "role"),
        ({"ts": 5}, "ts"),
        ({"content": None}, "content"),
        ({"content": {"text": 5}}, "content.text"),
        ({"links": []}, "links"),
        ({"links": {"call_id": ["x"]}}, "link"),
        ({"usage": 5}, "usage"),
    ],
)
def test_an_event_that_no_pass_could_work_on_is_refused(changes: Json, what: str) -> None:
    with pytest.raises(InputError) as caught:
        record_of(with_event(**changes))
    assert what in caught.value.what
    assert (caught.value.where, caught.value.code) == ("session:events[1]", "input.export")
    lines = map(nested, with_event(**changes)["events"])
    with pytest.raises(InputError) as caught:
        record_of(HEADER, *lines, FOOTER)
    assert caught.value.where == "session:3"


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (changed(open_token_version="9.9"), "version"),
        (changed(open_token_version=None), "version"),
        (changed(events={}), "not an array"),
        (changed(events=[5]), "not an object"),
        ({"a": 1}, "not an Open-Token export"),
        ([DOCUMENT], "not an Open-Token export"),
    ],
)
def test_what_is_no_export_is_refused(value: Any, what: str) -> None:
    with pytest.raises(InputError, match=what):
        record_of(value)


ODD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "x", "evt_000002", "message", "event"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "type", "text", "a"]), inner, max_size=3)
    ),
    max_leaves=6,
)
PLACES = st.sampled_from(["event", "content", "links", "top", "conversation"])
NAMES = st.text(max_size=3) | st.sampled_from([*EVENTS[1], *DOCUMENT])


@given(st.lists(st.tuples(PLACES, NAMES, ODD), max_size=4))
def test_strange_exports_are_read_or_refused_in_our_words(
    changes: list[tuple[str, str, Any]],
) -> None:
    document = copy.deepcopy(DOCUMENT)
    places = {
        "event": document["events"][1],
        "content": document["events"][0]["content"],
        "top": document,
    }
    places |= {"links": document["events"][1]["links"], "conversation": document["conversation"]}
    for place, name, value in changes:
        places[place][name] = value
    with contextlib.suppress(OpenTokenError):
        list(record_of(document).events)


@pytest.mark.parametrize("odd", [None, 7, ["evt_000001"], {"a": 1}])
def test_a_link_that_the_spec_does_not_know_may_be_anything(odd: Any) -> None:
    document = copy.deepcopy(DOCUMENT)
    document["events"][1].setdefault("links", {})["move_path"] = odd
    raw = json.dumps(document).encode()
    for words in ({}, {"max_bytes": 2500, "drop": "oldest"}):
        made = open_token.export(raw, **words)
        assert not [problem for problem in open_token.validate(made) if problem.severity == "error"]
    assert open_token.export(raw)["events"][1]["links"]["move_path"] == odd
