"""The queue has each session once, loses no call, and retries only once."""

import stat
from pathlib import Path

import pytest

from open_token.library.hooks.payload import HookCall
from open_token.library.hooks.queue import CallQueue

ONE, TWO = (
    HookCall(runtime="codex", id="one", event="Stop"),
    HookCall(runtime="codex", id="two", event="SessionEnd"),
)


@pytest.fixture
def queue(tmp_path: Path) -> CallQueue:
    return CallQueue(tmp_path / "hooks")


def test_calls_of_one_conversation_are_one(queue: CallQueue) -> None:
    for call in (ONE, TWO, ONE):
        queue.add(call)
    assert len(queue.list_waiting()) == 2
    assert stat.S_IMODE(queue.folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in queue.list_waiting()} == {0o600}


def test_a_call_that_comes_while_its_like_is_carried_out_waits(queue: CallQueue) -> None:
    queue.add(ONE)
    (path,) = queue.list_waiting()
    taken, call = queue.claim(path)
    assert call == ONE
    queue.add(ONE)
    queue.finish(taken)
    (left,) = queue.list_waiting()
    assert queue.claim(left)[1] == ONE


def test_what_a_killed_process_left_is_tried_once_more(queue: CallQueue) -> None:
    queue.add(ONE)
    seen = []
    while names := queue.list_waiting():
        taken, call = queue.claim(names[0])
        seen.append(call)
        if call is None:
            queue.finish(taken)
    assert seen == [ONE, ONE, None]


def test_what_is_no_call_is_forgotten(queue: CallQueue) -> None:
    queue.add(ONE)
    queue.list_waiting()[0].write_bytes(b"\xff")
    assert not queue.has_session_end()
    taken, call = queue.claim(queue.list_waiting()[0])
    assert call is None
    queue.finish(taken)
    assert queue.list_waiting() == []
    assert queue.claim(queue.folder / "gone.call")[1] is None


def test_the_end_of_a_session_is_seen(queue: CallQueue) -> None:
    queue.add(ONE)
    assert not queue.has_session_end()
    queue.add(TWO)
    assert queue.has_session_end()


def test_one_at_a_time(queue: CallQueue) -> None:
    queue.add(ONE)
    with queue.lock() as first, queue.lock() as second:
        assert (first, second) == (True, False)
