"""`open-token index`: update, check or remove the search index."""

import argparse

from open_token.cli.shared.console import Console, escape_controls, format_size, pluralize
from open_token.cli.shared.help import Help
from open_token.cli.shared.indexing import open_index
from open_token.cli.shared.jobs import add_jobs_option, parse_jobs
from open_token.errors import UsageError
from open_token.library.index import IndexStatus, remove_index
from open_token.settings import load_settings

HELP = Help(
    summary="Update the search index over all sessions on this machine.",
    usage=("index [OPTIONS]",),
    notes=(
        "`search` and `stats` update the index by themselves; this command does it ahead of "
        "time. The index holds redacted text: at level secrets, or at the level that is the "
        "default in your settings if that is stronger. Sessions that were archived stay in it "
        "after their agent deletes them.",
    ),
    exit_codes=(
        ("0", "Done"),
        ("1", "With --status: there is no index"),
        ("2", "Invalid usage"),
        ("3", "Cannot write"),
        ("130", "Interrupted; what was indexed stays"),
    ),
    examples=(
        ("open-token index", ""),
        ("open-token index --status", "What it holds, and what could not be read"),
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions."""
    group = parser.add_argument_group("Actions")
    group.add_argument("--status", action="store_true", help="Show what the index holds")
    group.add_argument("--rebuild", action="store_true", help="Read all sessions again")
    group.add_argument("--remove", action="store_true", help="Delete the index")
    add_jobs_option(group)


def run(args: argparse.Namespace, console: Console) -> int:
    """Run one action; update is the default."""
    if args.status + args.rebuild + args.remove > 1:
        raise UsageError(
            "--status, --rebuild and --remove are mutually exclusive", help="use one of them"
        )
    folder = load_settings(console.env, console.cwd).folders.cache
    if args.remove or args.rebuild:
        existed = remove_index(folder)
        if args.remove:
            console.info("removed the index" if existed else "there was no index")
            return 0
    jobs = parse_jobs(args)
    with open_index(console, update=not args.status, jobs=jobs) as index:
        status = index.read_status()
        failures = index.list_failures() if args.status else []
    if args.json:
        console.print_json(
            {
                "schema": "open-token/index/1",
                "path": str(status.path),
                "bytes": status.bytes,
                "sessions": status.sessions,
                "failed": status.failed,
                "events": status.events,
                "characters": status.characters,
                "failures": [{"path": path, "error": error} for path, error in failures],
            }
        )
        return 0
    for path, error in failures:
        console.print(f"cannot read  {escape_controls(path)}  ({escape_controls(error)})")
    console.print(_describe(status))
    return 0 if status.sessions or not args.status else 1


def _describe(status: IndexStatus) -> str:
    sessions = pluralize(status.sessions, "session")
    events = pluralize(status.events, "event")
    text = format_size(status.characters)
    size = format_size(status.bytes)
    return f"{sessions}, {events}, {text} of text; the index has {size}: {status.path}"
