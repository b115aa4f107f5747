"""A conversation as lines for a terminal: the rows of the page, brief or in full.

Lines are not escaped; whoever prints them makes control characters visible.
"""

import textwrap
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from open_token.agents.tools import COMMAND, find_text
from open_token.model.document import Event, Record
from open_token.writers.html.blocks import format_value
from open_token.writers.line_diff import FileChange, trim_context
from open_token.writers.markdown import describe_size, get_aside_role
from open_token.writers.overview import Overview, build_overview, get_title
from open_token.writers.rows import Row, build_row, format_count, split_content
from open_token.writers.terminal import strip_escapes
from open_token.writers.timeline import Item, Timeline

PLAIN = ""
TITLE = "bold"
FAINT = "dim"
PROMPT = "cyan"
ADDED = "green"
REMOVED = "red"
FAILED = "red"

_INDENT = "  "
_MAX_BRIEF_LINES = 40
_MAX_BRIEF_DIFF = 16
_MAX_BRIEF_FAILURE = 6
_NUMBER_COLUMNS = 6
_DIFF_STYLES = {"+": ADDED, "-": REMOVED, "@": FAINT, " ": PLAIN}


class StyledLine(NamedTuple):
    """One line, how it looks, and the number of the event it belongs to."""

    text: str
    style: str = PLAIN
    seq: int = 0
    is_target: bool = False
    """Whether it is the first line of the event that was asked for."""


def render_lines(
    record: Record, *, is_full: bool = False, width: int = 100, at: int = 0
) -> Iterator[StyledLine]:
    """Yield the lines of a conversation.

    Brief: prompts and answers, one row per call, and diffs. Full: also output, reasoning, system
    messages and notes. The event number `at` is shown in full in either case.
    """
    overview = build_overview(record.events)
    yield StyledLine(get_title(record, overview), TITLE)
    yield StyledLine(_describe(record, overview), FAINT)
    yield StyledLine("")
    renderer = _Renderer(overview, is_full, width, at)
    for item in Timeline(overview.index).iter_items(record.events):
        yield from renderer.render(item)


def _describe(record: Record, overview: Overview) -> str:
    parts = [describe_size(overview), f"{overview.events:,} events"]
    if overview.cwd:
        parts.insert(0, overview.cwd)
    redaction: Any = record.conversation.get("redaction") or {}
    parts.append(f"redaction: {redaction.get('mode') or 'none'}")
    return " · ".join(parts)


class _Renderer:
    def __init__(self, overview: Overview, is_full: bool, width: int, at: int) -> None:
        self._overview = overview
        self._is_full = is_full
        self._width = max(40, width)
        self._at = at

    def render(self, item: Item) -> Iterator[StyledLine]:
        """Yield the lines of one item and of what is inside it."""
        is_target = self._at in _list_numbers(item)
        lines = self._render_item(item, self._is_full or is_target)
        for position, line in enumerate(lines):
            if is_target and position == 0:
                line = line._replace(is_target=True)
            yield line

    def _render_item(self, item: Item, is_full: bool) -> Iterator[StyledLine]:
        if item.kind == "prompt":
            yield from self._render_message(item, "You", PROMPT, is_full)
        elif item.kind == "say":
            yield from self._render_message(item, "", PLAIN, is_full)
        elif item.kind in ("thought", "system"):
            if is_full and item.data.get("redacted") is not True:
                yield from self._render_message(item, get_aside_role(item), FAINT, is_full)
        elif item.kind == "note":
            is_hidden = item.is_machine_note or item.data.get("kind") == "native"
            if is_full and not is_hidden:
                yield from self._render_note(item)
        elif item.kind == "span":
            yield from self._render_span(item)
        else:
            yield from self._render_call(item, is_full)

    def _render_message(
        self, item: Item, who: str, style: str, is_full: bool
    ) -> Iterator[StyledLine]:
        text, blocks = split_content(item.event)
        lines: list[str] = []
        if text.strip():
            lines = text.strip("\n").split("\n")
        lines += [_describe_block(block) for block in blocks]
        if who:
            indented = [_INDENT + line for line in lines]
            lines = [f"{who}:", *indented]
        limit = None if is_full else _MAX_BRIEF_LINES
        yield from self._number(item, self._wrap(lines), style, limit)
        yield StyledLine("")

    def _render_note(self, item: Item) -> Iterator[StyledLine]:
        values = {name: value for name, value in item.data.items() if name != "kind"}
        kind = str(item.data.get("kind") or item.event.get("type") or "note")
        lines = [kind.replace("_", " ")]
        if values:
            for line in format_value(values).split("\n"):
                lines.append(_INDENT + line)
        yield from self._number(item, self._wrap(lines), FAINT, None)
        yield StyledLine("")

    def _render_span(self, item: Item) -> Iterator[StyledLine]:
        kind = str(item.data.get("kind") or "span").replace("_", " ")
        reason = str(item.data.get("spawn_reason") or item.data.get("description") or "")
        steps = format_count(len(item.children), "step")
        heading = " · ".join(filter(None, (kind, reason, steps)))
        yield from self._number(item, [heading], FAINT, None)
        yield from self._render_children(item)
        yield StyledLine("")

    def _render_children(self, item: Item) -> Iterator[StyledLine]:
        for child in item.children:
            for line in self.render(child):
                yield line._replace(text=f"{_INDENT}│ {line.text}".rstrip())

    def _render_call(self, item: Item, is_full: bool) -> Iterator[StyledLine]:
        row = build_row(item)
        target = self._overview.shorten_paths(row.target)
        outcome = " · ".join(row.outcome)
        heading = f"{row.verb}  {target}".rstrip()
        if outcome:
            heading += f"  ({outcome})"
        style = FAILED if row.failed else FAINT
        yield from self._number(item, [heading], style, None)
        for change in row.changes:
            yield from self._render_change(change, item, is_full)
        if is_full and not row.changes:
            yield from self._render_arguments(row, item)
        yield from self._render_children(item)
        yield from self._render_output(row, item, is_full)

    def _render_change(self, change: FileChange, item: Item, is_full: bool) -> Iterator[StyledLine]:
        lines = change.lines
        shown = lines
        if not is_full:
            lines = trim_context(change.lines, 1)
            shown = lines[:_MAX_BRIEF_DIFF]
        seq = _get_number(item.event)
        for line in shown:
            # Escape sequences of a file must not reach the terminal of whoever reads its diff.
            text = strip_escapes(line.text)
            yield StyledLine(f"{self._margin}{line.op} {text}", _DIFF_STYLES[line.op], seq)
        yield from self._render_remainder(len(lines) - len(shown))

    def _render_arguments(self, row: Row, item: Item) -> Iterator[StyledLine]:
        text = ""
        if row.kind == "shell":
            text = find_text(row.arguments, COMMAND)
        if not text and row.arguments:
            text = format_value(row.arguments)
        if text.strip():
            yield from self._indent(text, item, PLAIN)

    def _render_output(self, row: Row, item: Item, is_full: bool) -> Iterator[StyledLine]:
        output = strip_escapes(row.output).strip("\n")
        if not output.strip():
            output = ""
        if is_full:
            lines = [output] if output else []
            if not row.missing:
                lines += [_describe_block(block) for block in row.blocks]
            if lines:
                yield from self._indent("\n".join(lines), item, FAINT)
            yield StyledLine("")
        elif row.failed and output:
            # The end of a failed command's output mostly says why.
            last_lines = output.rstrip().split("\n")[-_MAX_BRIEF_FAILURE:]
            yield from self._indent("\n".join(last_lines), item, FAINT)

    @property
    def _margin(self) -> str:
        return " " * (_NUMBER_COLUMNS + 1)

    def _indent(self, text: str, item: Item, style: str) -> Iterator[StyledLine]:
        for line in self._wrap(text.split("\n")):
            yield StyledLine(f"{self._margin}{line}".rstrip(), style, _get_number(item.event))

    def _number(
        self, item: Item, lines: list[str], style: str, limit: int | None
    ) -> Iterator[StyledLine]:
        """Yield lines with the event number in front of the first."""
        seq = _get_number(item.event)
        label = f"#{seq}".ljust(_NUMBER_COLUMNS)
        shown = lines if limit is None else lines[:limit]
        for position, line in enumerate(shown):
            prefix = label if position == 0 else " " * _NUMBER_COLUMNS
            yield StyledLine(f"{prefix} {line}".rstrip(), style, seq)
        yield from self._render_remainder(len(lines) - len(shown))

    def _render_remainder(self, count: int) -> Iterator[StyledLine]:
        """Yield a line that says how many lines are not shown, if there are any."""
        if count > 0:
            yield StyledLine(f"{self._margin}... {count:,} more lines", FAINT)

    def _wrap(self, lines: Iterable[str]) -> list[str]:
        width = self._width - _NUMBER_COLUMNS - 1
        wrapped: list[str] = []
        for line in lines:
            line = line.expandtabs(4)
            if len(line) <= width:
                wrapped.append(line)
                continue
            # What is indented stays so where it continues, unless no room would be left.
            indentation = len(line) - len(line.lstrip())
            indent = line[: min(indentation, width // 2)]
            pieces = textwrap.wrap(line, width, subsequent_indent=indent, break_on_hyphens=False)
            # A long line of spaces has no pieces.
            wrapped += pieces or [""]
        return wrapped


def _list_numbers(item: Item) -> set[int]:
    """Return the numbers of the events that an item shows."""
    numbers = {_get_number(item.event)}
    if item.result is not None:
        numbers.add(_get_number(item.result))
    return numbers - {0}


def _get_number(event: Event) -> int:
    seq = event.get("seq")
    return seq if type(seq) is int else 0


def _describe_block(block: Any) -> str:
    """Return a line that names an image or a file, or the value itself where it is neither."""
    if isinstance(block, dict) and ("base64" in block or "media_type" in block):
        media_type = str(block.get("media_type") or "file")
        data = block.get("base64")
        size = ""
        if isinstance(data, str):
            # Four characters of base64 stand for three bytes.
            size = f", {len(data) * 3 // 4:,} bytes"
        return f"[{media_type}{size}]"
    return format_value(block)
