"""`open-token archive`: keep exports of all sessions up to date in a folder."""

import argparse
import contextlib
import os
import re
import time
from pathlib import Path
from typing import Any

import msgspec

from open_token.api import build_context
from open_token.cli.shared.console import (
    Console,
    escape_controls,
    escape_raw_controls,
    format_size,
    pluralize,
)
from open_token.cli.shared.export_options import (
    add_export_options,
    describe_options,
    resolve_export_options,
    warn_about_options,
)
from open_token.cli.shared.help import Help, Section
from open_token.cli.shared.jobs import SessionsProgress, add_jobs_option, parse_jobs
from open_token.cli.shared.signals import interrupt_on_signals
from open_token.errors import UsageError
from open_token.jsontools.walk import replace_lone_surrogates
from open_token.library.archive import CHANGED, EARLIER, FAILED, GONE, LOST, NEW, Archive, Change
from open_token.library.archive.pages import PAGE_SUFFIXES, update_pages
from open_token.library.discovery import Discovery
from open_token.options import split_option_words
from open_token.settings import load_settings

HELP = Help(
    summary="Keep exports of all sessions on this machine up to date in a folder.",
    usage=("archive [DIR] [OPTIONS] [KEY=VALUE ...]",),
    sections=(
        Section(
            "Arguments",
            (("DIR", "The archive [default: `archive` in the user's data folder]"),),
        ),
    ),
    notes=(
        "Exports are DIR/READER/DAY_TITLE_ID.json; DIR/index.ndjson records the source of "
        "each. Sessions that an agent deletes stay in the archive and are marked as gone. "
        "A pass can be interrupted at any time. With --json and --watch, each pass that "
        "changed something prints one line. --to html adds DIR/READER/DAY_TITLE_ID.html beside "
        "each export, and DIR/index.html.",
        describe_options(),
    ),
    exit_codes=(
        ("0", "Archived"),
        ("1", "Some sessions could not be read"),
        ("2", "Invalid usage"),
        ("3", "Cannot write, or the archive is in use"),
        ("130", "Interrupted"),
    ),
    examples=(
        ("open-token archive ~/sessions", "Export new and changed sessions once"),
        ("open-token archive ~/sessions mode=ndjson redact=pii --watch", ""),
        ("open-token archive ~/sessions --to html", "Browse them at ~/sessions/index.html"),
    ),
)
_DEFAULT_INTERVAL = 30
_MIN_INTERVAL = 0.1
_REPORTED_CHANGES = (NEW, CHANGED, EARLIER, GONE, LOST, FAILED)
_COUNTED_CHANGES = (NEW, CHANGED, "unchanged", EARLIER, GONE, "copy", "empty", FAILED)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the folder and options; they may come in any order."""
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    group = parser.add_argument_group("Passes")
    group.add_argument(
        "--watch", action="store_true", help="Repeat every 30 seconds until Ctrl-C or SIGTERM"
    )
    group.add_argument("--every", metavar="SECONDS", help="Like --watch, at another interval")
    group.add_argument(
        "--again", action="store_true", help="Export all sessions again, as after an update"
    )
    add_jobs_option(group)
    output = parser.add_argument_group("Pages")
    output.add_argument(
        "--to",
        choices=tuple(PAGE_SUFFIXES),
        metavar="FORMAT",
        help="Also write each session as a page, and a page that lists all: html or markdown",
    )
    add_export_options(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """Run one pass, or repeat passes until stopped."""
    words, others = split_option_words(args.words)
    settings = load_settings(console.env, console.cwd)
    options = resolve_export_options(args, words, settings.defaults)
    interval = _parse_interval(args)
    warn_about_options(options, settings.policy, console)
    for warning in settings.warnings:
        console.warn(escape_controls(warning))
    folder = _parse_folder(others, console) or settings.folders.data / "archive"
    archive = Archive(
        folder,
        lambda: build_context(options, settings, console.env),
        time.time,
        again=args.again,
        jobs=parse_jobs(args),
    )
    with interrupt_on_signals(), archive.lock():
        try:
            code = _run_pass(archive, folder, args, console)
            while interval:
                time.sleep(interval)
                code = _run_pass(archive, folder, args, console, is_repeated=True)
        except KeyboardInterrupt:
            if not interval:
                console.info("\ninterrupted; the next pass continues where this one stopped")
                return 130
            console.info("\nstopped")
            code = 1 if archive.counts[FAILED] else 0
    return code


def _parse_interval(args: argparse.Namespace) -> float:
    """Return the seconds between passes; 0 for a single pass."""
    if args.every is None:
        return _DEFAULT_INTERVAL if args.watch else 0
    is_number = re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,3})?", args.every)
    if not is_number or float(args.every) < _MIN_INTERVAL:
        raise UsageError(
            f"--every must be a number of seconds from {_MIN_INTERVAL} to 999999",
            help="for example --every 60; for a single pass, remove --every and --watch",
        )
    return float(args.every)


def _parse_folder(words: list[str], console: Console) -> Path | None:
    if not words:
        return None
    if len(words) > 1:
        raise UsageError(
            f"expected one folder, got {len(words)}",
            help="write options as key=value or --key value; quote a path with spaces",
        )
    folder = console.cwd / os.path.expanduser(words[0])
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise UsageError("the archive must be a folder", where=words[0], help="name a folder")
    return folder


def _run_pass(
    archive: Archive,
    folder: Path,
    args: argparse.Namespace,
    console: Console,
    *,
    is_repeated: bool = False,
) -> int:
    """Archive the sessions; a repeated pass without changes prints nothing."""
    discovery = Discovery.of(console.env, console.home, console.cwd)
    changes: list[Change] = []
    bar = SessionsProgress("archiving", console)
    passes = archive.run(discovery.sessions(thorough=True), begin=bar.begin, report=bar.report)
    with contextlib.closing(bar), contextlib.closing(passes):
        for change in passes:
            changes.append(change)
            if not args.json:
                bar.clear()
                _print_change(change, console)
    has_pages = True
    if args.to and (changes or not is_repeated):
        has_pages = _write_pages(archive, folder, args, console)
    # Cache what was read of each file, for the next pass and for `sessions`.
    discovery.remember()
    if changes or not is_repeated:
        if args.json:
            _print_json(changes, archive, folder, args, console)
        console.info(_summarize(archive, folder))
    console.stdout.flush()
    return 1 if archive.counts[FAILED] or not has_pages else 0


def _write_pages(
    archive: Archive, folder: Path, args: argparse.Namespace, console: Console
) -> bool:
    """Bring the pages up to date; return whether all of them could be written."""
    written = 0
    failed = 0
    pages = update_pages(
        folder,
        archive.context,
        args.to,
        archive.entries,
        again=args.again,
        jobs=parse_jobs(args),
    )
    for outcome in pages:
        problem = outcome.problem
        if problem is None:
            written += 1
            continue
        failed += 1
        where = escape_controls(outcome.item)
        console.warn(f"{escape_controls(problem.what)}\n  --> {where}")
    listing = escape_controls(str(folder / f"index{PAGE_SUFFIXES[args.to]}"))
    console.info(f"{pluralize(written, 'page')} written.  List: {listing}")
    return not failed


def _summarize(archive: Archive, folder: Path) -> str:
    counts = archive.counts
    parts = [f"{counts[name]:,} {name}" for name in _COUNTED_CHANGES if counts[name]]
    index = escape_controls(str(folder / "index.ndjson"))
    return f"{', '.join(parts) or 'no sessions found'}.  Index: {index}"


def _print_json(
    changes: list[Change],
    archive: Archive,
    folder: Path,
    args: argparse.Namespace,
    console: Console,
) -> None:
    report: dict[str, Any] = {"schema": "open-token/archive-pass/1", "folder": str(folder)}
    for kind in _REPORTED_CHANGES:
        report[kind] = [_to_json(change) for change in changes if change.kind == kind]
    for kind in ("unchanged", "copy", "empty", "resting"):
        report[kind] = archive.counts[kind]
    if args.watch or args.every:
        line = msgspec.json.encode(replace_lone_surrogates(report))
        console.print(escape_raw_controls(line).decode())
    else:
        console.print_json(report)


def _print_change(change: Change, console: Console) -> None:
    entry = change.entry
    if change.problem is not None:
        where = change.problem.where or entry.source or ""
        console.warn(f"{escape_controls(change.problem.what)}\n  --> {escape_controls(where)}")
        return
    if change.kind == EARLIER:
        kept = escape_controls(entry.file or "")
        console.warn(
            f"the source has lost what was archived of it; the earlier version stays: {kept}"
        )
        return
    line = f"{change.kind:8}{escape_controls(entry.file or '')}"
    if entry.bytes:
        line += f"  {format_size(entry.bytes)}"
    console.print(line)


def _to_json(change: Change) -> dict[str, Any]:
    entry = change.entry
    problem = change.problem
    fields: dict[str, Any] = {
        "source": entry.source,
        "reader": entry.reader,
        "conversation": entry.conversation,
    }
    if problem is not None:
        return fields | {"code": problem.code, "message": problem.what, "where": problem.where}
    return fields | {
        "id": entry.id,
        "file": entry.file,
        "title": entry.title,
        "events": entry.events,
    }
