"""`open-token show`: read a session in the terminal."""

import argparse

from open_token.api import build_context
from open_token.cli.shared.console import Console, escape_controls, pluralize
from open_token.cli.shared.document import read_document
from open_token.cli.shared.help import Help, Section
from open_token.cli.shared.pager import print_paged
from open_token.cli.shared.source_selection import (
    SOURCE_HELP,
    add_source_arguments,
    check_reader_name,
    choose_conversation,
    print_source,
    select_source,
)
from open_token.errors import InputError, UsageError
from open_token.model.document import Record
from open_token.options import ExportOptions, split_option_words
from open_token.settings import load_settings
from open_token.writers.text import StyledLine, render_lines

HELP = Help(
    summary="Read a session in the terminal.",
    usage=("show [SOURCE] [OPTIONS] [KEY=VALUE ...]",),
    sections=(
        Section(
            "Arguments",
            (("SOURCE", f"{SOURCE_HELP} [default: newest session of this folder]"),),
        ),
    ),
    notes=(
        "Shows prompts and answers, one row per tool call, and diffs. On a terminal the text "
        "goes through $OPEN_TOKEN_PAGER, $PAGER or less. Secrets are masked as in an export; "
        "redact=none shows them.",
    ),
    exit_codes=(("0", "Shown"), ("2", "Invalid usage"), ("3", "Cannot read")),
    examples=(
        ("open-token show", "The newest session of this folder"),
        ("open-token show 3f2a --at 120", "Begin at event 120, as `search` suggests"),
        ("open-token show last --full | grep -n error", ""),
    ),
)
_MAX_DOCUMENT_BYTES = 512 << 20
# Reasoning is read even where it is not shown, so that events have the numbers that `search` prints.
_FIXED_OPTIONS = {
    "mode": "json",
    "pretty": "false",
    "integrity": "none",
    "native": "none",
    "include": "include-internal",
    "internal": "full",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the source and what is shown of it."""
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    add_source_arguments(parser)
    display = parser.add_argument_group("Display")
    display.add_argument("--at", type=int, metavar="N", help="Begin at event N, shown in full")
    display.add_argument(
        "--full",
        action="store_true",
        help="Also show output, reasoning, system messages and notes",
    )


def run(args: argparse.Namespace, console: Console) -> int:
    """Find the session and show it."""
    if args.json:
        raise UsageError(
            "show has no JSON output", help="use `open-token export SOURCE` for a document"
        )
    option_words, others = split_option_words(args.words)
    check_reader_name(args.reader)
    settings = load_settings(console.env, console.cwd)
    options = ExportOptions.of({**settings.defaults, **option_words, **_FIXED_OPTIONS})
    selected = select_source(others, console, current=args.current, picking=args.pick)
    print_source(selected, console)
    reader = choose_conversation(args, selected, console)
    too_large = InputError(
        "the session is too large to show",
        help="shorten it, for example: open-token show SOURCE max_bytes=100000000 drop=oldest",
        code="output.long",
    )
    context = build_context(options, settings, console.env)
    document, receipt = read_document(
        selected.source, reader, context, _MAX_DOCUMENT_BYTES, too_large
    )
    at = _check_number(args.at, receipt.events)
    record = Record(document["conversation"], document["participants"], document["events"])
    lines = list(render_lines(record, is_full=args.full, width=console.width(), at=at))
    first = _find_line(lines, at)
    if not console.stdout_is_terminal:
        lines = lines[first:]
        first = 0
    print_paged((_style(line, console) for line in lines), console, first_line=first)
    return 0


def _check_number(at: int | None, events: int) -> int:
    if at is None:
        return 0
    if not 1 <= at <= events:
        raise UsageError(
            f"there is no event {at}: the session has {pluralize(events, 'event')}",
            help=f"--at takes a number from 1 to {events}",
        )
    return at


def _find_line(lines: list[StyledLine], at: int) -> int:
    """Return the position of the first line of an event, or of the last one before it."""
    before = 0
    for position, line in enumerate(lines):
        if line.is_target:
            return position
        if line.seq and line.seq <= at:
            before = position
    return before


def _style(line: StyledLine, console: Console) -> str:
    text = escape_controls(line.text)
    return console.style(text, line.style, console.stdout_is_terminal) if line.style else text
