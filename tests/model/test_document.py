"""The record that passes hand on."""

from open_token.model.document import Record


def test_with_events_keeps_every_other_fact_and_leaves_the_first_record_as_it_was() -> None:
    record = Record(
        {"id": "conv_1"},
        [],
        [],
        exported_at="2026-01-02T03:04:05Z",
        next_event_number=7,
        is_export=True,
    )
    made = record.with_events([{"id": "evt_000001"}])  # type: ignore[typeddict-item]
    assert made.events == [{"id": "evt_000001"}]
    assert record.events == []
    made.events = record.events
    assert made == record
    assert made is not record
