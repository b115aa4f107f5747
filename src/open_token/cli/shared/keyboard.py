"""Single key presses from a terminal."""

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
    b"\x10": UP,  # Ctrl-P
    b"\x0e": DOWN,  # Ctrl-N
    b"\r": ENTER,
    b"\n": ENTER,
    b"\x1b": ESCAPE,
    b"\x03": ESCAPE,  # Ctrl-C
    b"\x04": ESCAPE,  # Ctrl-D
    b"\x7f": ERASE,
    b"\x08": ERASE,
}
_ESCAPE_TIMEOUT = 0.03
"""Seconds after which an Esc byte is the Esc key, not the start of a sequence."""


def read_key() -> str:
    """Return the name of the next key, or the character that was typed."""
    descriptor = sys.stdin.fileno()
    raw = os.read(descriptor, 1)
    if not raw:
        return ESCAPE
    if raw == b"\x1b":
        if select.select([descriptor], [], [], _ESCAPE_TIMEOUT)[0]:
            raw += _read_escape_sequence(descriptor)
    elif raw[0] >= 0xC0:
        raw += os.read(descriptor, _count_continuation_bytes(raw[0]))
    return _KEYS.get(raw) or raw.decode("utf-8", "ignore")


def _count_continuation_bytes(lead: int) -> int:
    """Return how many bytes follow the first byte of a multi-byte UTF-8 character."""
    if lead < 0xE0:
        return 1
    return 2 if lead < 0xF0 else 3


def _read_escape_sequence(descriptor: int) -> bytes:
    """Return what follows Esc: one character, or `[` or `O` up to the final letter or `~`."""
    sequence = last = os.read(descriptor, 1)
    if sequence not in (b"[", b"O"):
        return sequence
    while last and (len(sequence) == 1 or not 0x40 <= last[0] <= 0x7E):
        last = os.read(descriptor, 1)
        sequence += last
    return sequence


@contextlib.contextmanager
def raw_terminal() -> Iterator[None]:
    """Deliver keys unbuffered and without echo; restore the terminal afterwards."""
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    saved = termios.tcgetattr(descriptor)
    try:
        tty.setraw(descriptor)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, saved)
