"""The writer numbers events and hands them to the spool."""

from typing import Any

from open_token.builder.event_writer import EventWriter, build_links
from open_token.storage.spool import Spool
from readers.provider_readers import tokens


def add(writer: EventWriter, text: str, **more: Any) -> Any:
    return writer._add(
        "message", "user", "public", "act_001", writer._build_text(text), None, **more
    )


def test_ids_count_on_past_the_spool() -> None:
    writer = EventWriter(spool=Spool(0))
    for number in range(700):
        add(writer, str(number))
    writer._write_batch()
    assert [event["id"] for event in writer.spool][::699] == ["evt_000001", "evt_000700"]
    assert writer.count == 700


def test_usage_reaches_fresh_held_and_stored_events() -> None:
    writer = EventWriter(spool=Spool(1))
    for number in range(1500):
        add(writer, str(number))
    for number in (1, 600, 1500):
        writer.set_usage(f"evt_{number:06d}", {"output_tokens": number})
    writer._write_batch()
    found = [event["usage"]["output_tokens"] for event in writer._late_edits if "usage" in event]
    assert found == [1, 600, 1500]


def test_counts_beyond_what_json_carries_are_left_out() -> None:
    writer = EventWriter()
    event = add(writer, "x", usage={"input_tokens": 2**60, "output_tokens": 3})
    assert event["usage"] == tokens(output_tokens=3)
    assert "usage" not in add(writer, "x", usage={"input_tokens": 2**60})


def test_links() -> None:
    assert build_links("evt_000001", "call_000001", "span_000001") == {
        "parent_id": "evt_000001",
        "call_id": "call_000001",
        "span_id": "span_000001",
    }
    assert add(EventWriter(), "x", call="call_000001", parent="evt_000001")["links"] == {
        "parent_id": "evt_000001",
        "call_id": "call_000001",
    }
