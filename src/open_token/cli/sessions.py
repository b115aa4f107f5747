"""`open-token sessions`: list the sessions on this machine, newest first."""

import argparse
import contextlib
import re
import time
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from open_token.cli.shared.console import (
    Console,
    escape_controls,
    format_age,
    format_size,
    pluralize,
    shorten_path,
    truncate_to_columns,
)
from open_token.cli.shared.help import Help
from open_token.cli.shared.session_titles import mask_session_titles
from open_token.cli.shared.source_selection import check_reader_name
from open_token.errors import InputError, UsageError
from open_token.jsontools.timestamps import from_epoch, parse_moment
from open_token.library.discovery import Discovery, Session, UnreadableFiles, filter_by_words

HELP = Help(
    summary="List the sessions on this machine, newest first.",
    usage=("sessions [OPTIONS]",),
    notes=(
        "TIME is an age (90min, 12h, 2d, 3w), a day (2026-11-01) or an RFC 3339 time "
        "(2026-11-01T09:30:00Z). --text searches the beginning and the end of a session, "
        "not its middle. In a pipe, the output is tab-separated and complete.",
        "Sessions that cannot be read, such as encrypted ones, are counted at the end.",
    ),
    exit_codes=(("0", "Sessions found"), ("1", "No session found"), ("2", "Invalid usage")),
    examples=(
        ("open-token sessions", "The newest 30"),
        ("open-token sessions --here --since 2d", ""),
        ('open-token sessions --text "parser bug" --json', ""),
    ),
)
_DEFAULT_LIMIT = 30
_MIN_TITLE_COLUMNS = 20
_MIN_ID_COLUMNS = 8
_MAX_ID_COLUMNS = 36


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the filters."""
    selection = parser.add_argument_group("Selection")
    selection.add_argument(
        "--agent", metavar="READER", help="Only sessions of an agent, see `open-token formats`"
    )
    selection.add_argument("--here", action="store_true", help="Only sessions of this folder")
    selection.add_argument("--folder", metavar="DIR", help="Only sessions of a folder")
    selection.add_argument("--since", metavar="TIME", help="Only sessions modified since TIME")
    selection.add_argument("--until", metavar="TIME", help="Only sessions modified until TIME")
    selection.add_argument(
        "--text",
        metavar="WORDS",
        help="Only sessions with all WORDS in title, first message, id or folder",
    )
    display = parser.add_argument_group("Display")
    display.add_argument(
        "--limit", metavar="N", help="List the newest N [default: 30 on a terminal]"
    )
    display.add_argument("--all", action="store_true", help="List all sessions")


def run(args: argparse.Namespace, console: Console) -> int:
    """Find the sessions and print them."""
    limit = _parse_limit(args, console)
    agent = _parse_agent(args)
    folder = _parse_folder(args, console)
    since = parse_time(args.since, "--since")
    until = parse_time(args.until, "--until", is_end=True)
    discovery = Discovery.of(console.env, console.home, _find_cwd(console))
    sessions = discovery.sessions()
    matching: Iterable[Session] = [
        session
        for session in sessions
        if agent in (None, session.reader)
        and (since is None or session.modified >= since)
        and (until is None or session.modified < until)
    ]
    if folder is not None:
        matching = discovery.filter_by_folder(matching, folder)
    if args.text:
        matching = filter_by_words((discovery.inspect(session) for session in matching), args.text)
    # All of them, for the count; only those shown are read.
    matching = list(matching)
    shown = [discovery.inspect(session) for session in islice(matching, limit)]
    discovery.remember()
    shown = mask_session_titles(shown, console)
    unreadable = discovery.find_unreadable()
    _print_sessions(shown, unreadable, args.json, console)
    _print_summary(len(matching), len(shown), len(sessions), console)
    if agent is None:
        for files in unreadable:
            console.info(describe_unreadable(files, console.home))
    return 0 if shown else 1


def _parse_limit(args: argparse.Namespace, console: Console) -> int | None:
    """Return the maximum number of sessions; None for all."""
    if args.limit is None:
        is_limited = console.stdout_is_terminal and not args.json and not args.all
        return _DEFAULT_LIMIT if is_limited else None
    if args.all:
        raise UsageError("--limit and --all are mutually exclusive", help="use one of them")
    if not re.fullmatch("[0-9]{1,9}", args.limit) or int(args.limit) == 0:
        raise UsageError("--limit must be a positive number", help="for example --limit 100")
    return int(args.limit)


def _parse_agent(args: argparse.Namespace) -> str | None:
    if not args.agent:
        return None
    check_reader_name(args.agent)
    return str(args.agent).replace("-", "_")


def _parse_folder(args: argparse.Namespace, console: Console) -> Path | None:
    if args.here and args.folder:
        raise UsageError("--here and --folder are mutually exclusive", help="use one of them")
    if args.folder:
        return console.cwd / str(args.folder)
    return console.cwd if args.here else None


def _find_cwd(console: Console) -> Path | None:
    """Return the working directory; the list can be made without it."""
    with contextlib.suppress(InputError):
        return console.cwd
    return None


def parse_time(text: str | None, option: str, *, is_end: bool = False) -> float | None:
    """Parse an age, a local day or a time to seconds since 1970.

    `is_end` includes the whole day or second."""
    if text is None:
        return None
    moment = parse_moment(text, time.time(), is_end=is_end)
    if moment is not None:
        return moment
    raise UsageError(
        f"invalid time for {option}",
        help="use an age (2d), a day (2026-11-01) or a time with its zone",
    )


def describe_unreadable(files: UnreadableFiles, home: Path) -> str:
    """Return a sentence about files with sessions that cannot be read."""
    folder = escape_controls(shorten_path(files.folder, home))
    count = pluralize(files.files, "file")
    return f"{count} with sessions of {files.title} in {folder} cannot be read: {files.reason}"


def unreadable_to_json(files: UnreadableFiles) -> dict[str, object]:
    """Return what `--json` says about files with sessions that cannot be read."""
    return {
        "agent": files.agent,
        "title": files.title,
        "folder": str(files.folder),
        "files": files.files,
        "bytes": files.bytes,
        "reason": files.reason,
    }


def _print_sessions(
    sessions: list[Session], unreadable: list[UnreadableFiles], is_json: bool, console: Console
) -> None:
    if is_json:
        console.print_json(
            {
                "schema": "open-token/sessions/1",
                "sessions": [_session_to_json(session) for session in sessions],
                "unreadable": [unreadable_to_json(files) for files in unreadable],
            }
        )
    elif console.stdout_is_terminal:
        _print_table(sessions, console)
    else:
        for session in sessions:
            console.print("\t".join(_build_cells(session)))


def _print_summary(total: int, shown: int, known: int, console: Console) -> None:
    if known and not total:
        console.info(f"no match among {pluralize(known, 'session')} on this machine")
    elif not total:
        console.info("no sessions found; `open-token formats` lists the folders searched")
    elif shown < total:
        console.info(f"{shown} of {total:,}. List all: --all.  Export one: open-token export ID")
    else:
        console.info(f"{pluralize(total, 'session')}.  Export one: open-token export ID")


def _session_to_json(session: Session) -> dict[str, object]:
    return {
        "id": session.id,
        "reader": session.reader,
        "path": str(session.path),
        "modified": _format_modified(session),
        "bytes": session.bytes,
        "cwd": session.cwd,
        "title": session.title,
        "conversation": session.conversation,
        "messages": session.messages,
    }


def _format_modified(session: Session) -> str:
    return from_epoch(int(session.modified)) or ""


def _build_cells(session: Session) -> list[str]:
    cells = [
        session.id,
        session.reader,
        _format_modified(session),
        str(session.bytes),
        session.cwd or "",
        session.title or "",
        str(session.path),
    ]
    return [escape_controls(cell) for cell in cells]


def _print_table(sessions: list[Session], console: Console) -> None:
    if not sessions:
        return
    now = time.time()
    id_columns = count_id_columns([session.id for session in sessions])
    fixed_columns = id_columns + 36
    # Long ids take the place of the sizes on a narrow screen: titles matter more.
    has_sizes = console.width() - fixed_columns >= _MIN_TITLE_COLUMNS
    if not has_sizes:
        fixed_columns = id_columns + 25
    title_columns = max(_MIN_TITLE_COLUMNS - 1, console.width() - fixed_columns)
    size = f"{'SIZE':>9}  " if has_sizes else ""
    heading = f"{'ID':{id_columns}}  {'AGENT':12}  {'AGE':>5}  {size}TITLE"
    console.print(console.style(heading, "bold", True))
    for session in sessions:
        title = truncate_to_columns(escape_controls(session.title or ""), title_columns)
        age = format_age(now - session.modified)
        short_id = escape_controls(session.id[:id_columns])
        size = f"{format_size(session.bytes):>9}  " if has_sizes else ""
        console.print(f"{short_id:{id_columns}}  {session.reader:12.12}  {age:>5}  {size}{title}")


def count_id_columns(ids: list[str]) -> int:
    """Return how many characters distinguish the ids."""
    distinct = len(set(ids))
    for length in range(_MIN_ID_COLUMNS, _MAX_ID_COLUMNS):
        if len({name[:length] for name in ids}) == distinct:
            return length
    return _MAX_ID_COLUMNS
