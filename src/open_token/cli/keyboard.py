"""Keys as a person types them on a terminal, one by one."""

import contextlib
import os
import select
import sys
from collections.abc import Iterator

UP, DOWN, ENTER, ESCAPE, ERASE = "up", "down", "enter", "escape", "erase"
_KEYS = {
    b"\x1b[A": UP,
    b"\x1b[B": DOWN,
    b"\x1bOA": UP,
    b"\x1bOB": DOWN,
    b"\x10": UP,
    b"\x0e": DOWN,
    b"\r": ENTER,
    b"\n": ENTER,
    b"\x1b": ESCAPE,
    b"\x03": ESCAPE,
    b"\x04": ESCAPE,
    b"\x7f": ERASE,
    b"\x08": ERASE,
}


def key_typed() -> str:
    """One key: its name, or the character typed."""
    descriptor = sys.stdin.fileno()
    raw = os.read(descriptor, 1)
    if raw == b"\x1b" and select.select([descriptor], [], [], 0.03)[0]:
        raw += _sequence(descriptor)
    elif raw and raw[0] >= 0xC0:
        raw += os.read(descriptor, 1 if raw[0] < 0xE0 else 2 if raw[0] < 0xF0 else 3)
    return _KEYS.get(raw) or (ESCAPE if not raw else raw.decode("utf-8", "ignore"))


def _sequence(descriptor: int) -> bytes:
    """What one key sends after Esc: a character, or `[` or `O` and all up to the letter or ~ that
    ends it."""
    rest = last = os.read(descriptor, 1)
    while last and (len(rest) == 1 or not 0x40 <= last[0] <= 0x7E) and rest[:1] in (b"[", b"O"):
        last = os.read(descriptor, 1)
        rest += last
    return rest


@contextlib.contextmanager
def raw_terminal() -> Iterator[None]:
    """Keys as they are typed, and the terminal as it was afterwards."""
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setraw(descriptor)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
