"""`open-token validate`: does an export keep the rules of the format?"""

import argparse
from pathlib import Path

from open_token.checking.validate import CHECKS, Problem, validate_bytes, validate_lines
from open_token.cli.console import Console, plural, visible
from open_token.errors import UsageError
from open_token.sources.source import Source

HELP = """Check exports against every rule of the format.

usage: open-token validate FILE... [--strict] [--json]
       open-token validate --explain OT104

  open-token validate talk.json
  open-token validate *.ndjson --json
  open-token export talk.jsonl | open-token validate -

  --strict       warnings count as errors
  --explain ID   what a check asks for, why, and how to mend it
A line of the answer: severity, check, place, what is wrong.
Exit: 0 valid  1 not valid  2 usage  3 cannot be read
"""

_SHOWN = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Files, or a check to explain."""
    parser.add_argument("files", nargs="*")
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--explain", metavar="ID")


def run(args: argparse.Namespace, console: Console) -> int:
    """Check each file; the answer is no when one of them breaks a rule."""
    if args.explain:
        return _explain(args.explain, console)
    if not args.files:
        raise UsageError("which file?", help="open-token validate FILE, or - for standard input")
    found = {name: _problems(name, console) for name in args.files}
    valid = {
        name: not any(args.strict or p.severity == "error" for p in problems)
        for name, problems in found.items()
    }
    if args.json:
        files = [
            {
                "file": name,
                "valid": valid[name],
                "problems": [problem._asdict() for problem in problems],
            }
            for name, problems in found.items()
        ]
        console.json(
            {"schema": "open-token/validation/1", "valid": all(valid.values()), "files": files}
        )
    else:
        for name, problems in found.items():
            _show(name, problems, valid[name], console)
    return 0 if all(valid.values()) else 1


def _problems(name: str, console: Console) -> list[Problem]:
    source = (
        Source.of_stream(console.stdin, name)
        if name == "-"
        else Source.of(console.cwd / Path(name).expanduser(), name)
    )
    with source.opened() as stream:
        if source.shape == "lines" and b'"header"' in source.head[:200]:
            return validate_lines(stream)
        return validate_bytes(stream.read())


def _show(name: str, problems: list[Problem], valid: bool, console: Console) -> None:
    terminal = console.out_is_terminal
    for problem in problems[:_SHOWN]:
        word = console.paint(
            f"{problem.severity}:", "red" if problem.severity == "error" else "yellow", terminal
        )
        place = f" {visible(problem.place)}" if problem.place else ""
        console.out(f"{word} {problem.id}{place}: {visible(problem.message)}")
    if len(problems) > _SHOWN:
        console.out(f"... and {len(problems) - _SHOWN} more; --json has them all")
    errors = sum(problem.severity == "error" for problem in problems)
    counts = ", ".join(
        plural(count, noun)
        for count, noun in ((errors, "error"), (len(problems) - errors, "warning"))
        if count
    )
    word = (
        console.paint("ok", "green", terminal) if valid else console.paint("FAIL", "red", terminal)
    )
    console.out(f"{word}  {visible(name)}  {counts or f'{len(CHECKS)} checks'}")
    if any(problem.id in ("OT011", "OT102") for problem in problems):
        console.say(
            "note    this does not look like an export; make one with `open-token export FILE`"
        )
    elif problems:
        console.say(f"next    open-token validate --explain {problems[0].id}")


def _explain(name: str, console: Console) -> int:
    check = CHECKS.get(name.upper())
    if check is None:
        raise UsageError(
            "there is no such check", help=f"they run from {min(CHECKS)} to {max(CHECKS)}"
        )
    console.out(
        f"{name.upper()} ({check.severity}): {check.title}\nwhy: {check.why}\nmend: {check.help}"
    )
    return 0
