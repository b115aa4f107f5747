"""The manual page, from the same texts as `--help`."""

import re
from collections.abc import Iterable

from open_token.cli.shared.help import Help, Row, Section


def render_man_page(
    version: str, main: Help, commands: Iterable[tuple[str, Help, list[Section]]]
) -> str:
    """Return the page in the man(7) format: the program, then every command with its options."""
    lines = [
        f'.TH OPEN\\-TOKEN 1 "" "Open-Token {_escape(version)}" "User Commands"',
        ".SH NAME",
        f"open\\-token \\- {_escape(main.summary[0].lower() + main.summary[1:].rstrip('.'))}",
        ".SH SYNOPSIS",
        *_render_usage(main.usage),
        ".SH DESCRIPTION",
        *_render_notes(main.notes),
    ]
    for section in main.sections:
        lines += [f".SH {_quote(section.title.upper())}", *_render_rows(section.rows)]
    lines.append(".SH COMMANDS")
    for name, text, options in commands:
        lines += _render_command(name, text, options)
    lines += [".SH EXIT STATUS", *_render_rows(main.exit_codes)]
    lines += [".SH EXAMPLES", *_render_examples(main.examples)]
    return "\n".join(lines) + "\n"


def _render_command(name: str, text: Help, options: list[Section]) -> list[str]:
    lines = [f".SS {_quote(f'open-token {name}')}", _escape(text.summary), ".PP"]
    lines += _render_usage(text.usage)
    for section in (*text.sections, *options):
        lines += [".PP", f".B {_quote(section.title)}", *_render_rows(section.rows)]
    lines += _render_notes(text.notes)
    lines += [".PP", '.B "Exit status"', *_render_rows(text.exit_codes)]
    if text.examples:
        lines += [".PP", '.B "Examples"', *_render_examples(text.examples)]
    return lines


def _render_usage(usage: Iterable[str]) -> list[str]:
    lines = [".nf"]
    lines += [f"\\fBopen\\-token\\fR {_escape(form)}" for form in usage]
    return [*lines, ".fi"]


def _render_rows(rows: Iterable[Row]) -> list[str]:
    lines = []
    for term, description in rows:
        lines += [".TP", f"\\fB{_escape(term)}\\fR", _escape(description) or "\\&"]
    return lines


def _render_notes(notes: Iterable[str]) -> list[str]:
    lines = []
    for note in notes:
        lines += [".PP", _escape(note)]
    return lines


def _render_examples(examples: Iterable[Row]) -> list[str]:
    lines = []
    for command, comment in examples:
        lines.append(".PP")
        if comment:
            lines += [_escape(comment) + ":", ".PP"]
        lines += [".RS 4", ".nf", _escape(command), ".fi", ".RE"]
    return lines


def _quote(text: str) -> str:
    return '"' + _escape(text).replace('"', "\\(dq") + '"'


def _escape(text: str) -> str:
    """Return text that roff prints as it is: a hyphen stays one that can be copied."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("~", "\\(ti")
    escaped = escaped.replace("^", "\\(ha").replace("`", "\\(ga")
    # A line that begins with one of these would be a request.
    return re.sub(r"^(?=[.'])", r"\\&", escaped, flags=re.MULTILINE)
