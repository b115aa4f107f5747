"""A list on the terminal: type to filter, arrows to move, Enter to take, Esc to leave."""

import os
import sys
import time

from open_token.cli.console import Console, cut, relative_age, visible
from open_token.cli.keyboard import DOWN, ENTER, ERASE, ESCAPE, UP, key_typed, raw_terminal
from open_token.locallib.discovery import Session

_ROWS = 12


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
    with raw_terminal():
        while True:
            shown = filtered(found, typed)
            at = max(0, min(at, len(shown) - 1))
            _draw(shown, typed, at, console, now)
            key = key_typed()
            if key == ENTER and shown:
                _clear()
                return shown[at]
            if key == ESCAPE:
                _clear()
                return None
            if key in (UP, DOWN):
                at += 1 if key == DOWN else -1
            elif key == ERASE:
                typed = typed[:-1]
            elif key.isprintable() and key != ENTER:
                typed, at = typed + key, 0


def _draw(shown: list[Session], typed: str, at: int, console: Console, now: float) -> None:
    columns, lines = os.get_terminal_size(sys.stderr.fileno())
    rows = max(3, min(_ROWS, lines - 3))
    first = max(0, min(at - rows // 2, len(shown) - rows))
    text = [
        cut(f"export which? {visible(typed)}_   ({len(shown)})  arrows, Enter, Esc", columns - 1)
    ]
    for number, session in enumerate(shown[first : first + rows], first):
        row = label(session, columns - 3, now)
        text.append(console.paint(f"> {row}", "bold", True) if number == at else f"  {row}")
    sys.stderr.write("\r\x1b[J" + "\r\n".join(text) + f"\r\x1b[{len(text) - 1}A" * (len(text) > 1))
    sys.stderr.flush()


def _clear() -> None:
    sys.stderr.write("\r\x1b[J")
    sys.stderr.flush()
