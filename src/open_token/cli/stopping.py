"""How a command that goes on for long is told to stop: by Ctrl-C, by SIGTERM and by a closed
terminal alike."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

_GRACE = 1.0
"""Whoever is asked to stop may take so many seconds; an impatient second Ctrl-C before that changes
nothing."""


@contextmanager
def stopped_like_ctrl_c() -> Iterator[None]:
    """Let SIGTERM and a closed terminal break off the work within as Ctrl-C does: no half file, no
    lock left."""

    def stop(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    with _on(("SIGTERM", "SIGHUP"), stop):
        yield


@contextmanager
def asked_to_stop() -> Iterator[threading.Event]:
    """An event that Ctrl-C, SIGTERM and a closed terminal set instead of breaking off the work
    within.

    Said once more a while later they do break it off: whoever reads the output may have stopped
    reading."""
    asked = threading.Event()
    latest = float("inf")

    def ask(*_: object) -> None:
        nonlocal latest
        if time.monotonic() > latest:
            raise KeyboardInterrupt
        if not asked.is_set():
            latest = time.monotonic() + _GRACE
        asked.set()

    with _on(("SIGINT", "SIGTERM", "SIGHUP"), ask):
        yield asked


@contextmanager
def _on(names: tuple[str, ...], told: Callable[..., None]) -> Iterator[None]:
    numbers = [number for name in names if (number := getattr(signal, name, None)) is not None]
    # A signal that is ignored, as SIGHUP under nohup, stays so.
    before = {n: signal.signal(n, told) for n in numbers if signal.getsignal(n) != signal.SIG_IGN}
    try:
        yield
    finally:
        for number, usual in before.items():
            signal.signal(number, usual)
