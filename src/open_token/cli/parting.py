"""Two runs side by side on a terminal: the sentence, the parting with what is around it, what is
left, in figures."""

import argparse
from collections.abc import Iterator
from typing import Any

import msgspec

from open_token.cli.console import Console, cut, visible
from open_token.comparing import Difference
from open_token.comparing.judging import ALONE, EQUAL, ORDER, Row
from open_token.comparing.report import Change
from open_token.comparing.steps import Step, said
from open_token.comparing.words import word_changes

_HEAD = f"{'A':>5} {'B':>5}"
_EQUAL_WORDS = 60
"""Characters of words that stayed which stand between two changes."""
_FILES = 8
_TOUCHED = (
    ("same", "changed alike:"),
    ("differ", "changed otherwise:"),
    ("only_a", "only A:"),
    ("only_b", "only B:"),
)
_COLOURS = {"=": "dim", "-": "red", "+": "green", "~": "yellow"}


def lines(difference: Difference, args: argparse.Namespace, console: Console) -> Iterator[str]:
    """The report, line by line."""
    yield difference.sentence
    if args.quiet:
        return
    if not difference.same:
        shown = _shown(difference, args.context, every=args.all)
        yield _HEAD
        yield from _Page(difference, console).rows(shown)
        yield from _folded(difference, shown)
    yield from _figures(difference)
    yield from (f"note    {note}" for note in difference.notes)


def _shown(difference: Difference, context: int, *, every: bool) -> list[int]:
    """The places of the rows that are shown."""
    rows, parting = difference.rows, difference.parting
    if every:
        places = [place for place, row in enumerate(rows) if row.kind != EQUAL]
    else:
        places = [parting.row] if parting else []
    near: dict[int, None] = {}
    for place in places:
        near.update(
            dict.fromkeys(range(max(0, place - context), min(len(rows), place + context + 1)))
        )
    return sorted(near)


def _folded(difference: Difference, shown: list[int]) -> Iterator[str]:
    """What is not shown, counted."""
    seen = set(shown)
    left: dict[str, int] = {}
    for place, row in enumerate(difference.rows):
        if row.kind != EQUAL and place not in seen:
            left[row.kind] = left.get(row.kind, 0) + 1
    if left:
        counts = ", ".join(f"{kind} {count:,}" for kind, count in left.items())
        yield f"folded  {counts}; --all shows them"


class _Page:
    """Rows as lines."""

    def __init__(self, difference: Difference, console: Console) -> None:
        self._difference = difference
        self._console = console
        self._width = console.width() if console.out_is_terminal else 0

    def rows(self, shown: list[int]) -> Iterator[str]:
        """The rows at these places, with a word for what lies between."""
        last = -1
        for place in shown:
            if place > last + 1:
                yield self._fold(place - last - 1)
            yield from self._row(self._difference.rows[place])
            last = place
        if last < len(self._difference.rows) - 1:
            yield self._fold(len(self._difference.rows) - last - 1)

    def _fold(self, count: int) -> str:
        return f"{'...':>11}    {count:,} more"

    def _row(self, row: Row) -> Iterator[str]:
        if row.kind in (EQUAL, ORDER):
            outcome = _outcome(row.step) if row.kind == EQUAL else "in another order"
            yield self._line(
                row.a, row.b, "=" if row.kind == EQUAL else "~", _label(row.step), outcome
            )
        elif row.kind in ALONE or row.kind == "tool_changed":
            for sign, step in (("-", row.a), ("+", row.b)):
                if step is not None:
                    one, other = (step, None) if sign == "-" else (None, step)
                    yield self._line(one, other, sign, _label(step), _outcome(step))
        else:
            yield from self._changed(row)

    def _changed(self, row: Row) -> Iterator[str]:
        """One line for the step, and one for each value that differs in it."""
        assert row.a is not None
        assert row.b is not None
        changes = self._difference.changes(row)
        if row.step.kind == "call":
            tools = row.a.tool if row.a.tool == row.b.tool else f"{row.a.tool} -> {row.b.tool}"
            ends = [end for end in (_outcome(row.a), _outcome(row.b)) if end]
            label = f"{visible(tools)[:60]:8} {_plain(_target(row.a))}"
            yield self._line(row.a, row.b, "~", label, " -> ".join(dict.fromkeys(ends)))
        else:
            yield self._line(row.a, row.b, "~", f"{_speaker(row.step):9}", "")
        for change in changes:
            yield self._change(change)

    def _change(self, change: Change) -> str:
        text = f"{'':15}{visible(change.path)[:80]}  {self._words(change)}"
        return cut(text, self._width) if self._width else text

    def _words(self, change: Change) -> str:
        """How the value changed; what is cut to a screen begins with the first change."""
        old, new = (
            _text(value) if there else ""
            for value, there in ((change.a, change.in_a), (change.b, change.in_b))
        )
        pieces = word_changes(old, new)
        made = [
            self._piece(sign, text, place, len(pieces)) for place, (sign, text) in enumerate(pieces)
        ]
        return "".join(made)

    def _piece(self, sign: str, text: str, place: int, count: int) -> str:
        if sign != "=":
            opening, closing = ("[-", "-]") if sign == "-" else ("{+", "+}")
            return f"{opening}{_shown_lines(text)}{closing}"
        half = _EQUAL_WORDS // 2
        head, tail = text[:half] if place else "", text[-half:] if place < count - 1 else ""
        return _shown_lines(text if len(text) <= len(head) + len(tail) else f"{head}...{tail}")

    def _line(self, a: Step | None, b: Step | None, sign: str, label: str, outcome: str) -> str:
        numbers = f"{a.number if a else '':>5} {b.number if b else '':>5}"
        painted = self._console.paint(sign, _COLOURS[sign], self._console.out_is_terminal)
        if self._width:
            label = cut(label, max(10, self._width - 15 - (len(outcome) + 2 if outcome else 0)))
        return f"{numbers}  {painted} {label.rstrip()}{'  ' if outcome else ''}{outcome}"


def _label(step: Step) -> str:
    if step.kind == "call":
        return f"{visible(step.tool)[:60]:8} {_plain(_target(step))}"
    return f"{_speaker(step):9} {_plain(_text(said(step.event)))}"


def _speaker(step: Step) -> str:
    return visible(step.role or step.kind)[:20]


def _target(step: Step) -> str:
    return step.deed.shown or step.deed.target or _text(step.arguments)


def _plain(text: str) -> str:
    """Words on one line."""
    return visible(" ".join(text.split()))


def _shown_lines(text: str) -> str:
    """Text on one line in which the ends of its lines are to be seen."""
    return visible(text.replace("\n", "\\n").replace("\t", "\\t"))


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return "\n".join(value)
    try:
        return "" if value is None else msgspec.json.encode(value).decode()
    except (UnicodeEncodeError, msgspec.MsgspecError, RecursionError, TypeError):
        return str(type(value).__name__)


def _outcome(step: Step) -> str:
    """What came of a call, in a few words."""
    if step.kind != "call":
        return ""
    if not step.has_result:
        return "no result"
    parts = []
    code, seconds = step.facts.get("exit_code"), step.facts.get("duration_seconds")
    if type(code) is int:
        parts.append(f"exit {code}")
    elif step.failed:
        parts.append("failed")
    if isinstance(seconds, int | float) and not isinstance(seconds, bool):
        parts.append(f"{seconds:.1f} s")
    if not parts and step.result is not None and isinstance(text := said(step.result), str):
        count = len(text.splitlines())
        parts.append("1 line" if count == 1 else f"{count:,} lines")
    return ", ".join(parts)


def _figures(difference: Difference) -> Iterator[str]:
    a, b = difference.a, difference.b
    steps = f"steps {a.steps:,} -> {b.steps:,}"
    if percent := round(100 * (b.steps - a.steps) / a.steps) if a.steps else 0:
        steps += f" ({percent:+d} %)"
    parts = [steps, f"failed {a.failed:,} -> {b.failed:,}"]
    if a.seconds is not None or b.seconds is not None:
        parts.append(f"time {_time(a.seconds)} -> {_time(b.seconds)}")
    yield f"total   {'   '.join(parts)}"
    tokens = [
        f"{word} {_count(a.tokens.get(name))} -> {_count(b.tokens.get(name))}"
        for name, word in (("input_tokens", "in"), ("output_tokens", "out"))
        if name in a.tokens or name in b.tokens
    ]
    if tokens:
        yield f"tokens  {'   '.join(tokens)}"
    if a.models != b.models:
        yield f"model   {_names(a.models) or '?'} -> {_names(b.models) or '?'}"
    files = difference.files
    told = [f"{word} {_names(files[name])}" for name, word in _TOUCHED if files[name]]
    if told:
        yield f"files   {'   '.join(told)}"


def _names(names: list[str]) -> str:
    more = f" and {len(names) - _FILES:,} more" if len(names) > _FILES else ""
    return ", ".join(visible(name)[:200] for name in names[:_FILES]) + more


def _count(count: int | None) -> str:
    if count is None:
        return "?"
    return (
        f"{count:,}"
        if count < 1000
        else f"{count / 1000:,.1f}k"
        if count < 100_000
        else f"{count / 1000:,.0f}k"
    )


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
