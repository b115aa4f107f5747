"""`redact --review`: decide on findings in a terminal; a value is shown only on demand."""

import contextlib
import os
import select
import sys
from collections import Counter
from collections.abc import Callable, Iterator

from open_token.cli.shared.console import (
    Console,
    count_columns,
    escape_controls,
    pluralize,
    truncate_to_columns,
)
from open_token.cli.shared.findings import fit_context
from open_token.cli.shared.keyboard import DOWN, ENTER, ESCAPE, UP, raw_terminal, read_key
from open_token.library.review import FALSE_POSITIVE, KEEP, MASK
from open_token.redaction.findings import Finding, Place, abbreviate

_DECISION_KEYS = {"m": MASK, "k": KEEP, "f": FALSE_POSITIVE}
_NEXT_KEYS = ("n", " ", ENTER, DOWN)
_BACK_KEYS = ("p", "b", UP)
_QUIT_KEYS = ("q", ESCAPE)
_DECISION_HINTS = ("m mask", "k keep once", "K keep all of this rule", "f false positive", "u undo")
_MOVE_HINTS = ("n next", "p previous", "v show value", "? help")
_LEAVE_HINTS = ("w write", "q quit without writing")
_LEAVE_HINTS_WITHOUT_OUTPUT = ("w done, writes nothing without -o", "q quit, remembers nothing")
_HELP = (
    "keys of the review",
    "",
    "m        mask the value, everywhere it stands",
    "k        keep it in this file; the next review asks again",
    "K        keep all findings of this rule in this file",
    "f        no secret: keep it, and remember that by its hash for later exports",
    "u        undo the last decision",
    "n Enter  next finding              p b  previous finding",
    "v        show the value until the next key",
    "o        show other places of this finding",
    "w        end with these decisions",
    "q Esc    end without any",
    "",
    "What is not decided is masked. Any key goes back.",
)
_GAP = "   "
_FRAME_ROWS = 11
_VALUE_ROWS = 3
_RESIZE_POLL_SECONDS = 0.2

LockReason = Callable[[Finding], str]
"""Returns why a finding must be masked, or an empty string."""


def review(
    findings: list[Finding],
    console: Console,
    explain_lock: LockReason,
    *,
    writes: bool = True,
    remark: str = "",
) -> list[str] | None:
    """Return the user's decision on each finding; None when they quit.

    The remark is about what cannot be decided on, such as images.
    """
    hints = _LEAVE_HINTS if writes else _LEAVE_HINTS_WITHOUT_OUTPUT
    state = _Review(findings, console, explain_lock, hints, remark)
    with raw_terminal(), _alternate_screen():
        while True:
            size = _get_terminal_size()
            _draw(state.render(*size))
            key = _wait_for_key(size)
            if key and (key == "?" or state.is_help_shown):
                state.is_help_shown = not state.is_help_shown
                continue
            if key in _QUIT_KEYS:
                return None
            if key == "w":
                return state.decisions
            if key:
                state.handle_key(key)


def _wait_for_key(size: tuple[int, int]) -> str:
    """Return the next key; an empty string when the terminal was resized."""
    while not select.select([sys.stdin.fileno()], [], [], _RESIZE_POLL_SECONDS)[0]:
        if _get_terminal_size() != size:
            return ""
    return read_key()


class _Review:
    """The finding on the screen, and the decisions so far."""

    def __init__(
        self,
        findings: list[Finding],
        console: Console,
        explain_lock: LockReason,
        leave_hints: tuple[str, ...],
        remark: str = "",
    ) -> None:
        self._findings = findings
        self._console = console
        self._locks = [explain_lock(finding) for finding in findings]
        self._leave_hints = leave_hints
        self._remark = remark
        self._index = 0
        self._first_place = 0
        self._visible_places = 1
        self._is_value_shown = False
        self.is_help_shown = False
        self._undo_stack: list[tuple[int, dict[int, str]]] = []
        self.decisions = [MASK] * len(findings)

    def handle_key(self, key: str) -> None:
        """Change the state as a key demands; any key hides a value that was shown."""
        self._is_value_shown = key == "v" and not self._is_value_shown
        index = self._index
        self._apply_key(key)
        if self._index != index:
            self._first_place = 0

    def _apply_key(self, key: str) -> None:
        if key in _NEXT_KEYS:
            self._index = min(self._index + 1, len(self._findings))
        elif key in _BACK_KEYS:
            self._index = max(self._index - 1, 0)
        elif key == "u" and self._undo_stack:
            self._undo()
        elif self._index < len(self._findings):
            self._apply_finding_key(key)

    def _apply_finding_key(self, key: str) -> None:
        finding = self._findings[self._index]
        is_locked = bool(self._locks[self._index])
        if key == "o":
            # The next places of this finding, and after the last ones the first ones again.
            self._first_place += self._visible_places
            if self._first_place >= len(finding.places):
                self._first_place = 0
        elif key == "m":
            self._decide([self._index], MASK)
        elif key in _DECISION_KEYS and not is_locked:
            self._decide([self._index], _DECISION_KEYS[key])
        elif key == "K" and not is_locked:
            same_rule: list[int] = []
            for index, other in enumerate(self._findings):
                if other.rule == finding.rule:
                    same_rule.append(index)
            self._decide(same_rule, KEEP)

    def _decide(self, indices: list[int], decision: str) -> None:
        unlocked = [index for index in indices if not self._locks[index]]
        previous = {index: self.decisions[index] for index in unlocked}
        self._undo_stack.append((self._index, previous))
        for index in unlocked:
            self.decisions[index] = decision
        self._index += 1

    def _undo(self) -> None:
        self._index, previous = self._undo_stack.pop()
        for index, decision in previous.items():
            self.decisions[index] = decision

    def render(self, columns: int, lines: int) -> list[str]:
        """Return the lines of the screen."""
        # Some terminals wrap a line that fills the last column.
        columns -= 1
        if self.is_help_shown:
            return [truncate_to_columns(line, columns) for line in _HELP[:lines]]
        summary = summarize(self.decisions)
        total = len(self._findings)
        if self._index == total:
            head = f"review  {pluralize(total, 'finding')} seen: {summary}"
            hints = ("p previous", "u undo", *self._leave_hints)
            return [*self._render_head(head, columns), "", *_wrap_hints(hints, columns)]
        head = f"review  {self._index + 1:,} of {total:,}   ({summary})"
        page = [*self._render_head(head, columns), "", *self._render_finding(columns, lines)]
        if len(page) > lines:
            # Empty lines are the first to go on a small screen.
            page = [line for line in page if line][:lines]
        return page

    def _render_head(self, head: str, columns: int) -> list[str]:
        shown = [head]
        if self._remark:
            shown.append(self._remark)
        return [truncate_to_columns(line, columns) for line in shown]

    def _render_finding(self, columns: int, lines: int) -> list[str]:
        finding = self._findings[self._index]
        title = f"{finding.type}   rule {finding.rule} ({finding.level})"
        text = [truncate_to_columns(line, columns) for line in (title, finding.shape)]
        if self._is_value_shown:
            text += _wrap_value(escape_controls(finding.value), columns)
        text.append("")
        hints = _wrap_hints((*_DECISION_HINTS, *_MOVE_HINTS, *self._leave_hints), columns)
        # A place takes two rows: where it is, and the text around it.
        rows_left = lines - _FRAME_ROWS - len(hints)
        self._visible_places = max(1, rows_left // 2)
        text += self._render_places(finding, columns)
        lock = self._locks[self._index]
        if lock:
            decision = f"mask: {lock}"
        else:
            decision = _describe_decision(self.decisions[self._index])
        styled = self._console.style(truncate_to_columns(decision, columns - 10), "bold", True)
        return [*text, "", f"decision: {styled}", *hints]

    def _render_places(self, finding: Finding, columns: int) -> list[str]:
        text = []
        first = self._first_place
        for place in finding.places[first : first + self._visible_places]:
            where = escape_controls(abbreviate(place.where))
            text.append(truncate_to_columns(f"  {where}", columns))
            text.append(self._render_context(finding.type, place, columns - 4))
        if finding.count > self._visible_places:
            last = min(first + self._visible_places, len(finding.places))
            total = pluralize(finding.count, "place")
            position = f"  {first + 1:,} to {last:,} of {total}   o others"
            text.append(truncate_to_columns(position, columns))
        return text

    def _render_context(self, kind: str, place: Place, columns: int) -> str:
        """Render the text around a finding, as much as fits on a line."""
        label = f"[{kind}]"
        before, after = fit_context(place, max(16, columns - len(label)))
        return f"    {before}{self._console.style(label, 'yellow', True)}{after}"


def _describe_decision(decision: str) -> str:
    if decision == FALSE_POSITIVE:
        return "false positive"
    return decision


def _wrap_hints(hints: tuple[str, ...], columns: int) -> list[str]:
    rows: list[str] = []
    for hint in hints:
        if not rows:
            rows.append(hint)
            continue
        longer = f"{rows[-1]}{_GAP}{hint}"
        if count_columns(longer) > columns:
            rows.append(hint)
        else:
            rows[-1] = longer
    return [truncate_to_columns(row, columns) for row in rows]


def _wrap_value(text: str, columns: int) -> list[str]:
    """Wrap a value over a few rows; only the beginning of a longer one is shown."""
    # Characters of other scripts may take two columns.
    width = columns if text.isascii() else columns // 2
    rows = [text[start : start + width] for start in range(0, len(text), width)]
    if len(rows) > _VALUE_ROWS:
        rows = rows[:_VALUE_ROWS]
        rows[-1] = rows[-1][: width - 3] + "..."
    return rows


def _get_terminal_size() -> tuple[int, int]:
    """Return columns and lines, or the usual size for a terminal that reports 0."""
    columns, lines = os.get_terminal_size(sys.stderr.fileno())
    return columns or 80, lines or 24


def _draw(text: list[str]) -> None:
    # From the top left corner, over what was there; in raw mode a line feed returns to no margin.
    sys.stderr.write("\x1b[H\x1b[J" + "\r\n".join(text))
    sys.stderr.flush()


def summarize(decisions: list[str]) -> str:
    """Count the decisions, such as `3 masked, 1 kept`."""
    counts = Counter(decisions)
    parts = [f"{counts[MASK]:,} masked"]
    if counts[KEEP]:
        parts.append(f"{counts[KEEP]:,} kept")
    if counts[FALSE_POSITIVE]:
        parts.append(pluralize(counts[FALSE_POSITIVE], "false positive"))
    return ", ".join(parts)


@contextlib.contextmanager
def _alternate_screen() -> Iterator[None]:
    """Switch to the alternate screen; the previous content comes back afterwards."""
    sys.stderr.write("\x1b[?1049h")
    try:
        yield
    finally:
        sys.stderr.write("\x1b[?1049l")
        sys.stderr.flush()
