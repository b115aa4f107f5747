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
_INDENT = "  "


def choose_width() -> int:
    """Return the width to wrap to: that of the terminal, but at most 80 columns."""
    columns = shutil.get_terminal_size((MAX_WIDTH, 24)).columns
    return max(_MIN_WIDTH, min(MAX_WIDTH, columns))


def collect_options(parser: argparse.ArgumentParser) -> Iterator[Section]:
    """Yield the documented options of a parser; argument groups of one title are merged."""
    sections: dict[str, list[Row]] = {}
    for group in parser._action_groups:
        for action in group._group_actions:
            if group.title and action.help and action.help != argparse.SUPPRESS:
                sections.setdefault(group.title, []).append(_describe_option(action))
    for title, rows in sections.items():
        yield Section(title, tuple(rows))


def _describe_option(action: argparse.Action) -> Row:
    names = ", ".join(_unique_spellings(action.option_strings))
    if action.nargs == 0 or action.metavar == "":
        return names, action.help or ""
    if action.metavar is not None:
        return f"{names} {action.metavar}", action.help or ""
    if action.choices is not None:
        return f"{names} {'|'.join(action.choices)}", action.help or ""
    return f"{names} VALUE", action.help or ""


def _unique_spellings(names: Iterable[str]) -> list[str]:
    """Drop the underscore spelling of an option that has a dashed one as well."""
    known = set(names)
    kept = [name for name in names if "_" not in name or name.replace("_", "-") not in known]
    return sorted(kept, key=lambda name: (name.startswith("--"), name))


def render_help(
    text: Help,
    options: Iterable[Section],
    width: int,
    style: Callable[[str], str] = str,
) -> str:
    """Render a help text; `style` decorates the headings."""
    sections = [*text.sections, *options]
    terms = [term for section in sections for term, _ in section.rows]
    column = max((len(term) for term in terms if len(term) <= _MAX_TERM_COLUMNS), default=0)

    blocks = [_fill(text.summary, width), _render_usage(text.usage, width, style)]
    blocks += [_render_section(section, column, width, style) for section in sections]
    blocks += [_fill(note, width) for note in text.notes]
    if text.exit_codes:
        exit_status = Section("Exit status", text.exit_codes)
        blocks.append(_render_section(exit_status, 3, width, style))
    if text.examples:
        blocks.append(_render_examples(text.examples, width, style))
    return "\n\n".join(blocks)


def _fill(text: str, width: int) -> str:
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
    head, *rest = lines
    return "\n".join([f"{style('Usage:')} {head}", *(f"       {line}" for line in rest)])


def _render_section(section: Section, column: int, width: int, style: Callable[[str], str]) -> str:
    lines = [style(f"{section.title}:")]
    for term, description in section.rows:
        lines += _render_row(term, description, column, width)
    return "\n".join(lines)


def _render_row(term: str, description: str, column: int, width: int) -> list[str]:
    gap = len(_INDENT) + column + 2
    # A non-breaking space keeps the word after `[default:` on the same line.
    description = description.replace("[default: ", "[default:\xa0")
    lines = textwrap.wrap(description, width - gap, break_on_hyphens=False)
    wrapped = [line.replace("\xa0", " ") for line in lines]
    if len(term) > column:
        first = textwrap.wrap(term, width - 2, break_on_hyphens=False, subsequent_indent=_INDENT)
        return [f"{_INDENT}{line}" for line in first] + [" " * gap + line for line in wrapped]
    head = f"{_INDENT}{term:{column}}  {wrapped[0] if wrapped else ''}".rstrip()
    return [head, *(" " * gap + line for line in wrapped[1:])]


def _render_examples(examples: tuple[Row, ...], width: int, style: Callable[[str], str]) -> str:
    lines = [style("Examples:")]
    for command, comment in examples:
        if comment:
            lines += textwrap.wrap(comment, width, initial_indent="  # ", subsequent_indent="  # ")
        lines += _wrap_command(command, width)
    return "\n".join(lines)


def _wrap_command(command: str, width: int) -> list[str]:
    """Break a long command with backslashes, so that it can still be pasted into a shell."""
    command = re.sub(r"([\"']).*?\1", lambda quoted: quoted[0].replace(" ", "\xa0"), command)
    parts = textwrap.wrap(
        command, width - 4, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    lines = [f"{_INDENT}{part}".replace("\xa0", " ") for part in parts]
    return [f"{line} \\" for line in lines[:-1]] + lines[-1:]
