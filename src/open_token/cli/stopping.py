"""How a command that goes on for long is told to stop: by Ctrl-C and by SIGTERM alike."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

_GRACE = 1.0
"""Whoever is asked to stop may take so many seconds; an impatient second Ctrl-C before that changes nothing."""


@contextmanager
def stopped_like_ctrl_c() -> Iterator[None]:
    """Let SIGTERM break off the work within as Ctrl-C does: no half file, no lock left."""

    def stop(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    with _on((signal.SIGTERM,), stop):
        yield


@contextmanager
def asked_to_stop() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set instead of breaking off the work within.

    Said once more a while later they do break it off: whoever reads the output may have stopped reading.
    """
    asked = threading.Event()
    latest = float("inf")

    def ask(*_: object) -> None:
        nonlocal latest
        if time.monotonic() > latest:
            raise KeyboardInterrupt
        if not asked.is_set():
            latest = time.monotonic() + _GRACE
        asked.set()

    with _on((signal.SIGINT, signal.SIGTERM), ask):
        yield asked


@contextmanager
def _on(numbers: tuple[signal.Signals, ...], told: Callable[..., None]) -> Iterator[None]:
    before = {number: signal.signal(number, told) for number in numbers}
    try:
        yield
    finally:
        for number, usual in before.items():
            signal.signal(number, usual)
