"""`open-token export`: a conversation of any runtime as one Open-Token document."""

import argparse
import gc
import os
import time
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import msgspec

from open_token.cli.choosing import Choice, choose_source
from open_token.cli.choosing_one import choose_one, export_all
from open_token.cli.console import Console, plural, size, visible
from open_token.cli.progress import Progress
from open_token.cli.seen import Seen
from open_token.cli.wanted import add_options, wanted_options, warn
from open_token.context import Context
from open_token.errors import OutputError, UsageError
from open_token.library import context_for
from open_token.model import Note
from open_token.options import guess_of, split_words
from open_token.pages import KINDS
from open_token.pipeline import Receipt, export
from open_token.registry import READERS
from open_token.settings import load_settings
from open_token.sources.source import Source
from open_token.storage.files import whole_file
from open_token.writers import FORMS

HELP = """Turn a conversation into one Open-Token document, a page to read, or a file for others.

usage: open-token export [SOURCE] [key=value ...] [-o FILE]

  open-token export                              the newest conversation of this folder
  open-token export talk.jsonl redact=pii -o talk.json
  open-token export last --to html -o talk.html  one file to read, also on a phone
  cat talk.jsonl | open-token export - mode=ndjson | next-agent

SOURCE   a file, a folder, - for stdin, an id or its start, last, @2 (the second newest)
  -o FILE        write to FILE, whole or not at all      --from READER  name the format
  --to FORM      json|ndjson|html|markdown|brief|atif|otel  --pick      choose from a list
  --current      the one we run in                       --append       go on with -o (--follow)
  --follow       stream a running conversation as it grows (ndjson); Ctrl-C ends it whole
  --report       tell how much of the source it holds    --sign KEY     sign it; an SSH key
  --conversation ID|N|all   which one of a file that holds several; all: each into folder -o
Options, as key=value or --key value (the first is the default):
  mode=json|ndjson                     pretty=true|false
  include=visible-only|include-internal  internal=redacted|summary|full
  redact=secrets|none|pii|strict       strategy=mask|hash|drop
  max_bytes=NUMBER                     drop=never|oldest
  integrity=hash|none|tree|source      exported_at=now|omit|keep|TIME
  branches=active|all                  subagents=inline|reference|none  native=none|full
Exit: 0 written  2 usage  3 cannot be read, written or made to fit  130 interrupted
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """SOURCE and options in any order."""
    parser.add_argument("words", nargs="*")
    parser.add_argument("-o", "--output", metavar="FILE")
    parser.add_argument("--to", metavar="FORM")
    parser.add_argument("--from", dest="reader", metavar="READER")
    parser.add_argument("--pick", action="store_true")
    parser.add_argument("--current", action="store_true")
    parser.add_argument("--conversation", metavar="ID")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--follow", action="store_true")
    parser.add_argument("--append", action="store_true")
    parser.add_argument("--sign", metavar="KEY")
    add_options(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """Find the source, export it, say what was done."""
    # A gigabyte makes millions of objects and no cycles: collecting them over and over would cost a
    # tenth of the time.
    gc.disable()
    options, others = split_words(args.words)
    page = _form(args, options)
    settings = load_settings(console.env, console.cwd)
    chosen = wanted_options(
        args, options, {**settings.defaults, "mode": "ndjson"} if args.follow else settings.defaults
    )
    _check(args)
    warn(chosen, settings.policy, console)
    for remark in settings.remarks:
        console.warn(visible(remark))
    choice = choose_source(others, console, current=args.current, picking=args.pick)
    if choice.how:
        console.say(f"source  {choice.how}")
    started = time.monotonic()
    context = context_for(chosen, settings, console.env)
    if page is None:
        context = _signing(args, context, console)
    if args.follow:
        return int(import_module("open_token.cli.following").follow(args, choice, context, console))
    if args.conversation == "all":
        return export_all(args, choice, context, console)
    seen = Seen() if args.report else None
    receipt = _export(args, choice, context, console, seen, page)
    tell(receipt, choice, args.output, time.monotonic() - started, console, page)
    form = {"output": args.output, "form": page or chosen.mode}
    facts = {"schema": "open-token/receipt/1", **form, **msgspec.to_builtins(receipt)}
    if seen:
        facts["fidelity"] = seen.tell(choice.source, receipt.reader, receipt.notes, console)
    if args.json and args.output:
        console.json(facts)
    return 0


def _form(args: argparse.Namespace, options: dict[str, str]) -> str | None:
    """The other form that --to names; json and ndjson are only other words for the mode."""
    if args.to is None:
        return None
    modes = ("json", "ndjson")
    known = (*modes, *KINDS, *FORMS)
    if args.to not in known:
        told = f"{guess_of(args.to, known)}it takes {', '.join(known)}"
        raise UsageError("--to does not take that word", help=told)
    if "mode" in options or args.option_mode:
        raise UsageError("--to and mode say the same thing", help="keep one of them")
    if args.to in modes:
        options["mode"] = args.to
        return None
    for flag, given in (
        ("--follow", args.follow),
        ("--conversation all", args.conversation == "all"),
    ):
        if given:
            raise UsageError(
                f"{flag} does not go with --to {args.to}",
                help="export one conversation that has ended",
            )
    if args.sign:
        raise UsageError(
            f"--sign does not go with --to {args.to}",
            help="sign the export itself, --to json or --to ndjson",
        )
    options["mode"] = "json"
    return str(args.to)


def _check(args: argparse.Namespace) -> None:
    if args.output == "-":
        args.output = None
    check_reader(args)
    if args.json and not args.output:
        raise UsageError(
            "--json tells about a written file",
            help="add -o FILE; without it stdout carries the export alone",
        )
    if args.sign and args.follow:
        raise UsageError(
            "--sign does not go with --follow",
            help="sign the file when it is whole: open-token sign FILE",
        )
    if args.append and not args.follow:
        raise UsageError("--append goes with --follow", help="add --follow, or leave --append out")
    if args.conversation == "all" and not args.output:
        raise UsageError(
            "every conversation is written into a folder",
            help="name it: --conversation all -o FOLDER",
        )
    if args.output and os.path.isdir(args.output) and args.conversation != "all":
        raise OutputError(
            "the output is a folder",
            where=args.output,
            help="name a file in it; nothing was written",
        )


def _signing(args: argparse.Namespace, context: Context, console: Console) -> Context:
    """The same context, with what signs the export where that is wanted; loaded only then."""
    if args.sign is None:
        return context
    if context.options.integrity == "none":
        raise UsageError(
            "what is to be signed needs integrity", help="leave integrity=none out, or --sign"
        )
    sign = import_module("open_token.cli.sign").signer_for(
        None if args.sign == "default" else args.sign, console
    )
    return replace(context, sign=sign)


def check_reader(args: argparse.Namespace) -> None:
    """Refuse a reader that there is not, before anything is opened."""
    if args.reader and args.reader.replace("-", "_") not in READERS:
        known = f"the readers are {', '.join(READERS)}"
        raise UsageError(
            f"there is no reader '{args.reader[:60]}'",
            help=f"{guess_of(args.reader[:60].replace('-', '_'), READERS)}{known}",
        )


def _export(
    args: argparse.Namespace,
    choice: Choice,
    context: Context,
    console: Console,
    seen: Seen | None,
    page: str | None,
) -> Receipt:
    source = choice.source
    reader = choose_one(args, choice, console, ", or all with --conversation all -o FOLDER")
    with Progress(source.size, console) as progress:
        source.progress = progress
        if not args.output:
            return export(
                source, progress.until_written(console.payload), context, reader, seen, page
            )
        target = Path(args.output)
        must_not_replace(source, args.output)
        with whole_file(target) as out:
            return export(source, progress.with_file(out), context, reader, seen, page)


def must_not_replace(source: Source, output: str) -> None:
    """Refuse to write over the conversation that is read."""
    if source.path and os.path.isfile(output) and os.path.samefile(source.path, output):
        raise UsageError(
            "the output would replace the conversation itself",
            where=output,
            help="choose another name",
        )


def tell(
    receipt: Receipt,
    choice: Choice,
    output: str | None,
    seconds: float,
    console: Console,
    page: str | None = None,
) -> None:
    """Say what was read, masked and written."""
    missing = (
        f", {plural(receipt.missing_results, 'missing result')}" if receipt.missing_results else ""
    )
    counts = f"{plural(receipt.events, 'event')}, {plural(receipt.calls, 'call')}{missing}"
    console.say(f"read    {receipt.reader}  {visible(choice.source.name)}  {counts}")
    tell_notes(receipt.notes, console)
    for line in receipt.redaction:
        console.say(f"redact  {visible(line)}")
    if receipt.integrity:
        console.say(f"seal    sha256:{receipt.integrity['events_hash'][:16]}")
        for entry in receipt.integrity.get("signatures", [])[:8]:
            console.say(f"sign    {visible(str(entry.get('keyid'))[:60])}")
    if output:
        import shlex

        console.say(f"wrote   {visible(output)}  {size(receipt.bytes)}  {seconds:.1f} s")
        if page is None:
            console.say(f"next    open-token verify {shlex.quote(visible(output))}")
        elif page == "html":
            console.say(
                f"next    open {shlex.quote(visible(output))} in a browser; this one file is all of it"
            )


def tell_notes(notes: list[Note], console: Console) -> None:
    """Say what is not carried over, how often, and where first."""
    for note in notes:
        times = (
            f" ({note.count:,} times, first at {note.place})"
            if note.count > 1
            else f" ({note.place})"
        )
        console.say(f"note    {note.code}: {visible(note.detail)}{times}")
