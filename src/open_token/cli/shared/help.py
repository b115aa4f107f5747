"""The parts of a help text, as commands declare them."""

from typing import NamedTuple

Row = tuple[str, str]
"""A term (an option, a command, an exit code) and its description."""


class Section(NamedTuple):
    """A heading with aligned rows below it."""

    title: str
    rows: tuple[Row, ...]


class Help(NamedTuple):
    """What a command says about itself; its options come from its argument parser."""

    summary: str
    usage: tuple[str, ...]
    sections: tuple[Section, ...] = ()
    """Sections before the options: arguments and subcommands."""
    notes: tuple[str, ...] = ()
    """Paragraphs after the options."""
    exit_codes: tuple[Row, ...] = ()
    examples: tuple[Row, ...] = ()
    """Pairs of a command and a comment."""
