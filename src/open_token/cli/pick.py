"""A list on the terminal: type to filter, arrows to move, Enter to take, Esc to leave."""

import contextlib
import os
import select
import sys
import time
from collections.abc import Iterator

from open_token.cli.console import Console, cut, relative_age, visible
from open_token.discover import Session

_ROWS = 12
_UP, _DOWN, _ENTER, _ESCAPE, _ERASE = "up", "down", "enter", "escape", "erase"
_KEYS = {
    b"\x1b[A": _UP,
    b"\x1b[B": _DOWN,
    b"\x1bOA": _UP,
    b"\x1bOB": _DOWN,
    b"\x10": _UP,
    b"\x0e": _DOWN,
    b"\r": _ENTER,
    b"\n": _ENTER,
    b"\x1b": _ESCAPE,
    b"\x03": _ESCAPE,
    b"\x7f": _ERASE,
    b"\x08": _ERASE,
}


def label(session: Session, width: int, now: float) -> str:
    """One row of the list."""
    title = session.title or session.path.name
    row = f"{session.id[:8]:8}  {session.reader:12.12}  {relative_age(now - session.modified):>5}  {title}"
    return cut(visible(row), width)


def filtered(found: list[Session], typed: str) -> list[Session]:
    """Those in which every typed word occurs."""
    words = typed.lower().split()
    return [session for session in found if all(word in _searched(session) for word in words)]


def _searched(session: Session) -> str:
    return f"{session.id} {session.reader} {session.title or session.path.name} {session.cwd or ''}".lower()


def pick(found: list[Session], console: Console) -> Session | None:
    """The session that the person takes; None when they leave."""
    typed, at, now = "", 0, time.time()
    with _raw_terminal():
        while True:
            shown = filtered(found, typed)
            at = max(0, min(at, len(shown) - 1))
            _draw(shown, typed, at, console, now)
            key = _key()
            if key == _ENTER and shown:
                _clear()
                return shown[at]
            if key == _ESCAPE:
                _clear()
                return None
            if key in (_UP, _DOWN):
                at += 1 if key == _DOWN else -1
            elif key == _ERASE:
                typed = typed[:-1]
            elif key.isprintable() and key != _ENTER:
                typed, at = typed + key, 0


def _draw(shown: list[Session], typed: str, at: int, console: Console, now: float) -> None:
    columns, lines = os.get_terminal_size(sys.stderr.fileno())
    rows = max(3, min(_ROWS, lines - 3))
    first = max(0, min(at - rows // 2, len(shown) - rows))
    text = [cut(f"export which? {visible(typed)}_   ({len(shown)})  arrows, Enter, Esc", columns - 1)]
    for number, session in enumerate(shown[first : first + rows], first):
        row = label(session, columns - 3, now)
        text.append(console.paint(f"> {row}", "bold", True) if number == at else f"  {row}")
    sys.stderr.write("\r\x1b[J" + "\r\n".join(text) + f"\r\x1b[{len(text) - 1}A" * (len(text) > 1))
    sys.stderr.flush()


def _clear() -> None:
    sys.stderr.write("\r\x1b[J")
    sys.stderr.flush()


def _key() -> str:
    """One key: its name, or the character typed."""
    descriptor = sys.stdin.fileno()
    raw = os.read(descriptor, 1)
    if raw == b"\x1b" and select.select([descriptor], [], [], 0.03)[0]:
        raw += _sequence(descriptor)
    elif raw and raw[0] >= 0xC0:
        raw += os.read(descriptor, 1 if raw[0] < 0xE0 else 2 if raw[0] < 0xF0 else 3)
    return _KEYS.get(raw) or (_ESCAPE if not raw else raw.decode("utf-8", "ignore"))


def _sequence(descriptor: int) -> bytes:
    """What one key sends after Esc: a character, or `[` or `O` and all up to the letter or ~ that ends it."""
    rest = last = os.read(descriptor, 1)
    while last and (len(rest) == 1 or not 0x40 <= last[0] <= 0x7E) and rest[:1] in (b"[", b"O"):
        last = os.read(descriptor, 1)
        rest += last
    return rest


@contextlib.contextmanager
def _raw_terminal() -> Iterator[None]:
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
