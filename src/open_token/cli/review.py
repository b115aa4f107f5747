"""`redact --review`: goes through the finds on a terminal; shows rule, place and masked context, never the value."""

import contextlib
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator

from open_token.cli.console import Console, cut, plural, visible
from open_token.cli.keyboard import DOWN, ENTER, ESCAPE, UP, key_typed, raw_terminal
from open_token.passes.findings import Finding, short

MASK, KEEP, FALSE = "mask", "keep", "false for good"
_DECISIONS = {"m": MASK, "k": KEEP, "f": FALSE}
_NEXT, _BACK, _QUIT = ("n", " ", ENTER, DOWN), ("p", "b", UP), ("q", ESCAPE)
_KEYS_LINE = "m mask  k keep this time  f false for good  n next  p back  w done  q quit"
_END_LINE = "w done  p back  q quit, nothing is written or remembered"
_FRAME = 9

Locked = Callable[[Finding], str]


def review(findings: list[Finding], console: Console, locked: Locked) -> list[str] | None:
    """The decision on each find; None when the person quits. `locked` says why one must be masked, if so."""
    decisions = [MASK] * len(findings)
    at = 0
    with raw_terminal(), _own_screen():
        while True:
            _draw(findings, decisions, at, console, locked)
            key = key_typed()
            if key in _QUIT:
                return None
            if key == "w":
                return decisions
            if at < len(findings) and key in _DECISIONS and (key == "m" or not locked(findings[at])):
                decisions[at] = _DECISIONS[key]
                at += 1
            elif key in _NEXT:
                at = min(at + 1, len(findings))
            elif key in _BACK:
                at = max(at - 1, 0)


def _draw(findings: list[Finding], decisions: list[str], at: int, console: Console, locked: Locked) -> None:
    columns, lines = os.get_terminal_size(sys.stderr.fileno())
    if at == len(findings):
        text = [f"review  {plural(len(findings), 'find')} seen: {summary(decisions)}", "", _END_LINE]
    else:
        text = _page(findings[at], decisions[at], lines, columns, console, locked(findings[at]))
        text.insert(0, f"review  {at + 1} of {len(findings)}   ({summary(decisions)})")
    shown = "\r\n".join(line if "\x1b" in line else cut(line, columns - 1) for line in text)
    sys.stderr.write(f"\x1b[H\x1b[J{shown}")
    sys.stderr.flush()


def _page(finding: Finding, decision: str, lines: int, columns: int, console: Console, lock: str) -> list[str]:
    text = ["", f"{finding.type}   rule {finding.rule} ({finding.level})", finding.shape, ""]
    room = max(1, (lines - _FRAME) // 2)
    for place in finding.places[:room]:
        text.append(f"  {visible(short(place.where))}")
        text.append(_context(finding, place.before, place.after, columns - 5, console))
    if finding.count > room:
        text.append(f"  and {plural(finding.count - room, 'more place')}")
    told = f"mask: {lock}" if lock else decision
    return [*text, "", f"decision: {console.paint(told, 'bold', True)}", _KEYS_LINE]


def _context(finding: Finding, before: str, after: str, columns: int, console: Console) -> str:
    """The words around a find, as many as fit on a line."""
    name = f"[{finding.type}]"
    side = max(8, (columns - len(name)) // 2)
    left, right = visible(before), visible(after)
    left = left if len(left) <= side else "..." + left[-(side - 3) :]
    return f"    {left}{console.paint(name, 'yellow', True)}{cut(right, side)}"


def summary(decisions: list[str]) -> str:
    """How many are masked, kept, and false for good."""
    counts = Counter(decisions)
    words = (("masked", MASK), ("kept", KEEP), ("false for good", FALSE))
    return ", ".join(f"{counts[kind]} {word}" for word, kind in words if counts[kind] or kind == MASK)


@contextlib.contextmanager
def _own_screen() -> Iterator[None]:
    """A screen of our own; what was there before comes back."""
    sys.stderr.write("\x1b[?1049h")
    try:
        yield
    finally:
        sys.stderr.write("\x1b[?1049l")
        sys.stderr.flush()
