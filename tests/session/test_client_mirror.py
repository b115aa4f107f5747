"""A client's own view: what it was sent twice counts once, and what stands beside the turns."""

from typing import Any

from helpers.server.reference_client import ReferenceClient
from open_token.session import SessionState, to_legacy_event, to_stream_item

AT = "2026-01-01T00:00:00Z"
LOG: list[tuple[str, dict[str, Any]]] = [
    ("session.created", {"session": {"intent": "Test"}}),
    ("run.started", {"run_id": "r"}),
    ("turn.opened", {"turn": {"turn_id": "t"}}),
    ("memory.recalled", {"turn_id": "t", "refs": [{"id": 1}]}),
    ("text.delta", {"turn_id": "t", "text": "a"}),
    ("text.delta", {"turn_id": "t", "text": "b"}),
    ("turn.ended", {"turn_id": "t"}),
    ("run.ended", {"run_id": "r", "output": "ab"}),
]


def test_each_item_counts_once() -> None:
    state, mirror = SessionState("s"), ReferenceClient()
    items = [to_stream_item(state.add(kind, data, AT), state) for kind, data in LOG]
    for item in [*items[:5], *items[2:], *items]:
        assert item is not None
        mirror.hear_raw(item)
    assert mirror.seen == state.seq
    assert [turn["blocks"][0]["content"] for turn in mirror.branch()] == ["ab"]
    assert mirror.branch()[0]["memory_refs"] == [
        {"id": 1, "content_preview": "", "skill_name": None}
    ]
    assert mirror.session["status"] == "completed"
    assert (mirror.ended or {})["result"] == {"result": "ab"}


def test_the_older_dialect() -> None:
    state, mirror = SessionState("s"), ReferenceClient()
    for kind, data in LOG:
        result = to_legacy_event(state.add(kind, data, AT), state)
        assert result is not None
        mirror.hear(*result)
    mirror.hear("workspace:files_changed", {"paths": []})
    assert [turn["blocks"][0]["content"] for turn in mirror.turns()] == ["ab"]
    assert mirror.session["intent"] == "Test"
