"""Help texts: summary, usage, grouped options and examples, wrapped to the width of the terminal."""

import argparse
import re
import shutil
import textwrap
from collections.abc import Callable, Iterable, Iterator

from open_token.cli.shared.help import Help, Row, Section

MAX_WIDTH = 80
_MIN_WIDTH = 40
_MAX_TERM_COLUMNS = 24
"""A longer term stands on a line of its own, above its description."""
_EXIT_CODE_COLUMNS = 3
_INDENT = "  "


def choose_width() -> int:
    """Return the width to wrap to: that of the terminal, but at most 80 columns."""
    columns = shutil.get_terminal_size((MAX_WIDTH, 24)).columns
    return max(_MIN_WIDTH, min(MAX_WIDTH, columns))


def collect_options(parser: argparse.ArgumentParser) -> Iterator[Section]:
    """Yield the documented options of a parser; argument groups of one title are merged."""
    sections: dict[str, list[Row]] = {}
    # argparse has no public way to list its groups.
    for group in parser._action_groups:
        if not group.title:
            continue
        for action in group._group_actions:
            if not action.help or action.help == argparse.SUPPRESS:
                continue
            rows = sections.setdefault(group.title, [])
            rows.append(_describe_option(action))
    for title, rows in sections.items():
        yield Section(title, tuple(rows))


def _describe_option(action: argparse.Action) -> Row:
    """Return an option with its value, and its description."""
    names = ", ".join(_unique_spellings(action.option_strings))
    description = action.help or ""
    if action.nargs == 0 or action.metavar == "":
        return names, description
    if action.metavar is not None:
        return f"{names} {action.metavar}", description
    if action.choices is not None:
        choices = "|".join(action.choices)
        return f"{names} {choices}", description
    return f"{names} VALUE", description


def _unique_spellings(names: Iterable[str]) -> list[str]:
    """Drop the underscore spelling of an option that has a dashed one as well."""
    known = set(names)
    short: list[str] = []
    long: list[str] = []
    for name in sorted(known):
        dashed = name.replace("_", "-")
        if dashed != name and dashed in known:
            continue
        if name.startswith("--"):
            long.append(name)
        else:
            short.append(name)
    return short + long


def render_help(
    text: Help,
    options: Iterable[Section],
    width: int,
    style: Callable[[str], str] = str,
) -> str:
    """Render a help text; `style` decorates the headings."""
    sections = [*text.sections, *options]
    column = _measure_terms(sections)
    blocks = [_fill(text.summary, width), _render_usage(text.usage, width, style)]
    for section in sections:
        blocks.append(_render_section(section, column, width, style))
    for note in text.notes:
        blocks.append(_fill(note, width))
    if text.exit_codes:
        exit_status = Section("Exit status", text.exit_codes)
        blocks.append(_render_section(exit_status, _EXIT_CODE_COLUMNS, width, style))
    if text.examples:
        blocks.append(_render_examples(text.examples, width, style))
    return "\n\n".join(blocks)


def _measure_terms(sections: Iterable[Section]) -> int:
    """Return the columns of the widest term that has its description on the same line."""
    widest = 0
    for section in sections:
        for term, _ in section.rows:
            if len(term) <= _MAX_TERM_COLUMNS:
                widest = max(widest, len(term))
    return widest


def _fill(text: str, width: int) -> str:
    # A hyphen is part of an option: `--max-bytes` must stay whole to be searched and copied.
    return textwrap.fill(text, width, break_on_hyphens=False)


def _render_usage(usage: tuple[str, ...], width: int, style: Callable[[str], str]) -> str:
    lines: list[str] = []
    for form in usage:
        lines += textwrap.wrap(
            f"open-token {form}",
            width - len("Usage: "),
            subsequent_indent="    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    rendered = [f"{style('Usage:')} {lines[0]}"]
    for line in lines[1:]:
        rendered.append(f"       {line}")
    return "\n".join(rendered)


def _render_section(section: Section, column: int, width: int, style: Callable[[str], str]) -> str:
    lines = [style(f"{section.title}:")]
    for term, description in section.rows:
        lines += _render_row(term, description, column, width)
    return "\n".join(lines)


def _render_row(term: str, description: str, column: int, width: int) -> list[str]:
    """Return the lines of a term and its description, which starts in the same column for all."""
    start = len(_INDENT) + column + 2
    margin = " " * start
    # A non-breaking space keeps the word after `[default:` on the same line.
    description = description.replace("[default: ", "[default:\xa0")
    wrapped = textwrap.wrap(description, width - start, break_on_hyphens=False)
    described = [margin + line.replace("\xa0", " ") for line in wrapped]
    if len(term) > column:
        terms = textwrap.wrap(term, width - 2, break_on_hyphens=False, subsequent_indent=_INDENT)
        return [_INDENT + line for line in terms] + described
    head = f"{_INDENT}{term}"
    if not described:
        return [head]
    described[0] = head.ljust(start) + described[0].lstrip()
    return described


def _render_examples(examples: tuple[Row, ...], width: int, style: Callable[[str], str]) -> str:
    lines = [style("Examples:")]
    for command, comment in examples:
        if comment:
            lines += textwrap.wrap(comment, width, initial_indent="  # ", subsequent_indent="  # ")
        lines += _wrap_command(command, width)
    return "\n".join(lines)


def _wrap_command(command: str, width: int) -> list[str]:
    """Break a long command with backslashes, so that it can still be pasted into a shell."""
    # Quoted words stay together: a backslash and a line break inside quotes would be literal.
    command = re.sub(r"([\"']).*?\1", lambda quoted: quoted[0].replace(" ", "\xa0"), command)
    parts = textwrap.wrap(
        command,
        width - 4,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    lines = [_INDENT + part.replace("\xa0", " ") for part in parts]
    continued = [f"{line} \\" for line in lines[:-1]]
    return [*continued, lines[-1]]
