"""Calls and results find each other."""

from open_token.builder.call_pairing import CallTracker


def test_a_call_is_open_until_its_result() -> None:
    calls = CallTracker()
    key, call = calls.open_call("t1", "Bash", None, None, 0)
    assert (key, call.call_id) == ("t1", "call_000001")
    assert calls.is_open("t1")
    assert calls.close_call("t1", 1) is call
    assert not calls.is_open("t1")
    assert calls.get_answered_id("t1") == "call_000001"


def test_a_call_without_an_id_gets_a_key() -> None:
    calls = CallTracker()
    first, _ = calls.open_call(None, "a", None, None, 0)
    second, _ = calls.open_call("", "b", None, None, 1)
    assert first != second
    assert [call.tool for call in calls.list_unanswered()] == ["a", "b"]


def test_the_run_of_a_message_ends_with_its_last_tool_event() -> None:
    calls = CallTracker()
    _, one = calls.open_call("t1", "a", None, "m", 5)
    _, two = calls.open_call("t2", "b", None, "m", 6)
    calls.close_call("t2", 7)
    assert calls.close_call("t2", 7) is None
    assert calls.close_call(None, 7) is None
    calls.extend_run(8)
    assert one.run is two.run
    assert one.run.last == 8


def test_another_message_or_a_gap_starts_a_new_run() -> None:
    calls = CallTracker()
    _, one = calls.open_call("t1", "a", None, "m", 5)
    _, two = calls.open_call("t2", "b", None, "n", 6)
    _, three = calls.open_call("t3", "c", None, "n", 9)
    assert [one.run.last, two.run.last, three.run.last] == [5, 6, 9]


def test_an_id_may_be_used_again_after_its_result() -> None:
    calls = CallTracker()
    calls.open_call("t1", "a", None, None, 0)
    calls.close_call("t1", 1)
    calls.open_call("t1", "a", None, None, 2)
    assert calls.is_open("t1")
    assert calls.get_answered_id("t1") is None
