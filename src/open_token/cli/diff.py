"""`open-token diff`: where two runs part."""

import argparse
import gc

from open_token.cli.choosing import Choice, choose_source
from open_token.cli.choosing_one import choose_one
from open_token.cli.console import Console, plural, visible
from open_token.cli.export import check_reader
from open_token.cli.parting import lines
from open_token.cli.progress import Progress
from open_token.cli.wanted import add_options, wanted_options, warn
from open_token.comparing import LEVELS, compare, pointer
from open_token.comparing.steps import Run
from open_token.context import Context
from open_token.errors import UsageError
from open_token.library import context_for, steps_of
from open_token.options import split_words
from open_token.settings import load_settings

HELP = """Tell where two runs part: two conversations, of one agent or of two.

usage: open-token diff A B [key=value ...]

  open-token diff a.jsonl b.jsonl
  open-token diff @2 last                        the second newest against the newest
  open-token diff claude.jsonl codex.jsonl --all

A, B     a file, a folder, - for stdin, an id or its start, last, @2 (the second newest)
  --all            every difference, not only the first parting
  --context N      steps that are shown around a difference (3)
  --level exact    count everything but ids, times and counts; else what was said and done,
                   from the run's own folder, a deed under another tool's name being the same
  --ignore PTR     leave a value of every step out: /result, /arguments/timeout, /text
  --from READER    name the format; twice: of A, then of B; --conversation ID|N likewise
  --quiet          the sentence alone             --json  for scripts
  redact=, include=, internal=, branches=, subagents=, max_bytes=: as for export
Calls stand with their results as one step. Secrets are masked unless redact=none. Words of
the model that differ before the same deed are counted, and are no parting.
Exit: 0 the same  1 different  2 usage  3 cannot be read
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A, B and options in any order."""
    parser.add_argument("words", nargs="*")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--context", type=int, default=3, metavar="N")
    parser.add_argument("--level", choices=LEVELS, default="semantic")
    parser.add_argument("--ignore", action="append", default=[], metavar="PTR")
    parser.add_argument("--from", dest="readers", action="append", default=[], metavar="READER")
    parser.add_argument(
        "--conversation", dest="conversations", action="append", default=[], metavar="ID"
    )
    add_options(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """Read both, compare, tell."""
    gc.disable()  # hundreds of thousands of steps, and no cycles among them
    options, words = split_words(args.words)
    _check(args, words)
    settings = load_settings(console.env, console.cwd)
    chosen = wanted_options(args, options, settings.defaults)
    warn(chosen, settings.policy, console)
    plain = chosen.changed(mode="ndjson", pretty=False, integrity="none", native="none")
    context = context_for(plain, settings, console.env)
    a, b = (_read(args, side, word, context, console) for side, word in enumerate(words))
    made = compare(a, b, names=(words[0], words[1]), level=args.level, ignore=args.ignore)
    if args.json:
        console.json(made.as_json())
    else:
        for line in lines(made, args, console):
            console.out(line)
    return 0 if made.same else 1


def _check(args: argparse.Namespace, words: list[str]) -> None:
    if len(words) != 2:
        told = "options are written key=value or --key value; quote a path with spaces"
        need = "name both: open-token diff A B; `open-token sessions` lists what is on this machine"
        raise UsageError(
            f"two conversations are compared, {plural(len(words), 'word')} given",
            help=told if words[2:] else need,
        )
    if words == ["-", "-"]:
        raise UsageError("only one of them can come from stdin", help="put the other into a file")
    if not 0 <= args.context <= 1000:
        raise UsageError(
            "--context takes a number from 0 to 1000", help="--all shows every difference"
        )
    for name, given in (("--from", args.readers), ("--conversation", args.conversations)):
        if len(given) > 2:
            raise UsageError(
                f"{name} is given {len(given)} times",
                help="once for both, or twice: of A, then of B",
            )
    for reader in args.readers:
        check_reader(argparse.Namespace(reader=reader))
    for text in args.ignore:
        pointer(text)


def _read(
    args: argparse.Namespace, side: int, word: str, context: Context, console: Console
) -> Run:
    choice: Choice = choose_source([word], console, current=False, picking=False)
    wanted = argparse.Namespace(
        reader=_of(args.readers, side), conversation=_of(args.conversations, side)
    )
    reader = choose_one(wanted, choice, console)
    with Progress(choice.source.size, console) as progress:
        choice.source.progress = progress
        made, receipt = steps_of(choice.source, context, reader, args.level)
    counts = f"{plural(receipt.events, 'event')}, {plural(receipt.calls, 'call')}"
    console.say(
        f"{'AB'[side]}       {receipt.reader}  {visible(choice.how or choice.source.name)}  {counts}"
    )
    return made


def _of(given: list[str], side: int) -> str | None:
    return given[min(side, len(given) - 1)] if given else None
