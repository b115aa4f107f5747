"""`redact --review`: goes through the finds on a terminal: rule, place, masked context; a value only on demand."""

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
_KEYS = (
    "m mask   k keep this time   K keep all of this rule   f false for good   u undo",
    "n next   p back   v look at the value   w write   q quit, nothing is written",
)
_END = "w write   p back   u undo   q quit, nothing is written or remembered"
_FRAME = 13
_VALUE_ROWS = 3

Locked = Callable[[Finding], str]


def review(findings: list[Finding], console: Console, locked: Locked) -> list[str] | None:
    """The decision on each find; None when the person quits. `locked` says why one must be masked, if so."""
    talk = _Review(findings, console, locked)
    with raw_terminal(), _own_screen():
        while True:
            _show(talk.page())
            key = key_typed()
            if key in _QUIT:
                return None
            if key == "w":
                return talk.decisions
            talk.take(key)


class _Review:
    """Which find is shown, and what was decided so far."""

    def __init__(self, findings: list[Finding], console: Console, locked: Locked) -> None:
        self._findings = findings
        self._console = console
        self._locks = [locked(finding) for finding in findings]
        self._at = 0
        self._is_open = False
        self._before: list[tuple[int, list[str]]] = []
        self.decisions = [MASK] * len(findings)

    def take(self, key: str) -> None:
        """What one key does."""
        # A value that was looked at is hidden again by whatever comes next.
        self._is_open = key == "v" and not self._is_open
        if key in _NEXT:
            self._at = min(self._at + 1, len(self._findings))
        elif key in _BACK:
            self._at = max(self._at - 1, 0)
        elif key == "u" and self._before:
            self._at, self.decisions = self._before.pop()
        elif self._at == len(self._findings):
            return
        elif key in _DECISIONS and (key == "m" or not self._locks[self._at]):
            self._decide([self._at], _DECISIONS[key])
        elif key == "K" and not self._locks[self._at]:
            rule = self._findings[self._at].rule
            self._decide([number for number, item in enumerate(self._findings) if item.rule == rule], KEEP)

    def _decide(self, numbers: list[int], decision: str) -> None:
        self._before.append((self._at, list(self.decisions)))
        for number in numbers:
            if not self._locks[number]:
                self.decisions[number] = decision
        self._at += 1

    def page(self) -> list[str]:
        """What is on the screen now."""
        columns, lines = _size()
        if self._at == len(self._findings):
            told = f"review  {plural(len(self._findings), 'find')} seen: {summary(self.decisions)}"
            return [cut(line, columns - 1) for line in (told, "", _END)]
        head = f"review  {self._at + 1} of {len(self._findings)}   ({summary(self.decisions)})"
        return [cut(head, columns - 1), "", *self._find(columns - 1, lines)]

    def _find(self, columns: int, lines: int) -> list[str]:
        finding = self._findings[self._at]
        text = [f"{finding.type}   rule {finding.rule} ({finding.level})", finding.shape]
        text = [cut(line, columns) for line in text]
        if self._is_open:
            text += _in_rows(visible(finding.value), columns)
        text.append("")
        room = max(1, (lines - _FRAME) // 2)
        for place in finding.places[:room]:
            text.append(cut(f"  {visible(short(place.where))}", columns))
            text.append(self._context(finding.type, place.before, place.after, columns - 4))
        if finding.count > room:
            text.append(f"  and {plural(finding.count - room, 'more place')}")
        lock = self._locks[self._at]
        told = cut(f"mask: {lock}" if lock else self.decisions[self._at], columns - 10)
        return [
            *text,
            "",
            f"decision: {self._console.paint(told, 'bold', True)}",
            *(cut(row, columns) for row in _KEYS),
        ]

    def _context(self, kind: str, before: str, after: str, columns: int) -> str:
        """The words around a find, as many as fit on a line."""
        name = f"[{kind}]"
        side = max(8, (columns - len(name)) // 2)
        left = cut(visible(before)[::-1], side)[::-1]
        return f"    {left}{self._console.paint(name, 'yellow', True)}{cut(visible(after), side)}"


def _in_rows(text: str, columns: int) -> list[str]:
    """A value over a few rows; of a longer one its beginning."""
    width = columns if text.isascii() else columns // 2
    rows = [text[place : place + width] for place in range(0, len(text), width)]
    if len(rows) > _VALUE_ROWS:
        rows[_VALUE_ROWS - 1 :] = [rows[_VALUE_ROWS - 1][: width - 3] + "..."]
    return rows


def _size() -> tuple[int, int]:
    """Columns and lines; of a terminal that says 0, what is usual."""
    columns, lines = os.get_terminal_size(sys.stderr.fileno())
    return columns or 80, lines or 24


def _show(text: list[str]) -> None:
    sys.stderr.write("\x1b[H\x1b[J" + "\r\n".join(text))
    sys.stderr.flush()


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
