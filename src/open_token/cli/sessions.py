"""`open-token sessions`: the conversations on this machine, newest first."""

import argparse
import contextlib
import re
import time
from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path

from open_token.cli.console import Console, cut, plural, relative_age, size, visible
from open_token.cli.titles import with_masked_titles
from open_token.errors import InputError, UsageError
from open_token.locallib.discovery import Discovery, Session, filter_by_words
from open_token.options import guess_of
from open_token.registry import READERS
from open_token.timestamps import from_epoch, to_utc

HELP = """List the conversations on this machine, newest first.

usage: open-token sessions [--agent READER] [--here | --folder DIR] [--text WORDS]
                           [--since TIME] [--until TIME] [--limit N | --all]

  open-token sessions                       the newest 30
  open-token sessions --here --since 2d     those held in this folder, of the last two days
  open-token sessions --text "parser bug" --json

  --agent READER  only those of one runtime, as in `open-token formats`
  --here          only those held in this folder      --folder DIR  or in another one
  --since TIME    last written then or later          --until TIME  then or earlier
  --text WORDS    each word stands in its title, its first words, its id or its folder
  --limit N       the newest N                        --all         not only the newest 30
  --json          a JSON object                       --quiet       no closing line
TIME: an age (90min, 12h, 2d, 3w), a day (2026-11-01) or a moment (2026-11-01T09:30:00Z).
Only both ends of a file are read, and remembered; --text does not search what lies between.
In a pipe: tab-separated, ISO times, no heading, all of them.
Exit: 0 some were found  1 none was found  2 usage
"""

_SHOWN = 30
_UNITS = {"min": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_LEAST_TITLE = 20
"""Columns in which a title can still be told from another."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Filters."""
    parser.add_argument("--agent", metavar="READER")
    parser.add_argument("--here", action="store_true")
    parser.add_argument("--folder", metavar="DIR")
    parser.add_argument("--since", metavar="TIME")
    parser.add_argument("--until", metavar="TIME")
    parser.add_argument("--text", metavar="WORDS")
    parser.add_argument("--limit", metavar="N")
    parser.add_argument("--all", action="store_true")


def run(args: argparse.Namespace, console: Console) -> int:
    """Find them, show them."""
    limit = _limit(args, console)
    agent, folder = _agent(args), _folder(args, console)
    since, until = _moment(args.since, "--since"), _moment(args.until, "--until", at_its_end=True)
    discovery = Discovery.of(console.env, console.home, _here(console))
    everything = discovery.sessions()
    found: Iterable[Session] = [
        session
        for session in everything
        if agent in (None, session.reader)
        and (since is None or session.modified >= since)
        and (until is None or session.modified < until)
    ]
    if folder is not None:
        found = discovery.filter_by_folder(found, folder)
    if args.text:
        found = filter_by_words((discovery.inspect(session) for session in found), args.text)
    found = list(found)
    shown = [discovery.inspect(session) for session in islice(found, limit)]
    discovery.remember()
    shown = with_masked_titles(shown, console)
    _show(shown, args.json, console)
    _close(len(found), len(shown), len(everything), console)
    return 0 if shown else 1


def _limit(args: argparse.Namespace, console: Console) -> int | None:
    if args.limit is None:
        return _SHOWN if console.out_is_terminal and not args.json and not args.all else None
    if args.all:
        raise UsageError("--limit and --all exclude each other", help="keep one of them")
    if not re.fullmatch("[0-9]{1,9}", args.limit) or not int(args.limit):
        raise UsageError("--limit takes a number above 0", help="as in --limit 100")
    return int(args.limit)


def _agent(args: argparse.Namespace) -> str | None:
    if not args.agent:
        return None
    agent = str(args.agent).replace("-", "_")
    if agent not in READERS:
        raise UsageError(
            "there is no such reader",
            help=f"{guess_of(agent, READERS)}the readers are {', '.join(READERS)}",
        )
    return agent


def _folder(args: argparse.Namespace, console: Console) -> Path | None:
    if args.here and args.folder:
        raise UsageError("--here and --folder exclude each other", help="keep one of them")
    if args.folder:
        return console.cwd / str(args.folder)
    return console.cwd if args.here else None


def _here(console: Console) -> Path | None:
    """The working folder; a list can be made without it."""
    with contextlib.suppress(InputError):
        return console.cwd
    return None


def _moment(word: str | None, option: str, *, at_its_end: bool = False) -> float | None:
    """A time as seconds since 1970: so long ago, a day in the local zone, or a moment."""
    if word is None:
        return None
    if found := re.fullmatch(r"([0-9]{1,6})(min|h|d|w)", word):
        return time.time() - int(found[1]) * _UNITS[found[2]]
    try:
        if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", word):
            day = datetime.fromisoformat(word) + timedelta(days=1 if at_its_end else 0)
            return day.astimezone().timestamp()
        if (moment := to_utc(word)) is not None:
            return datetime.fromisoformat(moment).timestamp() + (1 if at_its_end else 0)
    except (ValueError, OverflowError):
        pass
    raise UsageError(
        f"{option} does not take that time",
        help="it takes an age (2d), a day (2026-11-01) or a moment with its zone",
    )


def _show(shown: list[Session], as_json: bool, console: Console) -> None:
    if as_json:
        console.json(
            {"schema": "open-token/sessions/1", "sessions": [_facts(session) for session in shown]}
        )
    elif console.out_is_terminal:
        _table(shown, console)
    else:
        for session in shown:
            console.out("\t".join(_row(session)))


def _close(total: int, shown: int, known: int, console: Console) -> None:
    if known and not total:
        console.say(f"none fits, of {plural(known, 'conversation')} on this machine")
    elif not total:
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
        "conversation": session.conversation,
        "messages": session.messages,
    }


def _iso(session: Session) -> str:
    return from_epoch(int(session.modified)) or ""


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
    # Long ids need the room of the sizes on a narrow screen: a title says more.
    has_sizes = console.width() - length - 36 >= _LEAST_TITLE
    width = max(_LEAST_TITLE - 1, console.width() - length - (36 if has_sizes else 25))
    sizes = f"{'SIZE':>9}  " if has_sizes else ""
    console.out(
        console.paint(f"{'ID':{length}}  {'AGENT':12}  {'AGE':>5}  {sizes}TITLE", "bold", True)
    )
    for session in shown:
        title = cut(visible(session.title or ""), width)
        age = relative_age(now - session.modified)
        name = visible(session.id[:length])
        sizes = f"{size(session.bytes):>9}  " if has_sizes else ""
        console.out(f"{name:{length}}  {session.reader:12.12}  {age:>5}  {sizes}{title}")


def _length(ids: list[str]) -> int:
    """How much of each id must be shown to tell them apart."""
    return next((n for n in range(8, 36) if len({name[:n] for name in ids}) == len(set(ids))), 36)
