"""The manual page, from the same texts as `--help`."""

import re
from collections.abc import Iterable

from open_token.cli.shared.help import Help, Row, Section


def render_man_page(
    version: str, main: Help, commands: Iterable[tuple[str, Help, list[Section]]]
) -> str:
    """Return the page in the man(7) format: the program, then every command with its options."""
    # By convention the purpose of a program follows its name, without capital and full stop.
    purpose = main.summary[0].lower() + main.summary[1:].rstrip(".")
    lines = [
        f'.TH OPEN\\-TOKEN 1 "" "Open-Token {_escape(version)}" "User Commands"',
        ".SH NAME",
        f"open\\-token \\- {_escape(purpose)}",
        ".SH SYNOPSIS",
        *_render_usage(main.usage),
        ".SH DESCRIPTION",
        *_render_notes(main.notes),
    ]
    for section in main.sections:
        lines.append(f".SH {_quote(section.title.upper())}")
        lines += _render_rows(section.rows)
    lines.append(".SH COMMANDS")
    for name, text, options in commands:
        lines += _render_command(name, text, options)
    lines.append(".SH EXIT STATUS")
    lines += _render_rows(main.exit_codes)
    lines.append(".SH EXAMPLES")
    lines += _render_examples(main.examples)
    return "\n".join(lines) + "\n"


def _render_command(name: str, text: Help, options: list[Section]) -> list[str]:
    lines = [
        f".SS {_quote(f'open-token {name}')}",
        _escape(text.summary),
        ".PP",
    ]
    lines += _render_usage(text.usage)
    for section in (*text.sections, *options):
        lines += _render_heading(section.title)
        lines += _render_rows(section.rows)
    lines += _render_notes(text.notes)
    lines += _render_heading("Exit status")
    lines += _render_rows(text.exit_codes)
    if text.examples:
        lines += _render_heading("Examples")
        lines += _render_examples(text.examples)
    return lines


def _render_heading(title: str) -> list[str]:
    """Return a heading inside the section of a command: man has only two levels of its own."""
    return [".PP", f".B {_quote(title)}"]


def _render_usage(usage: Iterable[str]) -> list[str]:
    lines = [".nf"]
    for form in usage:
        lines.append(f"\\fBopen\\-token\\fR {_escape(form)}")
    lines.append(".fi")
    return lines


def _render_rows(rows: Iterable[Row]) -> list[str]:
    lines = []
    for term, description in rows:
        lines.append(".TP")
        lines.append(f"\\fB{_escape(term)}\\fR")
        # Without a line of text the next request would become the description.
        lines.append(_escape(description) or "\\&")
    return lines


def _render_notes(notes: Iterable[str]) -> list[str]:
    lines = []
    for note in notes:
        lines.append(".PP")
        lines.append(_escape(note))
    return lines


def _render_examples(examples: Iterable[Row]) -> list[str]:
    lines = []
    for command, comment in examples:
        lines.append(".PP")
        if comment:
            lines.append(f"{_escape(comment)}:")
            lines.append(".PP")
        lines += [".RS 4", ".nf", _escape(command), ".fi", ".RE"]
    return lines


def _quote(text: str) -> str:
    """Return the argument of a request."""
    quoted = _escape(text).replace('"', "\\(dq")
    return f'"{quoted}"'


def _escape(text: str) -> str:
    """Return text that roff prints as it is: a hyphen stays one that can be copied."""
    # The backslash first: the others are replaced by escapes that begin with one.
    escaped = text.replace("\\", "\\e")
    escaped = escaped.replace("-", "\\-")
    escaped = escaped.replace("~", "\\(ti")
    escaped = escaped.replace("^", "\\(ha")
    escaped = escaped.replace("`", "\\(ga")
    # A line that begins with one of these would be a request.
    return re.sub(r"^(?=[.'])", r"\\&", escaped, flags=re.MULTILINE)
