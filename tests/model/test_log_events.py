"""Rows of a log: their kinds and shapes, pieces put together, faults that say nothing of the
content."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from open_token.model.log_events import (
    LOG_EVENT_TYPES,
    LogEntry,
    LogError,
    NewEvent,
    dump_event_data,
    merge_deltas,
    parse_entry,
    parse_event_data,
)
from open_token.session.state import EVENT_HANDLERS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "server-log.md"
ROW: dict[str, Any] = {
    "session_id": "s",
    "seq": 1,
    "at": "2026-01-01T00:00:00Z",
    "kind": "notice.given",
    "data": {},
}


def test_every_kind_is_folded_and_documented() -> None:
    assert EVENT_HANDLERS.keys() == LOG_EVENT_TYPES.keys()
    rows = re.findall(r"^\| `([a-z.]+)`", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(rows) >= LOG_EVENT_TYPES.keys()


def test_a_row_goes_through() -> None:
    entry = parse_entry(ROW)
    assert msgspec.to_builtins(entry) == ROW
    assert msgspec.json.decode(msgspec.json.encode(entry), type=LogEntry) == entry


@pytest.mark.parametrize("odd", [None, 5, [], {}, {**ROW, "seq": "1"}, {**ROW, "data": None}])
def test_what_is_no_row(odd: Any) -> None:
    with pytest.raises(LogError):
        parse_entry(odd)


def test_shapes_leave_out_what_is_not_said() -> None:
    data = {"turn_id": "t", "text": "w"}
    assert dump_event_data(parse_event_data("text.delta", data)) == data
    change = {"to": "planning", "from": "executing"}
    assert dump_event_data(parse_event_data("mode.changed", change)) == change
    status = {"turn_id": "t", "tool_call_id": "c", "status": "done", "pending_question_ref": None}
    assert dump_event_data(parse_event_data("tool.status", status)) == status


@pytest.mark.parametrize("kind", LOG_EVENT_TYPES)
def test_a_wrong_shape_is_a_fault_without_content(kind: str) -> None:
    odd = {item.encode_name: b"secret" for item in msgspec.structs.fields(LOG_EVENT_TYPES[kind])}
    with pytest.raises(LogError) as fault:
        parse_event_data(kind, odd)
    assert "secret" not in str(fault.value)


def delta(text: str, kind: str = "text.delta", **more: Any) -> NewEvent:
    return kind, {"turn_id": "t", "text": text, **more}


def test_neighbouring_pieces_are_put_together() -> None:
    arguments = [
        ("tool.arguments", {"turn_id": "t", "tool_call_id": "c", "delta": piece})
        for piece in ("{", "}")
    ]
    made = merge_deltas(
        [
            delta("a"),
            delta("b"),
            delta("c", "thinking.delta"),
            delta("d"),
            delta("e", block_index=3),
            *arguments,
        ]
    )
    assert [data.get("text", data.get("delta")) for _, data in made] == ["ab", "c", "d", "e", "{}"]
    assert merge_deltas([]) == []
    steps = [delta("a"), ("notice.given", {"message": "m"}), delta("b")]
    assert merge_deltas(steps) == steps


def test_the_steps_themselves_stay_as_they_are() -> None:
    steps = [delta("a"), delta("b")]
    merge_deltas(steps)
    assert steps == [delta("a"), delta("b")]
