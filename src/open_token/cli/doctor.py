"""`open-token doctor`: report the state of open-token and of the agents on this machine."""

import argparse
import time
from pathlib import Path

from open_token.cli.hook import find_own_command
from open_token.cli.sessions import describe_unreadable, unreadable_to_json
from open_token.cli.shared.console import Console, escape_controls, pluralize, shorten_path
from open_token.cli.shared.help import Help
from open_token.library.health import AgentHealth, Health, check_health, format_day
from open_token.library.skills import InstallEnvironment
from open_token.storage.files import Folders

HELP = Help(
    summary="Report what open-token finds on this machine and what is wrong.",
    usage=("doctor [OPTIONS]",),
    notes=(
        "Lists optional packages, agents with their sessions, hooks, skill and MCP server, the "
        "archive, the search index, settings that have no effect, and sessions that their agent "
        "deletes soon. Nothing is changed.",
    ),
    exit_codes=(
        ("0", "Nothing is wrong"),
        ("1", "There are problems; each one says how to fix it"),
        ("2", "Invalid usage"),
    ),
    examples=(("open-token doctor", ""), ("open-token doctor --json", "")),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add nothing: there are only the global options."""


def run(args: argparse.Namespace, console: Console) -> int:
    """Print the report."""
    folders = Folders.of(console.env)
    machine = InstallEnvironment(console.home, console.cwd, console.env, folders.settings)
    health = check_health(console.env, machine, find_own_command(), time.time())
    if args.json:
        console.print_json(_to_json(health))
    else:
        _print_report(health, console)
    return 1 if health.problems else 0


def _print_report(health: Health, console: Console) -> None:
    console.print(f"open-token {health.version}, Python {health.python}")
    for package in health.packages:
        state = "present" if package.is_present else f"missing: {package.effect}; {package.remedy}"
        console.print(f"  {package.name:10} {state}")
    console.print("")
    if not health.agents:
        console.print(
            "No sessions of agents found; `open-token formats` lists the folders searched."
        )
    for agent in health.agents:
        for line in _describe_agent(agent, console.home):
            console.print(line)
    console.print("")
    console.print(_describe_archive(health, console.home))
    console.print(_describe_index(health, console.home))
    console.print("")
    for problem in health.problems:
        mark = console.style("problem", "red", console.stdout_is_terminal)
        console.print(f"{mark}: {escape_controls(problem.text)}")
        console.print(f"  fix: {escape_controls(problem.remedy)}")
    if not health.problems:
        console.print("No problems found.")


def _describe_agent(agent: AgentHealth, home: Path) -> list[str]:
    lines = [agent.title]
    for folder, count in agent.places.items():
        shown = escape_controls(shorten_path(Path(folder), home))
        lines.append(f"  {pluralize(count, 'session')} in {shown}")
    lines += [f"  {describe_unreadable(files, home)}" for files in agent.unreadable]
    states = {"hooks": agent.hook, "skill": agent.skill, "MCP server": agent.mcp}
    known = [f"{name}: {_SHOWN.get(state, state)}" for name, state in states.items() if state]
    if known:
        lines.append(f"  {', '.join(known)}")
    if agent.keeps_days is not None:
        lines.append(f"  deletes sessions after {pluralize(agent.keeps_days, 'day')}")
    return lines


_SHOWN = {"absent": "not installed", "registered": "installed"}


def _describe_archive(health: Health, home: Path) -> str:
    archive = health.archive
    if archive is None:
        return "Archive: none; `open-token archive` keeps sessions that their agent deletes"
    folder = escape_controls(shorten_path(archive.folder, home))
    sessions = pluralize(archive.sessions, "session")
    return f"Archive: {sessions} in {folder}, last change {format_day(archive.last_pass)}"


def _describe_index(health: Health, home: Path) -> str:
    index = health.index
    if index is None:
        return "Search index: none; `open-token search` creates it"
    path = escape_controls(shorten_path(index.path, home))
    return f"Search index: {pluralize(index.sessions, 'session')} in {path}"


def _to_json(health: Health) -> dict[str, object]:
    archive = health.archive
    index = health.index
    return {
        "schema": "open-token/doctor/1",
        "version": health.version,
        "python": health.python,
        "packages": [
            {"name": item.name, "present": item.is_present, "without": item.effect}
            for item in health.packages
        ],
        "agents": [_agent_to_json(agent) for agent in health.agents],
        "archive": archive
        and {
            "folder": str(archive.folder),
            "sessions": archive.sessions,
            "failed": archive.failed,
            "last_change": archive.last_pass,
        },
        "index": index
        and {"path": str(index.path), "sessions": index.sessions, "failed": index.failed},
        "problems": [{"problem": item.text, "fix": item.remedy} for item in health.problems],
    }


def _agent_to_json(agent: AgentHealth) -> dict[str, object]:
    return {
        "agent": agent.name,
        "title": agent.title,
        "places": [{"folder": folder, "sessions": count} for folder, count in agent.places.items()],
        "unreadable": [unreadable_to_json(files) for files in agent.unreadable],
        "hooks": agent.hook,
        "skill": agent.skill,
        "mcp": agent.mcp,
        "deletes_after_days": agent.keeps_days,
        "deleted_soon": agent.expiring,
    }
