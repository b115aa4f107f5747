"""`redact --review`: goes through the finds on a terminal: rule, place, masked context; a value
only on demand."""

import contextlib
import os
import select
import sys
from collections import Counter
from collections.abc import Callable, Iterator

from open_token.cli.console import Console, columns_of, cut, plural, visible
from open_token.cli.found import words_around
from open_token.cli.keyboard import DOWN, ENTER, ESCAPE, UP, key_typed, raw_terminal
from open_token.passes.findings import Finding, Place, short

MASK, KEEP, FALSE = "mask", "keep", "false for good"
_DECISIONS = {"m": MASK, "k": KEEP, "f": FALSE}
_NEXT, _BACK, _QUIT = ("n", " ", ENTER, DOWN), ("p", "b", UP), ("q", ESCAPE)
_DECIDE = ("m mask", "k keep this time", "K keep all of this rule", "f false for good", "u undo")
_MOVE = ("n next", "p back", "v look at the value")
_LEAVE = ("w write", "q quit, nothing is written")
_LEAVE_UNWRITTEN = ("w done, nothing is written without -o", "q quit, nothing is remembered")
_GAP = "   "
_FRAME = 11
_VALUE_ROWS = 3
_WAKE = 0.2

Locked = Callable[[Finding], str]


def review(
    findings: list[Finding], console: Console, locked: Locked, *, writes: bool = True
) -> list[str] | None:
    """The decision on each find; None when the person quits. `locked` says why one must be masked,
    if so."""
    talk = _Review(findings, console, locked, _LEAVE if writes else _LEAVE_UNWRITTEN)
    with raw_terminal(), _own_screen():
        while True:
            size = _size()
            _show(talk.page(*size))
            key = _key(size)
            if key in _QUIT:
                return None
            if key == "w":
                return talk.decisions
            if key:
                talk.take(key)


def _key(size: tuple[int, int]) -> str:
    """The next key; nothing when the terminal has another size meanwhile, so that the page is drawn
    anew."""
    while not select.select([sys.stdin.fileno()], [], [], _WAKE)[0]:
        if _size() != size:
            return ""
    return key_typed()


class _Review:
    """Which find is shown, and what was decided so far."""

    def __init__(
        self, findings: list[Finding], console: Console, locked: Locked, leave: tuple[str, ...]
    ) -> None:
        self._findings = findings
        self._console = console
        self._locks = [locked(finding) for finding in findings]
        self._leave = leave
        self._at = 0
        self._first_place = 0
        self._room = 1
        self._is_open = False
        self._before: list[tuple[int, dict[int, str]]] = []
        self.decisions = [MASK] * len(findings)

    def take(self, key: str) -> None:
        """What one key does."""
        # A value that was looked at is hidden again by whatever comes next.
        self._is_open = key == "v" and not self._is_open
        at = self._at
        self._act(key)
        if self._at != at:
            self._first_place = 0

    def _act(self, key: str) -> None:
        if key in _NEXT:
            self._at = min(self._at + 1, len(self._findings))
        elif key in _BACK:
            self._at = max(self._at - 1, 0)
        elif key == "u" and self._before:
            self._at, old = self._before.pop()
            for number, decision in old.items():
                self.decisions[number] = decision
        elif self._at == len(self._findings):
            return
        elif key == "o":
            after = self._first_place + self._room
            self._first_place = after if after < len(self._findings[self._at].places) else 0
        elif key in _DECISIONS and (key == "m" or not self._locks[self._at]):
            self._decide([self._at], _DECISIONS[key])
        elif key == "K" and not self._locks[self._at]:
            rule = self._findings[self._at].rule
            self._decide(
                [number for number, item in enumerate(self._findings) if item.rule == rule], KEEP
            )

    def _decide(self, numbers: list[int], decision: str) -> None:
        open_ones = [number for number in numbers if not self._locks[number]]
        self._before.append((self._at, {number: self.decisions[number] for number in open_ones}))
        for number in open_ones:
            self.decisions[number] = decision
        self._at += 1

    def page(self, columns: int, lines: int) -> list[str]:
        """What is on the screen now."""
        columns -= 1
        if self._at == len(self._findings):
            told = f"review  {plural(len(self._findings), 'find')} seen: {summary(self.decisions)}"
            return [cut(told, columns), "", *_laid_out(("p back", "u undo", *self._leave), columns)]
        head = f"review  {self._at + 1:,} of {len(self._findings):,}   ({summary(self.decisions)})"
        page = [cut(head, columns), "", *self._find(columns, lines)]
        return page if len(page) <= lines else [line for line in page if line][:lines]

    def _find(self, columns: int, lines: int) -> list[str]:
        finding = self._findings[self._at]
        text = [f"{finding.type}   rule {finding.rule} ({finding.level})", finding.shape]
        text = [cut(line, columns) for line in text]
        if self._is_open:
            text += _in_rows(visible(finding.value), columns)
        text.append("")
        keys = _laid_out((*_DECIDE, *_MOVE, *self._leave), columns)
        self._room = max(1, (lines - _FRAME - len(keys)) // 2)
        first = self._first_place
        for place in finding.places[first : first + self._room]:
            text.append(cut(f"  {visible(short(place.where))}", columns))
            text.append(self._context(finding.type, place, columns - 4))
        if finding.count > self._room:
            last = min(first + self._room, len(finding.places))
            text.append(
                cut(
                    f"  {first + 1:,} to {last:,} of {plural(finding.count, 'place')}   o others",
                    columns,
                )
            )
        lock = self._locks[self._at]
        told = cut(f"mask: {lock}" if lock else self.decisions[self._at], columns - 10)
        return [*text, "", f"decision: {self._console.paint(told, 'bold', True)}", *keys]

    def _context(self, kind: str, place: Place, columns: int) -> str:
        """The words around a find, as many as fit on a line."""
        name = f"[{kind}]"
        before, after = words_around(place, max(16, columns - len(name)))
        return f"    {before}{self._console.paint(name, 'yellow', True)}{after}"


def _laid_out(keys: tuple[str, ...], columns: int) -> list[str]:
    """What the keys do, on as many rows as it takes."""
    rows = [""]
    for key in keys:
        longer = f"{rows[-1]}{_GAP}{key}" if rows[-1] else key
        if columns_of(longer) > columns and rows[-1]:
            rows.append(key)
        else:
            rows[-1] = longer
    return [cut(row, columns) for row in rows]


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
    return ", ".join(
        f"{counts[kind]:,} {word}" for word, kind in words if counts[kind] or kind == MASK
    )


@contextlib.contextmanager
def _own_screen() -> Iterator[None]:
    """A screen of our own; what was there before comes back."""
    sys.stderr.write("\x1b[?1049h")
    try:
        yield
    finally:
        sys.stderr.write("\x1b[?1049l")
        sys.stderr.flush()
