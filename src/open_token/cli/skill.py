"""The verb `skill`: put our skill where a runtime looks for skills, show it, say how it stands,
take it away."""

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from open_token.cli import placing
from open_token.cli.console import Console, table, visible
from open_token.errors import OutputError
from open_token.locallib import skills
from open_token.storage.files import Folders

HELP = """Install the skill with which an agent exports its own conversation.

usage: open-token skill install|uninstall --for RUNTIME [--scope user|project] [--dry-run]
       open-token skill status
       open-token skill show [--path]

  open-token skill install --for claude-code
  open-token skill install --for auto --dry-run      for every runtime found here; write nothing
  open-token skill uninstall --for codex --scope project

  --for RUNTIME   claude-code, codex, gemini-cli, opencode, cursor, copilot-cli, cline, goose, pi,
                  amp, qwen-code, windsurf, zed; universal: the folder most of them share;
                  auto: every one found here; may be repeated
  --scope SCOPE   user: for you, everywhere (default); project: for this folder only
  --dry-run       say what would be done and change nothing
  --path          print the folder of the shipped skill instead of its text
  --json          print one JSON object

A file that is not ours, or that was changed since, is never overwritten and never deleted.
Exit: 0 done  1 such a file was left, or no runtime was found  2 usage  3 cannot read or write
"""
ACTIONS = ("install", "uninstall", "status", "show")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The action, and what belongs to it."""
    placing.add_arguments(parser, ACTIONS)
    parser.add_argument("--path", action="store_true")


def run(args: argparse.Namespace, console: Console) -> int:
    """Carry out the action."""
    placing.check(
        args, "skill", list(skills.list_targets()), {"--path": args.path and args.action != "show"}
    )
    machine = skills.Machine(
        console.home, console.cwd, console.env, Folders.of(console.env).settings
    )
    if args.action == "show":
        return _show(args, console)
    if args.action == "status":
        return _status(machine, args, console)
    return _change(machine, args, console)


def _show(args: argparse.Namespace, console: Console) -> int:
    if args.json:
        console.json(
            {
                "schema": "open-token/skill-show/1",
                "path": str(skills.folder()),
                "text": skills.text(),
            }
        )
    else:
        console.out(str(skills.folder()) if args.path else skills.text().rstrip("\n"))
    return 0


def _change(machine: skills.Machine, args: argparse.Namespace, console: Console) -> int:
    installing = args.action == "install"
    scope = args.scope or "user"
    names = placing.chosen(
        args, lambda: skills.detect(machine) if installing else skills.installed_for(machine, scope)
    )
    change = skills.install if installing else skills.uninstall
    steps = change(machine, names, scope, dry_run=args.dry_run)
    if args.json:
        console.json(_report(args, scope, names, steps))
    else:
        _tell(steps, scope, console, dry_run=args.dry_run)
    if installing and not names:
        console.error(str(_none_found()))
        return 1
    if any(step.why for step in steps):
        return 1
    if not steps:
        console.say("nothing of ours is installed there")
    elif not installing and any(step.action != "remove" for step in steps):
        console.say("what is left stays for another runtime that uses the same folder")
    elif installing and not args.dry_run:
        console.say(_next(names, scope))
    return 0


def _tell(steps: Iterable[skills.Step], scope: str, console: Console, *, dry_run: bool) -> None:
    for step in steps:
        where = visible(_short(step.path, console, scope))
        if step.why:
            console.error(str(_not_ours(step, where)))
        else:
            console.out(f"{placing.SAID[step.action][dry_run]:<13}{where}")


def _not_ours(step: skills.Step, where: str) -> OutputError:
    if step.action == "keep":
        return OutputError(
            f"a file stays: {step.why}",
            where=where,
            help="delete it yourself if you do not need it",
        )
    return OutputError(
        f"this folder was left as it is: {step.why}",
        where=where,
        help="move it away and run the same command again; `open-token skill show` prints our text",
    )


def _none_found() -> OutputError:
    return OutputError(
        "no runtime that we know was found on this machine",
        help="name one with --for, or use --for universal for the folder that most runtimes share",
    )


def _report(
    args: argparse.Namespace, scope: str, names: list[str], steps: Iterable[skills.Step]
) -> dict[str, Any]:
    return {
        "schema": f"open-token/skill-{args.action}/1",
        "scope": scope,
        "dry_run": args.dry_run,
        "runtimes": names,
        "files": [
            {"action": step.action, "path": str(step.path), "why": step.why or None}
            for step in steps
        ],
    }


def _next(names: list[str], scope: str) -> str:
    if len(names) > 1:
        return "next    open-token skill status"
    target = skills.list_targets()[names[0]]
    trust = " (it may ask you to trust this folder first)" if scope == "project" else ""
    return f"next    in {target.title}{trust}: {target.skill.call}"


def _status(machine: skills.Machine, args: argparse.Namespace, console: Console) -> int:
    places = skills.status(machine)
    if args.json:
        facts = [
            {"state": place.state, "for": list(place.runtimes), "path": str(place.path)}
            for place in places
        ]
        console.json({"schema": "open-token/skill-status/1", "folders": facts})
        return 0
    rows = [
        (place.state, ",".join(place.runtimes), visible(_short(place.path, console, "user")))
        for place in places
    ]
    if not rows:
        console.say("the skill is not installed, and no runtime that we know was found here")
    table(("STATE", "FOR", "FOLDER"), rows, console)
    return 0


def _short(path: Path, console: Console, scope: str) -> str:
    here = console.cwd.resolve()
    if scope == "project" and path.is_relative_to(here):
        return str(path.relative_to(here))
    for home in (console.home, console.home.resolve()):
        if path.is_relative_to(home):
            return f"~/{path.relative_to(home)}"
    return str(path)
