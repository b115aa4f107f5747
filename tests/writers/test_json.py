"""One JSON document, indented or compact."""

import json
from typing import Any

import pytest

from open_token.model.document import Event, Integrity, Record
from open_token.writers import JsonWriter

EVENTS: list[Event] = [
    {
        "id": "evt_000001",
        "seq": 1,
        "type": "message",
        "content": {"mime": "text/plain", "text": 'a\n"b" é\u2028'},
    },
    {
        "id": "evt_000002",
        "seq": 2,
        "type": "annotation",
        "content": {"mime": "application/json", "data": {"a": []}},
    },
]
SEALED: Integrity = {"hash_alg": "sha256", "events_hash": "00"}


def record(**facts: Any) -> Record:
    return Record(
        {"id": "conv_1"}, [{"actor_id": "act_001", "kind": "human", "name": "user"}], [], **facts
    )


def written(pretty: bool, events: list[Event], integrity: Integrity | None, **facts: Any) -> str:
    writer = JsonWriter(pretty)
    parts = [writer.head(record(**facts))]
    parts += [writer.event(event, place) for place, event in enumerate(events, 1)]
    return b"".join([*parts, writer.tail(record(**facts), integrity, len(events))]).decode()


def document(events: list[Event], integrity: Integrity | None, **facts: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"open_token_version": "0.1", **facts, "conversation": {"id": "conv_1"}}
    made["participants"] = [{"actor_id": "act_001", "kind": "human", "name": "user"}]
    made["events"] = events
    return made | ({"integrity": integrity} if integrity else {})


@pytest.mark.spec("single-json-object")
@pytest.mark.parametrize("facts", [{}, {"exported_at": "2026-01-31T00:00:00Z"}])
@pytest.mark.parametrize("integrity", [None, SEALED])
@pytest.mark.parametrize("events", [[], EVENTS[:1], EVENTS])
def test_output_equals_that_of_the_standard_library(
    events: list[Event], integrity: Integrity | None, facts: dict[str, Any]
) -> None:
    whole = document(events, integrity, **facts)
    assert (
        written(True, events, integrity, **facts)
        == json.dumps(whole, indent=2, ensure_ascii=False) + "\n"
    )
    compact = json.dumps(whole, separators=(",", ":"), ensure_ascii=False) + "\n"
    assert written(False, events, integrity, **facts) == compact


def test_nobody_took_part() -> None:
    writer = JsonWriter(True)
    empty = Record({}, [], [])
    text = writer.head(empty) + writer.tail(empty, None, 0)
    assert json.loads(text) == {
        "open_token_version": "0.1",
        "conversation": {},
        "participants": [],
        "events": [],
    }
