"""A header, one flat line per event, a footer."""

import json

import pytest

from open_token.model.document import Event, Record
from open_token.writers import NdjsonWriter

RECORD = Record(
    {"id": "conv_1"},
    [{"actor_id": "act_001", "kind": "human", "name": "user"}],
    [],
    exported_at="2026-01-31T00:00:00Z",
)
EVENT: Event = {
    "id": "evt_000001",
    "seq": 1,
    "type": "message",
    "role": "user",
    "content": {"mime": "text/plain", "text": "a\nb\r\u2028é"},
}


@pytest.mark.spec("ndjson-header")
def test_the_header_carries_what_stands_around_the_events() -> None:
    assert json.loads(NdjsonWriter().head(RECORD)) == {
        "type": "header",
        "open_token_version": "0.1",
        "exported_at": "2026-01-31T00:00:00Z",
        "conversation": {"id": "conv_1"},
        "participants": [{"actor_id": "act_001", "kind": "human", "name": "user"}],
    }
    assert b"exported_at" not in NdjsonWriter().head(Record({}, [], []))


@pytest.mark.spec("ndjson-events")
def test_an_event_is_one_flat_line() -> None:
    line = NdjsonWriter().event(EVENT, 1)
    assert line.count(b"\n") == 1
    assert line.endswith(b"}\n")
    assert list(json.loads(line).items())[:2] == [("type", "event"), ("event_type", "message")]
    assert json.loads(line) == {**EVENT, "type": "event", "event_type": "message"}
    assert EVENT["type"] == "message"


@pytest.mark.spec("ndjson-footer")
def test_the_footer_is_always_there() -> None:
    assert json.loads(NdjsonWriter().tail(RECORD, None, 1)) == {"type": "footer"}
    assert json.loads(NdjsonWriter().tail(RECORD, {"events_hash": "00"}, 1)) == {
        "type": "footer",
        "integrity": {"events_hash": "00"},
    }
