"""A diff of two sessions as text: verdict, divergence with context, totals."""

import argparse
from collections.abc import Iterator
from typing import Any

import msgspec

from open_token.cli.shared.console import Console, escape_controls, truncate_to_columns
from open_token.comparison import Difference
from open_token.comparison.divergence import EQUAL, ONE_SIDED, ORDER, Row
from open_token.comparison.report import ValueChange
from open_token.comparison.steps import Step
from open_token.comparison.words import diff_words
from open_token.jsontools.objects import get_content

_HEADING = f"{'A':>5} {'B':>5}"
_MARGIN = 15
"""Columns of the step numbers and the operation."""
_UNCHANGED_CHARACTERS = 60
"""Unchanged characters that are shown between two changes."""
_MAX_NAMES = 8
_MIN_LABEL = 10
_FILE_GROUPS = (
    ("same", "same change:"),
    ("differ", "different change:"),
    ("only_a", "only A:"),
    ("only_b", "only B:"),
)
_COLORS = {"=": "dim", "-": "red", "+": "green", "~": "yellow"}


def render_diff(
    difference: Difference, args: argparse.Namespace, console: Console
) -> Iterator[str]:
    """Yield the lines of the report."""
    yield difference.sentence
    if args.quiet:
        return
    if not difference.same:
        shown = _select_rows(difference, args.context, is_complete=args.all)
        yield _HEADING
        yield from _RowRenderer(difference, console).render(shown)
        yield from _count_hidden(difference, shown)
    yield from _render_totals(difference)
    for note in difference.notes:
        yield _render_line("note", [note])


def _select_rows(difference: Difference, context: int, *, is_complete: bool) -> list[int]:
    """Return the indices of the rows to show: differences with the rows around them."""
    rows = difference.rows
    centers: list[int] = []
    if is_complete:
        centers = [index for index, row in enumerate(rows) if row.kind != EQUAL]
    elif difference.divergence:
        centers = [difference.divergence.row]
    selected: set[int] = set()
    for center in centers:
        first = max(0, center - context)
        selected.update(range(first, min(len(rows), center + context + 1)))
    return sorted(selected)


def _count_hidden(difference: Difference, shown: list[int]) -> Iterator[str]:
    visible = set(shown)
    counts: dict[str, int] = {}
    for index, row in enumerate(difference.rows):
        if row.kind != EQUAL and index not in visible:
            counts[row.kind] = counts.get(row.kind, 0) + 1
    if not counts:
        return
    listed = [f"{kind} {count:,}" for kind, count in counts.items()]
    yield f"hidden  {', '.join(listed)}; show them with --all"


class _RowRenderer:
    """Renders aligned steps, cut to the width of a screen."""

    def __init__(self, difference: Difference, console: Console) -> None:
        self._difference = difference
        self._console = console
        self._width = console.width() if console.stdout_is_terminal else 0

    def render(self, shown: list[int]) -> Iterator[str]:
        """Yield the lines of the rows at these indices, with a count for each gap."""
        rows = self._difference.rows
        next_index = 0
        for index in shown:
            if index > next_index:
                yield self._render_gap(index - next_index)
            yield from self._render_row(rows[index])
            next_index = index + 1
        if next_index < len(rows):
            yield self._render_gap(len(rows) - next_index)

    def _render_gap(self, count: int) -> str:
        return f"{'...':>11}    {count:,} more"

    def _render_row(self, row: Row) -> Iterator[str]:
        if row.kind == EQUAL:
            outcome = _describe_outcome(row.step)
            yield self._render_step(row.a, row.b, "=", _describe_step(row.step), outcome)
        elif row.kind == ORDER:
            label = _describe_step(row.step)
            yield self._render_step(row.a, row.b, "~", label, "in a different order")
        elif row.kind in ONE_SIDED or row.kind == "tool_changed":
            if row.a is not None:
                yield self._render_single(row.a, None, row.a, "-")
            if row.b is not None:
                yield self._render_single(None, row.b, row.b, "+")
        else:
            yield from self._render_changed(row)

    def _render_single(self, a: Step | None, b: Step | None, step: Step, op: str) -> str:
        return self._render_step(a, b, op, _describe_step(step), _describe_outcome(step))

    def _render_changed(self, row: Row) -> Iterator[str]:
        """Yield a line for the step, and one for each value that differs in it."""
        assert row.a is not None
        assert row.b is not None
        changes = self._difference.changes(row)
        if row.step.kind == "call":
            if row.a.tool == row.b.tool:
                tools = row.a.tool
            else:
                tools = f"{row.a.tool} -> {row.b.tool}"
            outcomes = [_describe_outcome(row.a), _describe_outcome(row.b)]
            # Equal outcomes are shown once.
            outcome = " -> ".join(dict.fromkeys(filter(None, outcomes)))
            label = _label_call(tools, row.a)
            yield self._render_step(row.a, row.b, "~", label, outcome)
        else:
            speaker = _find_speaker(row.step)
            yield self._render_step(row.a, row.b, "~", speaker, "")
        for change in changes:
            yield self._render_change(change)

    def _render_change(self, change: ValueChange) -> str:
        margin = " " * _MARGIN
        path = escape_controls(change.path)[:80]
        text = f"{margin}{path}  {self._render_word_changes(change)}"
        if self._width:
            return truncate_to_columns(text, self._width)
        return text

    def _render_word_changes(self, change: ValueChange) -> str:
        old = _to_text(change.a) if change.in_a else ""
        new = _to_text(change.b) if change.in_b else ""
        pieces = diff_words(old, new)
        last_index = len(pieces) - 1
        rendered = ""
        for index, (op, text) in enumerate(pieces):
            is_first = index == 0
            is_last = index == last_index
            rendered += _render_piece(op, text, is_first=is_first, is_last=is_last)
        return rendered

    def _render_step(
        self, a: Step | None, b: Step | None, op: str, label: str, outcome: str
    ) -> str:
        number_a = str(a.number) if a else ""
        number_b = str(b.number) if b else ""
        numbers = f"{number_a:>5} {number_b:>5}"
        styled = self._console.style(op, _COLORS[op], self._console.stdout_is_terminal)
        suffix = f"  {outcome}" if outcome else ""
        if self._width:
            # The outcome is shown in any case, and the label as far as it fits.
            columns = self._width - _MARGIN - len(suffix)
            label = truncate_to_columns(label, max(_MIN_LABEL, columns))
        return f"{numbers}  {styled} {label.rstrip()}{suffix}"


def _render_piece(op: str, text: str, *, is_first: bool, is_last: bool) -> str:
    """Render removed, added or unchanged text; long unchanged text is shortened.

    Only the ends next to a change are kept: a line cut to a screen starts at the first change."""
    if op == "-":
        return f"[-{_escape_lines(text)}-]"
    if op == "+":
        return f"{{+{_escape_lines(text)}+}}"
    half = _UNCHANGED_CHARACTERS // 2
    head = "" if is_first else text[:half]
    tail = "" if is_last else text[-half:]
    if len(text) <= len(head) + len(tail):
        return _escape_lines(text)
    return _escape_lines(f"{head}...{tail}")


def _describe_step(step: Step) -> str:
    if step.kind == "call":
        return _label_call(step.tool, step)
    text = _to_text(get_content(step.event))
    return f"{_find_speaker(step)} {_join_lines(text)}"


def _label_call(tools: str, step: Step) -> str:
    """Return the tool, and what the call acts on, in columns."""
    name = escape_controls(tools)[:60]
    target = _join_lines(_find_target(step))
    return f"{name:8} {target}"


def _find_speaker(step: Step) -> str:
    """Return who says a message, as wide as the column of tools and the space after it."""
    speaker = escape_controls(step.role or step.kind)[:20]
    return f"{speaker:9}"


def _find_target(step: Step) -> str:
    return step.action.shown or step.action.target or _to_text(step.arguments)


def _join_lines(text: str) -> str:
    return escape_controls(" ".join(text.split()))


def _escape_lines(text: str) -> str:
    return escape_controls(text.replace("\n", "\\n").replace("\t", "\\t"))


def _to_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return "\n".join(value)
    try:
        return msgspec.json.encode(value).decode()
    except (UnicodeEncodeError, msgspec.MsgspecError, RecursionError, TypeError):
        return str(type(value).__name__)


def _describe_outcome(step: Step) -> str:
    """Describe the result of a call: exit code, duration, or number of lines."""
    if step.kind != "call":
        return ""
    if not step.has_result:
        return "no result"
    parts = []
    exit_code = step.facts.get("exit_code")
    seconds = step.facts.get("duration_seconds")
    # Facts come from a document that anybody may have written: `True` is no exit code.
    if type(exit_code) is int:
        parts.append(f"exit {exit_code}")
    elif step.failed:
        parts.append("failed")
    if type(seconds) in (int, float):
        parts.append(f"{seconds:.1f} s")
    if not parts and step.result is not None:
        text = get_content(step.result)
        if isinstance(text, str):
            count = len(text.splitlines())
            parts.append("1 line" if count == 1 else f"{count:,} lines")
    return ", ".join(parts)


def _render_totals(difference: Difference) -> Iterator[str]:
    a = difference.a
    b = difference.b
    steps = f"steps {a.steps:,} -> {b.steps:,}"
    if a.steps:
        percent = round(100 * (b.steps - a.steps) / a.steps)
        if percent:
            steps += f" ({percent:+d} %)"
    totals = [steps, f"failed {a.failed:,} -> {b.failed:,}"]
    if a.seconds is not None or b.seconds is not None:
        time_a = _format_duration(a.seconds)
        time_b = _format_duration(b.seconds)
        totals.append(f"time {time_a} -> {time_b}")
    yield _render_line("total", totals)

    tokens = []
    for name, label in (("input_tokens", "in"), ("output_tokens", "out")):
        if name in a.tokens or name in b.tokens:
            count_a = _format_count(a.tokens.get(name))
            count_b = _format_count(b.tokens.get(name))
            tokens.append(f"{label} {count_a} -> {count_b}")
    if tokens:
        yield _render_line("tokens", tokens)
    if a.models != b.models:
        models_a = _list_names(a.models) or "?"
        models_b = _list_names(b.models) or "?"
        yield _render_line("model", [f"{models_a} -> {models_b}"])

    files = []
    for name, label in _FILE_GROUPS:
        names = difference.files[name]
        if names:
            files.append(f"{label} {_list_names(names)}")
    if files:
        yield _render_line("files", files)


def _render_line(label: str, values: list[str]) -> str:
    return f"{label:7} {'   '.join(values)}"


def _list_names(names: list[str]) -> str:
    shown = [escape_controls(name)[:200] for name in names[:_MAX_NAMES]]
    listed = ", ".join(shown)
    more = len(names) - len(shown)
    if more:
        listed += f" and {more:,} more"
    return listed


def _format_count(count: int | None) -> str:
    if count is None:
        return "?"
    if count < 1000:
        return f"{count:,}"
    if count < 100_000:
        return f"{count / 1000:,.1f}k"
    return f"{count / 1000:,.0f}k"


def _format_duration(seconds: float | None) -> str:
    if seconds is None:
        return "?"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02d}:{seconds:02d}"
    return f"{minutes}:{seconds:02d}"
