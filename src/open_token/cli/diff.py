"""`open-token diff`: show where two sessions diverge."""

import argparse
import gc
from pathlib import Path

from open_token.api import build_context, read_steps
from open_token.cli.diff_text import render_diff
from open_token.cli.shared.console import Console, escape_controls, pluralize
from open_token.cli.shared.export_options import (
    add_export_options,
    describe_options,
    resolve_export_options,
    warn_about_options,
)
from open_token.cli.shared.help import Help, Section
from open_token.cli.shared.output import choose_new_name, open_page, refuse_folder
from open_token.cli.shared.progress import Progress
from open_token.cli.shared.source_selection import (
    SOURCE_HELP,
    check_reader_name,
    choose_conversation,
    select_source,
)
from open_token.comparison import LEVELS, Difference, compare, parse_pointer
from open_token.comparison.steps import Transcript
from open_token.context import Context
from open_token.errors import UsageError
from open_token.options import split_option_words
from open_token.settings import load_settings
from open_token.storage.files import atomic_file

HELP = Help(
    summary="Show where two sessions diverge, of the same agent or of two.",
    usage=("diff A B [OPTIONS]",),
    sections=(Section("Arguments", (("A, B", SOURCE_HELP),)),),
    notes=(
        "A tool call and its result are one step. Model output that differs before the same "
        "action is counted, but is not a divergence. Secrets are masked unless redact=none.",
        describe_options(
            ("redact", "include", "internal", "branches", "subagents", "max_bytes", "drop")
        ),
    ),
    exit_codes=(
        ("0", "Equal"),
        ("1", "Different"),
        ("2", "Invalid usage"),
        ("3", "Cannot read"),
    ),
    examples=(
        ("open-token diff a.jsonl b.jsonl", ""),
        ("open-token diff @2 last", "Compare the two newest sessions"),
        ("open-token diff claude.jsonl codex.jsonl --all", ""),
        ("open-token diff @2 last --to html --open", "Read both side by side in the browser"),
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add both sources and the options; they may come in any order."""
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    selection = parser.add_argument_group("Selection")
    selection.add_argument(
        "--conversation",
        dest="conversations",
        action="append",
        default=[],
        metavar="ID|N",
        help="Conversation to read; give it twice for A and B",
    )
    selection.add_argument(
        "--from",
        dest="readers",
        action="append",
        default=[],
        metavar="READER",
        help="Format of the sources; give it twice for A and B",
    )
    comparison = parser.add_argument_group("Comparison")
    comparison.add_argument(
        "--level",
        choices=LEVELS,
        default="semantic",
        metavar="LEVEL",
        help="semantic: messages and actions, by whatever tool [default]; "
        "exact: everything but ids, times and counts",
    )
    comparison.add_argument(
        "--ignore",
        action="append",
        default=[],
        metavar="PTR",
        help="Ignore a value of every step, such as /result, /text or /arguments/timeout",
    )
    display = parser.add_argument_group("Display")
    display.add_argument(
        "--all", action="store_true", help="Show every difference, not only the first"
    )
    display.add_argument(
        "--context",
        type=int,
        default=3,
        metavar="N",
        help="Steps to show around a difference [default: 3]",
    )
    output = parser.add_argument_group("Output")
    output.add_argument(
        "--to", choices=("text", "html"), default="text", metavar="FORMAT", help="text or html"
    )
    output.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="With --to html: write to FILE [default: stdout; on a terminal, a new file here]",
    )
    output.add_argument(
        "--open", action="store_true", help="Open the page in a browser, with --to html"
    )
    add_export_options(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """Read both sessions, compare them and print the result."""
    # Hundreds of thousands of steps, and no cycles among them.
    gc.disable()
    words, names = split_option_words(args.words)
    _check_arguments(args, names)
    settings = load_settings(console.env, console.cwd)
    options = resolve_export_options(args, words, settings.defaults)
    warn_about_options(options, settings.policy, console)
    # Integrity and native data play no part in a comparison.
    plain = options.changed(mode="ndjson", pretty=False, integrity="none", native="none")
    context = build_context(plain, settings, console.env)
    a = _read_steps(args, 0, names[0], context, console)
    b = _read_steps(args, 1, names[1], context, console)
    difference = compare(a, b, names=(names[0], names[1]), level=args.level, ignore=args.ignore)
    if args.to == "html":
        _write_page(difference, args, console)
    elif args.json:
        console.print_json(difference.as_json())
    else:
        for line in render_diff(difference, args, console):
            console.print(line)
    return 0 if difference.same else 1


def _write_page(difference: Difference, args: argparse.Namespace, console: Console) -> None:
    from open_token.writers.html.comparison import write

    if args.output is None and (console.stdout_is_terminal or args.open):
        args.output = choose_new_name("comparison", ".html", console)
    if args.output in (None, "-"):
        write(difference, console.stdout)
        return
    with atomic_file(Path(args.output)) as file:
        write(difference, file)
    console.info(f"wrote   {escape_controls(args.output)}")
    if args.open:
        open_page(Path(args.output), console)


def _check_arguments(args: argparse.Namespace, names: list[str]) -> None:
    if len(names) < 2:
        raise UsageError(
            f"diff needs two sources, got {len(names)}",
            help="use `open-token diff A B`; `open-token sessions` lists the sessions",
        )
    if len(names) > 2:
        raise UsageError(
            f"diff needs two sources, got {len(names)}",
            help="write options as key=value or --key value; quote a path with spaces",
        )
    if names == ["-", "-"]:
        raise UsageError("only one source can be stdin", help="save the other one to a file")
    _check_output(args)
    if not 0 <= args.context <= 1000:
        raise UsageError(
            "--context must be between 0 and 1000", help="--all shows every difference"
        )
    for flag, values in (("--from", args.readers), ("--conversation", args.conversations)):
        if len(values) > 2:
            raise UsageError(
                f"{flag} is given {len(values)} times",
                help="give it once for both sources, or twice for A and B",
            )
    for reader in args.readers:
        check_reader_name(reader)
    for text in args.ignore:
        parse_pointer(text)


def _check_output(args: argparse.Namespace) -> None:
    if args.to == "html":
        if args.json:
            raise UsageError("--json cannot be combined with --to html", help="remove one of them")
        refuse_folder(args.output)
    elif args.output is not None or args.open:
        raise UsageError("-o and --open need --to html", help="add --to html")


def _read_steps(
    args: argparse.Namespace, side: int, word: str, context: Context, console: Console
) -> Transcript:
    selected = select_source([word], console, current=False, picking=False)
    wanted = argparse.Namespace(
        reader=_value_for_side(args.readers, side),
        conversation=_value_for_side(args.conversations, side),
    )
    reader = choose_conversation(wanted, selected, console)
    with Progress(selected.source.size, console) as progress:
        selected.source.progress = progress
        steps, receipt = read_steps(
            selected.source, context, reader, args.level, with_cost=args.to == "html"
        )
    name = escape_controls(selected.how or selected.source.name)
    counts = f"{pluralize(receipt.events, 'event')}, {pluralize(receipt.calls, 'call')}"
    console.info(f"{'AB'[side]}       {receipt.reader}  {name}  {counts}")
    return steps


def _value_for_side(values: list[str], side: int) -> str | None:
    """Return the value for A or B; a single value is for both."""
    if values:
        return values[min(side, len(values) - 1)]
    return None
