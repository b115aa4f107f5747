"""`export --follow`: streams a running conversation until it is stopped."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from open_token.cli.choosing import Choice
from open_token.cli.choosing_one import choose_one
from open_token.cli.console import Console, plural, visible
from open_token.cli.export import tell_notes
from open_token.cli.stopping import asked_to_stop
from open_token.context import Context
from open_token.errors import InputError, OutputError, UsageError
from open_token.locallib.follow import Follower
from open_token.locallib.ndjson_stream import FollowStream, WrittenStream, read_written_stream
from open_token.storage.files import grown_file

_PAUSE = 0.03
_UNLIKE = (("max_bytes", None), ("native", "none"), ("drop", "never"))


def follow(args: argparse.Namespace, choice: Choice, context: Context, console: Console) -> int:
    """Write events as they come, and a footer when a signal says that it is time."""
    source = choice.source
    if source.path is None:
        raise UsageError(
            "only a file or a folder can be followed", help="name the file that the runtime writes"
        )
    _check(args, context)
    context = replace(context, source=str(source.path))
    reader = choose_one(args, choice, console)
    with asked_to_stop() as stop, _target(args, console) as (out, before):
        growing = FollowStream(out, context, args.output or "<stdout>", before)
        console.say(f"follow  {reader}  {visible(source.name)}  (end with Ctrl-C)")
        record = Follower(
            source.path,
            source.name,
            reader,
            context,
            growing,
            lambda: not stop.wait(_PAUSE),
            source.conversation,
        ).run()
        if not growing.count:
            raise InputError(
                "nothing was said while it was followed",
                where=source.name,
                help="is it the right file? nothing was written",
                code="input.no-events",
            )
        integrity = growing.close(record)
    console.say(f"read    {reader}  {plural(growing.count, 'event')}")
    tell_notes(record.notes, console)
    if integrity:
        console.say(f"seal    sha256:{integrity['events_hash'][:16]}")
    return 0


def _check(args: argparse.Namespace, context: Context) -> None:
    options = context.options
    for name, usual in _UNLIKE:
        if getattr(options, name) != usual:
            raise UsageError(
                f"{name} needs the whole conversation, and --follow has not got it",
                help="leave it out",
            )
    if options.mode != "ndjson":
        raise UsageError("--follow writes a stream", help="leave mode out, or say mode=ndjson")
    if options.integrity == "source":
        raise UsageError(
            "integrity=source needs the whole conversation",
            help="use integrity=hash or integrity=tree",
        )
    if args.report:
        raise UsageError(
            "--report needs the whole conversation, and --follow has not got it",
            help="leave it out; afterwards `open-token fidelity SOURCE EXPORT` tells it",
        )
    if args.conversation == "all":
        raise UsageError(
            "one conversation is followed at a time", help="name it: --conversation ID"
        )
    if args.append and not args.output:
        raise UsageError("--append goes on with a file", help="name it: --follow --append -o FILE")
    if args.output and Path(args.output).exists() and not args.append:
        raise OutputError(
            "the output is there already",
            where=args.output,
            help="go on with it: --append; or name a new file",
        )


@contextmanager
def _target(
    args: argparse.Namespace, console: Console
) -> Iterator[tuple[BinaryIO, WrittenStream | None]]:
    if not args.output:
        yield console.payload, None
        return
    with grown_file(Path(args.output)) as out:
        yield out, read_written_stream(out, args.output) if args.append else None
