"""`open-token archive`: every conversation of this machine, exported and up to date in a folder."""

import argparse
import os
import re
import time
from pathlib import Path
from typing import Any

import msgspec

from open_token.cli.console import Console, size, visible
from open_token.cli.stopping import stopped_like_ctrl_c
from open_token.cli.wanted import add_options, wanted_options, warn
from open_token.errors import UsageError
from open_token.library import context_for
from open_token.locallib.archive import CHANGED, FAILED, GONE, LOST, NEW, Archive, Change
from open_token.locallib.discovery import Discovery
from open_token.options import split_words
from open_token.settings import load_settings
from open_token.walk import without_lone_surrogates

HELP = """Keep every conversation of this machine exported and up to date in a folder.

usage: open-token archive [DIR] [key=value ...] [--watch] [--every SECONDS] [--again]

  open-token archive ~/talks                      one pass: what is new, what has grown
  open-token archive ~/talks mode=ndjson redact=pii --watch
  open-token archive ~/talks --json               what was done, for scripts

DIR      where to; without it the folder `archive` in this user's data folder
  --watch          go on: look again every 30 seconds, end on Ctrl-C or SIGTERM
  --every SECONDS  the same, at another pace
  --again          export all that is still there anew, as after an update of open-token
Options as for `open-token export`: redact, include, internal, native, mode, ...
DIR/READER/DAY_TITLE_ID.json is a conversation, DIR/index.ndjson tells where each came from.
What its runtime deletes stays in DIR and is marked as gone. A pass may be stopped at any time.
With --json one object, with --watch too one line for each pass that did something.
Exit: 0 done  1 some could not be read  2 usage  3 cannot be written, or in use  130 interrupted
"""

_EVERY = 30
_SHORTEST = 0.1
_TOLD = (NEW, CHANGED, GONE, LOST, FAILED)
_COUNTED = (NEW, CHANGED, "unchanged", GONE, "copy", "empty", FAILED)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """DIR and options in any order."""
    parser.add_argument("words", nargs="*")
    parser.add_argument("--watch", action="store_true")
    parser.add_argument("--every", metavar="SECONDS")
    parser.add_argument("--again", action="store_true")
    add_options(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """One pass, or one after another until somebody says stop."""
    words, others = split_words(args.words)
    settings = load_settings(console.env, console.cwd)
    options = wanted_options(args, words, settings.defaults)
    every = _pace(args)
    warn(options, settings.policy, console)
    for remark in settings.remarks:
        console.warn(visible(remark))
    folder = _folder(others, console) or settings.folders.data / "archive"
    archive = Archive(
        folder, lambda: context_for(options, settings, console.env), time.time, again=args.again
    )
    with stopped_like_ctrl_c(), archive.held():
        try:
            code = _pass(archive, folder, args, console)
            while every:
                time.sleep(every)
                code = _pass(archive, folder, args, console, again=True)
        except KeyboardInterrupt:
            if not every:
                console.say(
                    "\ninterrupted; what was archived so far is whole, the next pass goes on"
                )
                return 130
            console.say("\nstopped")
            code = 1 if archive.counts[FAILED] else 0
    return code


def _pace(args: argparse.Namespace) -> float:
    if args.every is None:
        return _EVERY if args.watch else 0
    if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,3})?", args.every) or float(args.every) < _SHORTEST:
        raise UsageError(
            f"--every takes a number of seconds, from {_SHORTEST} to 999999",
            help="as in --every 60; a single pass has neither --every nor --watch",
        )
    return float(args.every)


def _folder(words: list[str], console: Console) -> Path | None:
    if len(words) > 1:
        raise UsageError(
            f"one folder, {len(words)} words were given",
            help="options are written key=value or --key value; quote a path with spaces",
        )
    if not words:
        return None
    folder = console.cwd / os.path.expanduser(words[0])
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise UsageError(
            "this is a file; an archive is a folder", where=words[0], help="name a folder"
        )
    return folder


def _pass(
    archive: Archive,
    folder: Path,
    args: argparse.Namespace,
    console: Console,
    *,
    again: bool = False,
) -> int:
    """Look for conversations, archive them, tell what was done; when nothing was, a later pass is
    silent."""
    discovery = Discovery.of(console.env, console.home, console.cwd)
    done: list[Change] = []
    for change in archive.run(discovery.sessions(thorough=True)):
        done.append(change)
        if not args.json:
            _tell(change, console)
    discovery.remember()
    counts = archive.counts
    if args.json and (done or not again):
        facts = _facts(done, archive, folder)
        if args.watch or args.every:
            console.out(msgspec.json.encode(without_lone_surrogates(facts)).decode())
        else:
            console.json(facts)
    if done or not again:
        told = (
            ", ".join(f"{counts[name]:,} {name}" for name in _COUNTED if counts[name])
            or "no conversation was found"
        )
        console.say(f"{told}.  Index: {visible(str(folder / 'index.ndjson'))}")
    console.payload.flush()
    return 1 if counts[FAILED] else 0


def _tell(change: Change, console: Console) -> None:
    entry = change.entry
    if change.problem is not None:
        where = change.problem.where or entry.source or ""
        console.warn(f"{visible(change.problem.what)}\n  --> {visible(where)}")
        return
    file = visible(entry.file or "")
    console.out(
        f"{change.kind:8}{file}  {size(entry.bytes)}" if entry.bytes else f"{change.kind:8}{file}"
    )


def _facts(done: list[Change], archive: Archive, folder: Path) -> dict[str, Any]:
    facts: dict[str, Any] = {"schema": "open-token/archive-pass/1", "folder": str(folder)}
    for kind in _TOLD:
        facts[kind] = [_as_json(change) for change in done if change.kind == kind]
    return facts | {
        name: archive.counts[name] for name in ("unchanged", "copy", "empty", "resting")
    }


def _as_json(change: Change) -> dict[str, Any]:
    entry, problem = change.entry, change.problem
    facts: dict[str, Any] = {
        "source": entry.source,
        "reader": entry.reader,
        "conversation": entry.conversation,
    }
    if problem is not None:
        return facts | {"code": problem.code, "message": problem.what, "where": problem.where}
    return facts | {
        "id": entry.id,
        "file": entry.file,
        "title": entry.title,
        "events": entry.events,
    }
