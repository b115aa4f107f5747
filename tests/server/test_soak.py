"""What `make soak` would find in what sockets received."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from longrun import soak
from open_token.model.log_events import LogEntry, NewEvent
from open_token.session import SessionState


@pytest.mark.parametrize(
    ("shift", "is_fault"),
    [
        (lambda result: result, False),
        (lambda result: result[:1] + result[2:], True),
        (lambda result: result[:1] + result, True),
        (lambda result: result[::-1], True),
        (lambda result: result[:-1], True),
    ],
)
def test_the_checker_compares_every_socket_with_the_log(
    monkeypatch: pytest.MonkeyPatch, shift: Callable[[list[int]], list[int]], is_fault: bool
) -> None:
    monkeypatch.setattr(soak, "SETTLE_SECONDS", 0.01)
    state = SessionState("sess_1")
    steps: list[NewEvent] = [
        ("session.created", {"session": {"id": "sess_1", "intent": "Test"}}),
        ("run.started", {"run_id": "run_1"}),
        ("turn.opened", {"turn": {"turn_id": "turn_1", "model": "demo"}}),
        ("turn.ended", {"turn_id": "turn_1"}),
        ("run.ended", {"run_id": "run_1", "output": ""}),
    ]
    entries = [state.add(kind, data, "2026-01-31T08:00:00.000Z") for kind, data in steps]

    async def read(_: str) -> list[LogEntry]:
        return entries

    loaded: Any = SimpleNamespace(figures=soak.Figures(), read=read)
    sockets: Any = ["first", "second"]
    lane = soak.Lane(loaded, sockets, 0)
    result = [2, 3, 4, 5]
    lane.seen = {sockets[0]: result, sockets[1]: shift(result)}
    asyncio.run(lane._over("sess_1", before=1))
    assert bool(loaded.figures.errors) is is_fault
    assert loaded.figures.runs == 1
