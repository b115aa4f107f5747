"""`export --follow`: stream a running session until it is stopped."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from open_token.cli.shared.console import Console, escape_controls, pluralize
from open_token.cli.shared.receipt import print_notes
from open_token.cli.shared.signals import stop_event_on_signals
from open_token.cli.shared.source_selection import SelectedSource, choose_conversation
from open_token.context import Context
from open_token.errors import InputError, OutputError, UsageError
from open_token.library.follow import Follower
from open_token.library.ndjson_stream import FollowStream, WrittenStream, read_written_stream
from open_token.storage.files import open_growing

_POLL_SECONDS = 0.03
_WHOLE_SOURCE_OPTIONS = (("max_bytes", None), ("native", "none"), ("drop", "never"))
"""Options that need the whole conversation, with the value at which they do not."""


def follow(
    args: argparse.Namespace, selected: SelectedSource, context: Context, console: Console
) -> int:
    """Write events as they are added, and a footer when a signal arrives."""
    source = selected.source
    if source.path is None:
        raise UsageError(
            "--follow needs a file or a folder", help="name the file that the agent writes"
        )
    _check_options(args, context)
    context = replace(context, source=str(source.path))
    reader = choose_conversation(args, selected, console)
    with stop_event_on_signals() as stop, _open_output(args, console) as (out, previous):
        stream = FollowStream(out, context, args.output or "<stdout>", previous)
        name = escape_controls(source.name)
        console.info(f"follow  {reader}  {name}  (stop with Ctrl-C)")
        follower = Follower(
            source.path,
            source.name,
            reader,
            context,
            stream,
            lambda: not stop.wait(_POLL_SECONDS),
            source.conversation,
        )
        record = follower.run()
        if not stream.count:
            raise InputError(
                "the session had no events while it was followed",
                where=source.name,
                help="check that it is the right file; nothing was written",
                code="input.no-events",
            )
        integrity = stream.close(record)
    console.info(f"read    {reader}  {pluralize(stream.count, 'event')}")
    print_notes(record.notes, console)
    if integrity:
        console.info(f"hash    sha256:{integrity['events_hash'][:16]}")
    return 0


def _check_options(args: argparse.Namespace, context: Context) -> None:
    options = context.options
    for name, default in _WHOLE_SOURCE_OPTIONS:
        if getattr(options, name) != default:
            raise UsageError(
                f"{name} cannot be combined with --follow",
                help="it needs the whole conversation; remove it",
            )
    if options.mode != "ndjson":
        raise UsageError("--follow needs mode=ndjson", help="remove mode, or use mode=ndjson")
    if options.integrity == "source":
        raise UsageError(
            "integrity=source cannot be combined with --follow",
            help="it needs the whole conversation; use integrity=hash or integrity=tree",
        )
    if args.report:
        raise UsageError(
            "--report cannot be combined with --follow",
            help="run `open-token fidelity SOURCE EXPORT` afterwards",
        )
    if args.conversation == "all":
        raise UsageError(
            "--follow exports one conversation at a time", help="use --conversation ID"
        )
    if args.append and not args.output:
        raise UsageError("--append needs -o FILE", help="use --follow --append -o FILE")
    if args.output and Path(args.output).exists() and not args.append:
        raise OutputError(
            "the output file already exists",
            where=args.output,
            help="continue it with --append, or name a new file",
        )


@contextmanager
def _open_output(
    args: argparse.Namespace, console: Console
) -> Iterator[tuple[BinaryIO, WrittenStream | None]]:
    if not args.output:
        yield console.stdout, None
        return
    with open_growing(Path(args.output)) as out:
        yield out, read_written_stream(out, args.output) if args.append else None
