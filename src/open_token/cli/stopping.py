"""How a command that goes on for long is told to stop: by Ctrl-C and by SIGTERM alike."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn


@contextmanager
def stopped_like_ctrl_c() -> Iterator[None]:
    """Let SIGTERM break off the work within as Ctrl-C does: no half file, no lock left."""

    def stop(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    with _on((signal.SIGTERM,), stop):
        yield


@contextmanager
def asked_to_stop() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set instead of breaking off the work within."""
    asked = threading.Event()
    with _on((signal.SIGINT, signal.SIGTERM), lambda *_: asked.set()):
        yield asked


@contextmanager
def _on(numbers: tuple[signal.Signals, ...], told: Callable[..., None]) -> Iterator[None]:
    before = {number: signal.signal(number, told) for number in numbers}
    try:
        yield
    finally:
        for number, usual in before.items():
            signal.signal(number, usual)
