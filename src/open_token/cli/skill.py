"""`open-token skill`: install the skill with which an agent exports its own session."""

import argparse
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from open_token.cli.shared.console import Console, escape_controls, print_table
from open_token.cli.shared.help import Help, Section
from open_token.cli.shared.installation import (
    ACTION_LABELS,
    add_install_arguments,
    check_install_arguments,
    select_runtimes,
)
from open_token.errors import OutputError
from open_token.library import skills
from open_token.storage.files import Folders

HELP = Help(
    summary="Install the skill with which an agent exports its own session.",
    usage=(
        "skill install --for AGENT [OPTIONS]",
        "skill uninstall --for AGENT [OPTIONS]",
        "skill status [--json]",
        "skill show [--path]",
    ),
    sections=(
        Section(
            "Commands",
            (
                ("install", "Copy the skill to where an agent looks for skills"),
                ("uninstall", "Remove it"),
                ("status", "List the folders and the state of the skill in each"),
                ("show", "Print the text of the skill"),
            ),
        ),
    ),
    notes=("A file that is not ours, or that was edited, is never overwritten or deleted.",),
    exit_codes=(
        ("0", "Done"),
        ("1", "A file was left unchanged, or no agent was found"),
        ("2", "Invalid usage"),
        ("3", "Cannot read or write"),
    ),
    examples=(
        ("open-token skill install --for claude-code", ""),
        ("open-token skill install --for auto --dry-run", ""),
        ("open-token skill uninstall --for codex --scope project", ""),
    ),
)
ACTIONS = ("install", "uninstall", "status", "show")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the action and the options of installing."""
    names = [name for name in skills.list_targets() if name != "universal"]
    agents = f"{', '.join(names)}; universal: the folder that most agents share"
    add_install_arguments(parser, ACTIONS, agents)
    display = parser.add_argument_group("Display")
    display.add_argument(
        "--path", action="store_true", help="show: print the folder instead of the text"
    )


def run(args: argparse.Namespace, console: Console) -> int:
    """Install, uninstall, list or show the skill."""
    misplaced = {"--path": args.path and args.action != "show"}
    check_install_arguments(args, "skill", list(skills.list_targets()), misplaced)
    if args.action == "show":
        return _print_skill(args, console)
    settings = Folders.of(console.env).settings
    machine = skills.InstallEnvironment(console.home, console.cwd, console.env, settings)
    if args.action == "status":
        return _print_status(machine, args, console)
    return _change_skill(machine, args, console)


def _print_skill(args: argparse.Namespace, console: Console) -> int:
    if args.json:
        folder = str(skills.get_skill_folder())
        console.print_json(
            {"schema": "open-token/skill-show/1", "path": folder, "text": skills.read_skill_text()}
        )
    elif args.path:
        console.print(str(skills.get_skill_folder()))
    else:
        console.print(skills.read_skill_text().rstrip("\n"))
    return 0


def _change_skill(
    machine: skills.InstallEnvironment, args: argparse.Namespace, console: Console
) -> int:
    is_install = args.action == "install"
    scope = args.scope or "user"
    if is_install:
        names = select_runtimes(args, lambda: skills.detect_agents(machine))
        steps = skills.install_skill(machine, names, scope, dry_run=args.dry_run)
    else:
        names = select_runtimes(args, lambda: skills.list_installed_agents(machine, scope))
        steps = skills.uninstall_skill(machine, names, scope, dry_run=args.dry_run)
    if args.json:
        console.print_json(_steps_to_json(args, scope, names, steps))
    else:
        _print_steps(steps, scope, console, dry_run=args.dry_run)
    if is_install and not names:
        error = OutputError(
            "no supported agent was found",
            help="name one with --for, or use --for universal for the folder most agents share",
        )
        console.error(str(error))
        return 1
    if any(step.reason for step in steps):
        return 1
    if not steps:
        console.info("the skill is not installed there")
    elif not is_install and any(step.action != "remove" for step in steps):
        console.info("some files are still used by another agent that shares the folder")
    elif is_install and not args.dry_run:
        console.info(_describe_next_step(names, scope))
        if shutil.which("open-token", path=console.env.get("PATH", "")) is None:
            console.info("note    open-token is not on PATH, where the agent looks for it")
    return 0


def _print_steps(
    steps: Iterable[skills.FileChange], scope: str, console: Console, *, dry_run: bool
) -> None:
    for step in steps:
        path = escape_controls(_shorten_path(step.path, console, scope))
        if step.reason:
            console.error(str(_conflict_error(step, path)))
        else:
            console.print(f"{ACTION_LABELS[step.action][dry_run]:<13}{path}")


def _conflict_error(step: skills.FileChange, path: str) -> OutputError:
    if step.action == "keep":
        return OutputError(
            f"file not removed: {step.reason}",
            where=path,
            help="delete it yourself if you do not need it",
        )
    return OutputError(
        f"folder left unchanged: {step.reason}",
        where=path,
        help="move it away and run the command again; `open-token skill show` prints our text",
    )


def _steps_to_json(
    args: argparse.Namespace, scope: str, names: list[str], steps: Iterable[skills.FileChange]
) -> dict[str, Any]:
    files = [
        {"action": step.action, "path": str(step.path), "why": step.reason or None}
        for step in steps
    ]
    return {
        "schema": f"open-token/skill-{args.action}/1",
        "scope": scope,
        "dry_run": args.dry_run,
        "runtimes": names,
        "files": files,
    }


def _describe_next_step(names: list[str], scope: str) -> str:
    if len(names) > 1:
        return "next    open-token skill status"
    target = skills.list_targets()[names[0]]
    if scope == "project":
        trust = " (it may ask you to trust this folder first)"
    else:
        trust = ""
    return f"next    in {target.title}{trust}: {target.skill.call}"


def _print_status(
    machine: skills.InstallEnvironment, args: argparse.Namespace, console: Console
) -> int:
    places = skills.list_installations(machine)
    if args.json:
        folders = [
            {"state": place.state, "for": list(place.runtimes), "path": str(place.path)}
            for place in places
        ]
        console.print_json({"schema": "open-token/skill-status/1", "folders": folders})
        return 0
    if not places:
        console.info("the skill is not installed, and no supported agent was found")
    rows = []
    for place in places:
        path = escape_controls(_shorten_path(place.path, console, "user"))
        rows.append((place.state, ",".join(place.runtimes), path))
    print_table(("STATE", "FOR", "FOLDER"), rows, console)
    return 0


def _shorten_path(path: Path, console: Console, scope: str) -> str:
    cwd = console.cwd.resolve()
    if scope == "project" and path.is_relative_to(cwd):
        return str(path.relative_to(cwd))
    for home in (console.home, console.home.resolve()):
        if path.is_relative_to(home):
            return f"~/{path.relative_to(home)}"
    return str(path)
