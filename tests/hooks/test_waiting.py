"""Calls that wait: each conversation once, none lost with a process, none tried for ever."""

import stat
from pathlib import Path

import pytest

from open_token.locallib.hooks.payload import HookCall
from open_token.locallib.hooks.queue import CallQueue

ONE, TWO = (
    HookCall(runtime="codex", id="one", event="Stop"),
    HookCall(runtime="codex", id="two", event="SessionEnd"),
)


@pytest.fixture
def waiting(tmp_path: Path) -> CallQueue:
    return CallQueue(tmp_path / "hooks")


def test_calls_of_one_conversation_are_one(waiting: CallQueue) -> None:
    for call in (ONE, TWO, ONE):
        waiting.add(call)
    assert len(waiting.names()) == 2
    assert stat.S_IMODE(waiting.folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in waiting.names()} == {0o600}


def test_a_call_that_comes_while_its_like_is_carried_out_waits(waiting: CallQueue) -> None:
    waiting.add(ONE)
    (path,) = waiting.names()
    taken, call = waiting.begin(path)
    assert call == ONE
    waiting.add(ONE)
    waiting.done(taken)
    (left,) = waiting.names()
    assert waiting.begin(left)[1] == ONE


def test_what_a_killed_process_left_is_tried_once_more(waiting: CallQueue) -> None:
    waiting.add(ONE)
    seen = []
    while names := waiting.names():
        taken, call = waiting.begin(names[0])
        seen.append(call)
        if call is None:
            waiting.done(taken)
    assert seen == [ONE, ONE, None]


def test_what_is_no_call_is_forgotten(waiting: CallQueue) -> None:
    waiting.add(ONE)
    waiting.names()[0].write_bytes(b"\xff")
    assert not waiting.is_ending()
    taken, call = waiting.begin(waiting.names()[0])
    assert call is None
    waiting.done(taken)
    assert waiting.names() == []
    assert waiting.begin(waiting.folder / "gone.call")[1] is None


def test_the_end_of_a_session_is_seen(waiting: CallQueue) -> None:
    waiting.add(ONE)
    assert not waiting.is_ending()
    waiting.add(TWO)
    assert waiting.is_ending()


def test_one_at_a_time(waiting: CallQueue) -> None:
    waiting.add(ONE)
    with waiting.held() as first, waiting.held() as second:
        assert (first, second) == (True, False)
