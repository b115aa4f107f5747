"""`open-token sessions`: the conversations on this machine, newest first."""

import argparse
import time
from datetime import UTC, datetime
from itertools import islice

from open_token.cli.console import Console, cut, plural, relative_age, size, visible
from open_token.discover import Session, look, of_folder, sessions
from open_token.errors import UsageError
from open_token.readers import NAMES
from open_token.timestamps import format_utc

HELP = """List the conversations on this machine, newest first.

usage: open-token sessions [--agent READER] [--here | --folder DIR] [--all]

  open-token sessions                    the newest 30
  open-token sessions --here             those held in this folder
  open-token sessions --json | jq        all facts, for scripts

  --agent READER  only those of one runtime, as in `open-token formats`
  --here          only those held in this folder      --folder DIR  or in another one
  --all           all of them, not only the newest 30
  --json          a JSON object                       --quiet       no closing line
In a pipe: tab-separated, ISO times, no heading, all of them.
Exit: 0 some were found  1 none was found  2 usage
"""

_SHOWN = 30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Filters."""
    parser.add_argument("--agent", metavar="READER")
    parser.add_argument("--here", action="store_true")
    parser.add_argument("--folder", metavar="DIR")
    parser.add_argument("--all", action="store_true")


def run(args: argparse.Namespace, console: Console) -> int:
    """Find them, show them."""
    found = sessions(console.env, console.home)
    if args.agent:
        agent = args.agent.replace("-", "_")
        if agent not in NAMES:
            raise UsageError("there is no such reader", help=f"the readers are {', '.join(NAMES)}")
        found = [session for session in found if session.reader == agent]
    if args.here and args.folder:
        raise UsageError("--here and --folder exclude each other", help="keep one of them")
    folder = console.cwd if args.here else console.cwd / args.folder if args.folder else None
    if folder is not None:
        found = list(of_folder(found, folder))
    total = len(found)
    table = console.out_is_terminal and not args.json
    shown = [look(session) for session in islice(found, _SHOWN if table and not args.all else None)]
    if args.json:
        console.json({"schema": "open-token/sessions/1", "sessions": [_facts(session) for session in shown]})
    elif table:
        _table(shown, console)
    else:
        for session in shown:
            console.out("\t".join(_row(session)))
    _close(total, len(shown), console)
    return 0 if shown else 1


def _close(total: int, shown: int, console: Console) -> None:
    if not total:
        console.say("no conversation was found; see `open-token formats` for the places looked at")
    elif shown < total:
        console.say(f"{shown} of {total:,} shown. All: --all.  Export one: open-token export ID")
    else:
        console.say(f"{plural(total, 'conversation')}.  Export one: open-token export ID")


def _facts(session: Session) -> dict[str, object]:
    return {
        "id": session.id,
        "reader": session.reader,
        "path": str(session.path),
        "modified": _iso(session),
        "bytes": session.bytes,
        "cwd": session.cwd,
        "title": session.title,
    }


def _iso(session: Session) -> str:
    return format_utc(datetime.fromtimestamp(int(session.modified), UTC))


def _row(session: Session) -> list[str]:
    cells = [
        session.id,
        session.reader,
        _iso(session),
        str(session.bytes),
        session.cwd or "",
        session.title or "",
        str(session.path),
    ]
    return [visible(cell) for cell in cells]


def _table(shown: list[Session], console: Console) -> None:
    if not shown:
        return
    now = time.time()
    length = _length([session.id for session in shown])
    width = max(20, console.width() - length - 36)
    console.out(console.paint(f"{'ID':{length}}  {'AGENT':12}  {'AGE':>5}  {'SIZE':>9}  TITLE", "bold", True))
    for session in shown:
        title = cut(visible(session.title or ""), width)
        age = relative_age(now - session.modified)
        name = visible(session.id[:length])
        console.out(f"{name:{length}}  {session.reader:12.12}  {age:>5}  {size(session.bytes):>9}  {title}")


def _length(ids: list[str]) -> int:
    """How much of each id must be shown to tell them apart."""
    return next((n for n in range(8, 36) if len({name[:n] for name in ids}) == len(set(ids))), 36)
