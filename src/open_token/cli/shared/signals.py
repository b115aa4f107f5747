"""Stopping a long-running command: Ctrl-C, SIGTERM and a closed terminal."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

_GRACE_SECONDS = 1.0
"""A second Ctrl-C within this time after the first is ignored."""


@contextmanager
def interrupt_on_signals() -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGTERM and SIGHUP too, so that files and locks are cleaned up."""

    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    with _handle_signals(("SIGTERM", "SIGHUP"), interrupt):
        yield


@contextmanager
def stop_event_on_signals() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C, SIGTERM and SIGHUP set instead of interrupting.

    A second signal after the grace period does interrupt: the reader of the output may be stuck."""
    stop = threading.Event()
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
