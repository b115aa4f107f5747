"""Calls and results find each other."""

from open_token.builder.call_pairing import Calls


def test_a_call_is_open_until_its_result() -> None:
    calls = Calls()
    key, call = calls.make("t1", "Bash", None, None, 0)
    assert (key, call.call_id) == ("t1", "call_000001")
    assert calls.is_open("t1")
    assert calls.answer("t1", 1) is call
    assert not calls.is_open("t1")
    assert calls.answered("t1") == "call_000001"


def test_a_call_without_an_id_gets_a_key() -> None:
    calls = Calls()
    first, _ = calls.make(None, "a", None, None, 0)
    second, _ = calls.make("", "b", None, None, 1)
    assert first != second
    assert [call.tool for call in calls.unanswered()] == ["a", "b"]


def test_the_run_of_a_message_ends_with_its_last_tool_event() -> None:
    calls = Calls()
    _, one = calls.make("t1", "a", None, "m", 5)
    _, two = calls.make("t2", "b", None, "m", 6)
    calls.answer("t2", 7)
    assert calls.answer("t2", 7) is None
    assert calls.answer(None, 7) is None
    calls.extend(None, 8)
    assert one.run is two.run
    assert one.run.last == 8


def test_another_message_or_a_gap_starts_a_new_run() -> None:
    calls = Calls()
    _, one = calls.make("t1", "a", None, "m", 5)
    _, two = calls.make("t2", "b", None, "n", 6)
    _, three = calls.make("t3", "c", None, "n", 9)
    assert [one.run.last, two.run.last, three.run.last] == [5, 6, 9]


def test_an_id_may_be_used_again_after_its_result() -> None:
    calls = Calls()
    calls.make("t1", "a", None, None, 0)
    calls.answer("t1", 1)
    calls.make("t1", "a", None, None, 2)
    assert calls.is_open("t1")
    assert calls.answered("t1") is None
