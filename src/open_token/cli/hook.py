"""The verb `hook`: let runtimes call us when a conversation has grown or ended, so that it is
archived."""

import argparse
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from open_token.cli import placing
from open_token.cli.console import Console, table, visible
from open_token.cli.hooked import FOLDER
from open_token.errors import OutputError, UsageError
from open_token.locallib.hooks import installation
from open_token.locallib.hooks.handlers import get_hooks, list_hook_agents
from open_token.locallib.hooks.log import LogLine, read_last_lines
from open_token.locallib.skills import Machine
from open_token.storage.files import Folders

HELP = """Let an agent archive its conversations by itself: after a turn, before a summary, at the end.

usage: open-token hook install --for RUNTIME [--to DIR] [--scope user|project] [--dry-run]
       open-token hook uninstall --for RUNTIME [--scope user|project] [--dry-run]
       open-token hook status

  open-token hook install --for claude-code          into the archive in your data folder
  open-token hook install --for codex --to ~/talks   into that of `open-token archive ~/talks`
  open-token hook status                             who calls us, and what came of it

  --for RUNTIME   claude-code, codex, gemini-cli, qwen-code, copilot-cli, cursor;
                  auto: every one found here; may be repeated
  --to DIR        where to; without it the folder `archive` in this user's data folder
  --scope SCOPE   user: all your conversations (default); project: those in this folder only
  --dry-run       say what would be done and change nothing
  --json          print one JSON object

It calls `open-token hook run`, which hands over, prints nothing and exits 0 at once.
A file that cannot be changed without loss is left, and what to paste into it is printed.
Exit: 0 done  1 such a file was left, or no runtime was found  2 usage  3 cannot read or write
"""
ACTIONS = ("install", "uninstall", "status")
_CACHES = {".cache", "cache", "Caches"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The action, and what belongs to it."""
    placing.add_arguments(parser, ACTIONS)
    parser.add_argument("--to", metavar="DIR")


def run(args: argparse.Namespace, console: Console) -> int:
    """Carry out the action."""
    placing.check(
        args,
        "hook",
        list(list_hook_agents()),
        {"--to": args.to is not None and args.action != "install"},
    )
    machine = Machine(console.home, console.cwd, console.env, Folders.of(console.env).settings)
    return (
        _status(machine, args, console)
        if args.action == "status"
        else _change(machine, args, console)
    )


def _change(machine: Machine, args: argparse.Namespace, console: Console) -> int:
    scope, is_new = args.scope or "user", args.action == "install"
    names = placing.chosen(
        args,
        lambda: (
            installation.detect(machine) if is_new else installation.installed_for(machine, scope)
        ),
    )
    if is_new:
        folder = _folder(args.to, console)
        changes = installation.install(
            machine, names, scope, program(), folder, dry_run=args.dry_run
        )
    else:
        changes = installation.uninstall(machine, names, scope, dry_run=args.dry_run)
    if args.json:
        console.json(_report(args, scope, changes))
    else:
        _tell(changes, console, dry_run=args.dry_run)
    if is_new and not names:
        console.error(
            str(
                OutputError(
                    "no runtime with hooks was found on this machine", help="name one with --for"
                )
            )
        )
        return 1
    if any(change.why for change in changes):
        return 1
    if not changes:
        console.say("nothing of ours is installed there")
    elif is_new and not args.dry_run:
        if not _CACHES.isdisjoint(Path(program()[0]).parts):
            console.warn(
                "this open-token lies in a cache, and the hooks end with it; install it for good and do this again"
            )
        for change in changes:
            console.say(
                f"next    {list_hook_agents()[change.runtime].title}: {get_hooks(change.runtime).next_step}"
            )
    return 0


def _folder(named: str | None, console: Console) -> Path | None:
    if named is None:
        return None
    folder = Path(os.path.abspath(console.cwd / os.path.expanduser(named)))
    if not named or (os.path.exists(folder) and not os.path.isdir(folder)):
        raise UsageError(
            "--to takes a folder", where=named, help="name a folder; it is made when it is needed"
        )
    return folder


def program() -> tuple[str, ...]:
    """How we are started by others: by the installed command; where it was not used, by this
    Python."""
    started = Path(sys.argv[0]).absolute()
    if started.stem == "open-token" and os.access(started, os.X_OK):
        return (str(started),)
    # Without -P a folder `open_token` in the agent's working folder would be run.
    return sys.executable, "-P", "-m", "open_token"


def _tell(changes: Iterable[installation.Change], console: Console, *, dry_run: bool) -> None:
    for change in changes:
        where = visible(_short(change.path, console))
        if not change.why:
            console.out(f"{placing.SAID[change.action][dry_run]:<13}{where}")
            continue
        remedy = (
            "add what is printed here to it yourself" if change.snippet else "nothing was changed"
        )
        what = f"this file was left as it is: {visible(change.why)}"
        console.error(str(OutputError(what, where=where, help=remedy)))
        if change.snippet:
            console.out(change.snippet)


def _report(
    args: argparse.Namespace, scope: str, changes: Iterable[installation.Change]
) -> dict[str, Any]:
    return {
        "schema": f"open-token/hook-{args.action}/1",
        "scope": scope,
        "dry_run": args.dry_run,
        "files": [
            {
                "for": change.runtime,
                "action": change.action,
                "path": str(change.path),
                "why": change.why or None,
                "paste": change.snippet or None,
            }
            for change in changes
        ],
    }


def _status(machine: Machine, args: argparse.Namespace, console: Console) -> int:
    places = installation.status(machine, program())
    last = read_last_lines(Folders.of(console.env).data / FOLDER)
    if args.json:
        facts = [
            {
                "state": place.state,
                "for": place.runtime,
                "scope": place.scope,
                "path": str(place.path),
                "last": _facts(last.get(place.runtime)),
            }
            for place in places
        ]
        console.json({"schema": "open-token/hook-status/1", "files": facts})
        return 0
    rows = [
        (
            place.state,
            place.runtime,
            place.scope,
            _words(last.get(place.runtime)),
            visible(_short(place.path, console)),
        )
        for place in places
    ]
    if not rows:
        console.say("no runtime with hooks was found here")
    table(("STATE", "FOR", "SCOPE", "LAST CALL", "FILE"), rows, console)
    return 0


def _facts(told: LogLine | None) -> dict[str, Any] | None:
    return (
        {
            "at": told.at,
            "event": told.event,
            "id": told.id,
            "result": told.result,
            "code": told.code,
        }
        if told
        else None
    )


def _words(told: LogLine | None) -> str:
    return f"{told.at} {told.result}" if told else "never"


def _short(path: Path, console: Console) -> str:
    for folder, sign in ((console.cwd, ""), (console.home, "~/")):
        if path.is_relative_to(folder):
            return f"{sign}{path.relative_to(folder)}"
    return str(path)
