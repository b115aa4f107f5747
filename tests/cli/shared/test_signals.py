"""Ctrl-C, SIGTERM and a closed terminal to a command that goes on for long."""

import signal

import pytest

from open_token.cli.shared import signals
from open_token.cli.shared.signals import StopRequest, interrupt_on_signals, stop_event_on_signals


def test_sigterm_breaks_off_like_ctrl_c() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), interrupt_on_signals():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_both_ask_for_the_end(number: signal.Signals) -> None:
    before = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]
    with stop_event_on_signals() as asked:
        assert not asked.is_set()
        signal.raise_signal(number)
        assert asked.is_set()
    assert [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)] == before


def test_asking_again_at_once_changes_nothing_and_later_it_breaks_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr(signals.time, "monotonic", lambda: now)
    with stop_event_on_signals() as asked:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
        assert asked.is_set()
        now = 102.0
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)


def test_what_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_event_on_signals() as asked, interrupt_on_signals():
            signal.raise_signal(signal.SIGHUP)
            assert not asked.is_set()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_request_made_while_it_is_waited_for_is_seen() -> None:
    """With a threading.Event the handler could wait for a lock that its own thread held."""
    request = StopRequest()
    assert not request.wait(0.01)
    before = signal.signal(signal.SIGALRM, lambda *_: request.set())
    try:
        for _ in range(50):
            request = StopRequest()
            signal.setitimer(signal.ITIMER_REAL, 0.0005)
            assert request.wait(5)
    finally:
        signal.signal(signal.SIGALRM, before)
