"""Numbers and hashes: what stands in `seq` and in `integrity`."""

import hashlib
from typing import Any

import orjson
import pytest
import rfc8785

from open_token.builder.draft import Draft
from open_token.context import Context
from open_token.errors import InputError, UsageError
from open_token.integrity.event_hashes import (
    EventHasher,
    build_hasher,
    build_header,
    commit_to_source,
    estimate_integrity,
)
from open_token.model.document import Event, Record
from open_token.options import ExportOptions


def record_of(*texts: Any) -> Record:
    draft = Draft()
    person = draft.get_actor("human", "user")
    for text in texts:
        draft.add_message("user", text, person)
    draft.conversation["id"] = "conv_1"
    return draft.finish(lambda: "0" * 64)


def sealed(record: Record, level: str = "hash") -> tuple[list[Event], EventHasher]:
    made = build_hasher(record, Context(ExportOptions.of({"integrity": level})))
    events = list(record.events)
    for event in events:
        made.take(event)
    return events, made


@pytest.mark.spec("events-sorted")
def test_seq_runs_from_one() -> None:
    events, made = sealed(record_of("a", "b", "c"))
    assert [event["seq"] for event in events] == [1, 2, 3]
    assert made.count == 3


@pytest.mark.spec("events-hash")
def test_the_hashes_are_those_of_the_bytes() -> None:
    record = record_of("a", [{"b": [1.5, 1e21, "é😀"]}])
    events, made = sealed(record)
    integrity = made.integrity()
    assert integrity is not None
    digest = hashlib.sha256(rfc8785.dumps(events)).hexdigest()
    assert integrity["events_hash"] == digest
    covered = {**build_header(record), "events": digest}
    assert integrity["document_hash"] == hashlib.sha256(rfc8785.dumps(covered)).hexdigest()
    assert integrity["event_count"] == 2
    assert (integrity["hash_alg"], integrity["canonicalization"], integrity["c14n"]) == (
        "sha256",
        "json-c14n-like",
        "rfc8785",
    )


def test_none_is_none() -> None:
    events, made = sealed(record_of("a"), "none")
    assert events[0]["seq"] == 1
    assert made.integrity() is None
    assert estimate_integrity(record_of("a"), 1, "none") is None


def test_the_tree_has_a_root() -> None:
    _, made = sealed(record_of("a", "b", "c"), "tree")
    integrity = made.integrity()
    assert integrity is not None
    assert integrity["tree"]["size"] == 3
    assert len(integrity["tree"]["root"]) == 64


def test_coercions_are_placed_by_seq() -> None:
    record = record_of("a", [{"n": 2**60}], "b", [{"n": {"/": 2**70}}])
    record.events = [event for event in record.events if event["id"] != "evt_000001"]
    _, made = sealed(record)
    integrity = made.integrity()
    assert integrity is not None
    assert integrity["coercions"] == [
        {"seq": 1, "ptr": "/content/data/0/n", "was": "integer"},
        {"seq": 3, "ptr": "/content/data/0/n/~1", "was": "integer"},
    ]


def test_a_coercion_of_a_dropped_event_goes_with_it() -> None:
    record = record_of([{"n": 2**60}], "b")
    record.events = [event for event in record.events if event["id"] == "evt_000002"]
    _, made = sealed(record)
    assert "coercions" not in (made.integrity() or {})


@pytest.mark.parametrize("level", ["hash", "tree"])
@pytest.mark.parametrize("count", [1, 9, 10, 120])
def test_the_size_is_known_before(level: str, count: int) -> None:
    record = record_of(*([{"n": 2**60}] for _ in range(count)))
    before = estimate_integrity(record, count, level)
    _, made = sealed(record, level)
    assert len(rfc8785.dumps(dict(made.integrity() or {}))) <= len(
        rfc8785.dumps(dict(before or {}))
    )


def test_what_cannot_be_hashed_is_an_error_with_its_place() -> None:
    record = record_of("a")
    record.events = [{"id": "evt_000001", "seq": 0, "type": "message", "content": {"data": {1, 2}}}]
    with pytest.raises(InputError, match="event 1 cannot be hashed"):
        sealed(record)


def test_only_integrity_source_commits_to_the_source() -> None:
    for level in ("hash", "none", "tree"):
        assert (
            commit_to_source(
                record_of("a"), Context(ExportOptions.of({"integrity": level}), key=bytes(32))
            )
            is None
        )


def test_the_source_is_in_the_integrity_object() -> None:
    record = record_of("a", "b", "c")
    context = Context(ExportOptions.of({"integrity": "source"}), key=bytes(32))
    source = commit_to_source(record, context)
    made = build_hasher(record, context, source)
    for event in list(record.events)[1:]:
        made.take(event)
    integrity = made.integrity()
    assert source is not None
    assert integrity is not None
    assert (integrity["source"]["size"], integrity["source"]["root"]) == (3, source.root)
    assert integrity["source"]["map"] == [(1, 2, 2)]
    assert "tree" not in integrity


def test_a_source_cannot_be_committed_to_without_a_key() -> None:
    with pytest.raises(UsageError, match="needs the local key"):
        commit_to_source(record_of("a"), Context(ExportOptions.of({"integrity": "source"})))


def test_a_source_event_that_cannot_be_hashed_is_an_error_with_its_place() -> None:
    record = record_of("a")
    record.events = [
        *record.events,
        {"id": "evt_000002", "seq": 0, "type": "message", "content": {"data": {1, 2}}},
    ]
    with pytest.raises(InputError, match="event 2 cannot be hashed"):
        commit_to_source(record, Context(ExportOptions.of({"integrity": "source"}), key=bytes(32)))


@pytest.mark.parametrize("level", ["none", "hash", "tree"])
def test_batches_hash_and_encode_like_single_events(level: str) -> None:
    texts = [
        *("x" * 40_000 for _ in range(5)),
        [{"a": 1.0, "b": [1e-7, None, True]}],
        [{"\U0001f600": 1, "\ufb01": 2}],
        "z",
    ]
    events, one_by_one = sealed(record_of(*texts), level)
    record = record_of(*texts)
    made = build_hasher(record, Context(ExportOptions.of({"integrity": level})))
    runs = list(
        made.runs(
            record.events, lambda event, place: f"{place} {event['id']};".encode() + b" " * 20_000
        )
    )
    assert len(runs) > 1
    assert [event for run, _ in runs for event in run] == events
    assert b"".join(lines for _, lines in runs).split()[-1] == b"evt_000008;"
    assert made.integrity() == one_by_one.integrity()
    assert made.count == len(events)


def test_batches_name_the_event_that_cannot_be_hashed() -> None:
    record = record_of("a", "b")
    events = list(record.events)
    events[1]["content"]["text"] = "\ud800"
    made = build_hasher(record, Context(ExportOptions.of({})))
    with pytest.raises(InputError, match="event 2 cannot be hashed"):
        list(made.runs(events, lambda event, place: orjson.dumps(event)))
