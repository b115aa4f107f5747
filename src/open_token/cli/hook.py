"""`open-token hook`: install hooks with which agents archive their sessions automatically."""

import argparse
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from open_token.cli.hook_run import HOOKS_FOLDER, list_folder_options
from open_token.cli.shared.console import Console, escape_controls, print_table, shorten_path
from open_token.cli.shared.help import Help, Section
from open_token.cli.shared.installation import (
    ACTION_LABELS,
    add_install_arguments,
    check_install_arguments,
    select_runtimes,
)
from open_token.errors import OutputError, UsageError
from open_token.library.hooks import installation
from open_token.library.hooks.handlers import get_hooks, list_hook_agents
from open_token.library.hooks.log import LogLine, read_last_lines
from open_token.library.skills import InstallEnvironment
from open_token.storage.files import Folders

HELP = Help(
    summary="Let agents archive their sessions automatically.",
    usage=(
        "hook install --for AGENT [OPTIONS]",
        "hook uninstall --for AGENT [OPTIONS]",
        "hook status [--json]",
    ),
    sections=(
        Section(
            "Commands",
            (
                ("install", "Add hooks to the settings of an agent"),
                ("uninstall", "Remove them"),
                ("status", "List installed hooks and the last call of each agent"),
            ),
        ),
    ),
    notes=(
        "Sessions are archived after each turn, before a compaction and at the end. "
        "The hooks call `open-token hook run`, which queues the session, prints nothing and "
        "exits with 0 at once. A settings file that cannot be edited safely is left "
        "unchanged, and the text to paste into it is printed.",
    ),
    exit_codes=(
        ("0", "Done"),
        ("1", "A file was left unchanged, or no agent was found"),
        ("2", "Invalid usage"),
        ("3", "Cannot read or write"),
    ),
    examples=(
        ("open-token hook install --for claude-code", ""),
        (
            "open-token hook install --for codex --to ~/sessions",
            "Use the archive of `open-token archive ~/sessions`",
        ),
        ("open-token hook status", ""),
    ),
)
ACTIONS = ("install", "uninstall", "status")
_CACHE_FOLDERS = {".cache", "cache", "Caches"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the action and the options of installing."""
    group = add_install_arguments(parser, ACTIONS, ", ".join(list_hook_agents()))
    group.add_argument(
        "--to",
        metavar="DIR",
        help="The archive [default: `archive` in the user's data folder]",
    )


def run(args: argparse.Namespace, console: Console) -> int:
    """Install, uninstall or list hooks."""
    misplaced = {"--to": args.to is not None and args.action != "install"}
    check_install_arguments(args, "hook", list(list_hook_agents()), misplaced)
    machine = InstallEnvironment(
        console.home, console.cwd, console.env, Folders.of(console.env).settings
    )
    if args.action == "status":
        return _print_status(machine, args, console)
    return _change_hooks(machine, args, console)


def _change_hooks(machine: InstallEnvironment, args: argparse.Namespace, console: Console) -> int:
    scope = args.scope or "user"
    if args.action == "install":
        names = select_runtimes(args, lambda: installation.detect_agents(machine))
        folder = _parse_folder(args.to, console)
        changes = installation.install_hooks(
            machine,
            names,
            scope,
            find_own_command(),
            folder,
            list_folder_options(console.env),
            dry_run=args.dry_run,
        )
    else:
        names = select_runtimes(args, lambda: installation.list_installed_agents(machine, scope))
        changes = installation.uninstall_hooks(machine, names, scope, dry_run=args.dry_run)
    if args.json:
        console.print_json(_changes_to_json(args, scope, changes))
    else:
        _print_changes(changes, console, dry_run=args.dry_run)
    if args.action == "install" and not names:
        error = OutputError(
            "no agent that supports hooks was found", help="name one with --for AGENT"
        )
        console.error(str(error))
        return 1
    if any(change.reason for change in changes):
        return 1
    if not changes:
        console.info("no hooks of open-token are installed there")
    elif args.action == "install" and not args.dry_run:
        _print_next_steps(changes, console)
    return 0


def _print_next_steps(changes: Iterable[installation.ConfigChange], console: Console) -> None:
    if not _CACHE_FOLDERS.isdisjoint(Path(find_own_command()[0]).parts):
        console.warn(
            "this open-token is installed in a cache, and the hooks break when that is "
            "cleared; install it permanently and run this command again"
        )
    for change in changes:
        agent = list_hook_agents()[change.runtime]
        console.info(f"next    {agent.title}: {get_hooks(change.runtime).next_step}")


def _parse_folder(named: str | None, console: Console) -> Path | None:
    if named is None:
        return None
    folder = Path(os.path.abspath(console.cwd / os.path.expanduser(named)))
    if not named or (os.path.exists(folder) and not os.path.isdir(folder)):
        raise UsageError(
            "--to must be a folder", where=named, help="name a folder; it is created when needed"
        )
    return folder


def find_own_command() -> tuple[str, ...]:
    """Return the command that starts open-token: the installed script, else this Python."""
    # The hooks run in any directory and environment: the path must be absolute.
    script = Path(sys.argv[0]).absolute()
    if script.stem == "open-token" and os.access(script, os.X_OK):
        return (str(script),)
    # Without -P, a folder `open_token` in the agent's working directory would be run.
    return sys.executable, "-P", "-m", "open_token"


def _print_changes(
    changes: Iterable[installation.ConfigChange], console: Console, *, dry_run: bool
) -> None:
    for change in changes:
        path = escape_controls(_shorten_path(change.path, console))
        if not change.reason:
            console.print(f"{ACTION_LABELS[change.action][dry_run]:<13}{path}")
            continue
        remedy = "nothing was changed"
        if change.snippet:
            remedy = "add the text printed below to it yourself"
        reason = escape_controls(change.reason)
        error = OutputError(f"file left unchanged: {reason}", where=path, help=remedy)
        console.error(str(error))
        if change.snippet:
            console.print(change.snippet)


def _changes_to_json(
    args: argparse.Namespace, scope: str, changes: Iterable[installation.ConfigChange]
) -> dict[str, Any]:
    files = [
        {
            "for": change.runtime,
            "action": change.action,
            "path": str(change.path),
            "why": change.reason or None,
            "paste": change.snippet or None,
        }
        for change in changes
    ]
    return {
        "schema": f"open-token/hook-{args.action}/1",
        "scope": scope,
        "dry_run": args.dry_run,
        "files": files,
    }


def _print_status(machine: InstallEnvironment, args: argparse.Namespace, console: Console) -> int:
    places = installation.list_installations(machine, find_own_command())
    last_calls = read_last_lines(Folders.of(console.env).data / HOOKS_FOLDER)
    if args.json:
        files = [
            {
                "state": place.state,
                "for": place.runtime,
                "scope": place.scope,
                "path": str(place.path),
                "last": _call_to_json(last_calls.get(place.runtime)),
            }
            for place in places
        ]
        console.print_json({"schema": "open-token/hook-status/1", "files": files})
        return 0
    if not places:
        console.info("no agent that supports hooks was found")
    rows = []
    for place in places:
        call = last_calls.get(place.runtime)
        last_call = f"{call.at} {call.result}" if call else "never"
        path = escape_controls(_shorten_path(place.path, console))
        rows.append((place.state, place.runtime, place.scope, last_call, path))
    print_table(("STATE", "FOR", "SCOPE", "LAST CALL", "FILE"), rows, console)
    return 0


def _call_to_json(call: LogLine | None) -> dict[str, Any] | None:
    if call is None:
        return None
    return {
        "at": call.at,
        "event": call.event,
        "id": call.id,
        "result": call.result,
        "code": call.code,
    }


def _shorten_path(path: Path, console: Console) -> str:
    if path.is_relative_to(console.cwd):
        return str(path.relative_to(console.cwd))
    return shorten_path(path, console.home)
