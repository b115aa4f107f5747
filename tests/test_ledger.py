"""The ledger numbers events and hands them to the spool."""

from typing import Any

from open_token.builder.event_writer import Ledger, links_of
from open_token.storage.files import Spool


def add(ledger: Ledger, text: str, **more: Any) -> Any:
    return ledger._add("message", "user", "public", "act_001", ledger._text(text), None, **more)


def test_ids_count_on_past_the_spool() -> None:
    ledger = Ledger(spool=Spool(0))
    for number in range(700):
        add(ledger, str(number))
    ledger._hand_over()
    assert [event["id"] for event in ledger.spool][::699] == ["evt_000001", "evt_000700"]
    assert ledger.count == 700


def test_usage_reaches_fresh_held_and_stored_events() -> None:
    ledger = Ledger(spool=Spool(1))
    for number in range(1500):
        add(ledger, str(number))
    for number in (1, 600, 1500):
        ledger.usage(f"evt_{number:06d}", {"output_tokens": number})
    ledger._hand_over()
    found = [event["usage"]["output_tokens"] for event in ledger._splice if "usage" in event]
    assert found == [1, 600, 1500]


def test_counts_beyond_what_json_carries_are_left_out() -> None:
    ledger = Ledger()
    event = add(ledger, "x", usage={"input_tokens": 2**60, "output_tokens": 3})
    assert event["usage"] == {"output_tokens": 3}
    assert "usage" not in add(ledger, "x", usage={"input_tokens": 2**60})


def test_links() -> None:
    assert links_of("evt_000001", "call_000001", "span_000001") == {
        "parent_id": "evt_000001",
        "call_id": "call_000001",
        "span_id": "span_000001",
    }
    assert add(Ledger(), "x", call="call_000001", parent="evt_000001")["links"] == {
        "parent_id": "evt_000001",
        "call_id": "call_000001",
    }
