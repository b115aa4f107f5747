"""Stopping a long-running command: Ctrl-C, SIGTERM and a closed terminal."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

_GRACE_SECONDS = 1.0
"""A second Ctrl-C within this time after the first is ignored."""


_POLL_SECONDS = 0.05


class StopRequest:
    """A flag that a signal handler may set while the main thread waits for it.

    A `threading.Event` is not safe here: its `set` takes a lock that the interrupted `wait` of the
    same thread may hold, and then neither goes on.
    """

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        """Request the stop."""
        self._is_set = True

    def is_set(self) -> bool:
        """Return whether the stop was requested."""
        return self._is_set

    def wait(self, seconds: float) -> bool:
        """Wait until the stop is requested, at most so long; return whether it was."""
        end = time.monotonic() + seconds
        while not self._is_set:
            left = end - time.monotonic()
            if left <= 0:
                break
            time.sleep(min(left, _POLL_SECONDS))
        return self._is_set


@contextmanager
def interrupt_on_signals() -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGTERM and SIGHUP too, so that files and locks are cleaned up."""

    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    with _handle_signals(("SIGTERM", "SIGHUP"), interrupt):
        yield


@contextmanager
def stop_event_on_signals() -> Iterator[StopRequest]:
    """Yield a request that Ctrl-C, SIGTERM and SIGHUP set instead of interrupting.

    A second signal after the grace period does interrupt: the reader of the output may be stuck."""
    stop = StopRequest()
    deadline = float("inf")

    def request_stop(*_: object) -> None:
        nonlocal deadline
        if time.monotonic() > deadline:
            raise KeyboardInterrupt
        if not stop.is_set():
            deadline = time.monotonic() + _GRACE_SECONDS
        stop.set()

    with _handle_signals(("SIGINT", "SIGTERM", "SIGHUP"), request_stop):
        yield stop


@contextmanager
def _handle_signals(names: tuple[str, ...], handler: Callable[..., None]) -> Iterator[None]:
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    saved = {}
    for number in numbers:
        # An ignored signal, such as SIGHUP under nohup, stays ignored.
        if signal.getsignal(number) != signal.SIG_IGN:
            saved[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, previous in saved.items():
            signal.signal(number, previous)
