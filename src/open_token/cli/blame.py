"""`open-token blame`: which prompt of which session wrote each line of a file."""

import argparse
from collections.abc import Iterator
from pathlib import Path

import msgspec

from open_token.api import blame
from open_token.cli.shared.console import Console, escape_controls, truncate_to_columns
from open_token.cli.shared.help import Help, Section
from open_token.errors import UsageError
from open_token.library.blame import BlamedLine

HELP = Help(
    summary="Show which prompt of which session wrote each line of a file.",
    usage=("blame FILE[:LINE] [OPTIONS]",),
    sections=(Section("Arguments", (("FILE[:LINE]", "A file, or one line of it"),)),),
    notes=(
        "Compares the edits of all sessions on this machine with the file and with the history "
        "that git has of it. No hook has to be installed before. Lines that no edit explains are "
        "named as such: a person may have written them, or a shell command.",
    ),
    exit_codes=(
        ("0", "At least one line is explained"),
        ("1", "No line is explained"),
        ("2", "Invalid usage"),
        ("3", "Cannot read"),
    ),
    examples=(
        ("open-token blame src/parser.py", ""),
        ("open-token blame src/parser.py:120", "Who asked for line 120"),
        ("open-token blame src/parser.py --json | jq .lines", ""),
    ),
)
_ID_LENGTH = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the file."""
    parser.add_argument("place", metavar="FILE[:LINE]", help=argparse.SUPPRESS)
    search = parser.add_argument_group("Search index")
    search.add_argument("--no-update", action="store_true", help="Use the search index as it is")


def run(args: argparse.Namespace, console: Console) -> int:
    """Find the origins and print them."""
    path, number = _split_place(args.place, console)
    lines = blame(path, update=not args.no_update)
    if number > len(lines):
        raise UsageError(f"there is no line {number}", help=f"the file has {len(lines)} lines")
    if number:
        lines = [lines[number - 1]]
    if args.json:
        rows = msgspec.to_builtins(lines)
        console.print_json({"schema": "open-token/blame/1", "file": args.place, "lines": rows})
    elif number:
        _print_line(lines[0], console)
    else:
        _print_lines(lines, console)
    explained = sum(line.origin is not None for line in lines)
    console.info(f"{explained:,} of {len(lines):,} lines were written by sessions on this machine")
    return 0 if explained else 1


def _split_place(place: str, console: Console) -> tuple[Path, int]:
    name, _, last = place.rpartition(":")
    if name and last.isascii() and last.isdigit() and not (console.cwd / place).exists():
        if int(last[:9]) == 0:
            raise UsageError("lines are counted from 1", help=f"for example {name}:1")
        return console.cwd / Path(name).expanduser(), int(last[:9])
    return console.cwd / Path(place).expanduser(), 0


def _group_lines(lines: list[BlamedLine]) -> Iterator[list[BlamedLine]]:
    """Yield neighbouring lines that have the same origin."""
    group: list[BlamedLine] = []
    for line in lines:
        if group and group[-1].origin != line.origin:
            yield group
            group = []
        group.append(line)
    if group:
        yield group


def _print_lines(lines: list[BlamedLine], console: Console) -> None:
    is_terminal = console.stdout_is_terminal
    digits = len(str(len(lines)))
    for group in _group_lines(lines):
        head = escape_controls(_describe(group[0]))
        if is_terminal:
            head = truncate_to_columns(head, console.width())
        console.print(console.style(head, "bold", is_terminal))
        for line in group:
            console.print(f"{line.number:>{digits}}  {escape_controls(line.text)}".rstrip())


def _describe(line: BlamedLine) -> str:
    origin = line.origin
    if origin is None:
        commit = f", commit {line.commit[:_ID_LENGTH]}" if line.commit else ""
        return f"-- no session on this machine explains this{commit}"
    facts = (origin.agent, origin.session_id[:_ID_LENGTH], origin.ts[:10], origin.prompt)
    return "-- " + "  ".join(fact for fact in facts if fact)


def _print_line(line: BlamedLine, console: Console) -> None:
    origin = line.origin
    console.print(escape_controls(line.text))
    if origin is None:
        console.print(_describe(line))
        return
    rows = (
        ("prompt", origin.prompt),
        ("session", origin.session_id),
        ("agent", "  ".join(filter(None, (origin.agent, origin.model)))),
        ("time", origin.ts),
        ("commit", line.commit[:12]),
        ("read it", f"open-token show {origin.session_id} --at {origin.event}"),
    )
    for label, value in rows:
        if value:
            console.print(f"{label:8} {escape_controls(value)}")
