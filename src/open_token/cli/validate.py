"""`open-token validate`: check exports against the format specification."""

import argparse
from pathlib import Path
from typing import Any

from open_token.cli.shared.console import Console, escape_controls, pluralize
from open_token.cli.shared.help import Help, Section
from open_token.errors import UsageError
from open_token.sources.source import Source
from open_token.validation.validate import CHECKS, Problem, validate_bytes, validate_lines

HELP = Help(
    summary="Check exports against every rule of the format specification.",
    usage=("validate FILE... [OPTIONS]", "validate --explain ID"),
    sections=(Section("Arguments", (("FILE", "An export, or - for stdin"),)),),
    notes=("Each line of the result has severity, check, position and problem.",),
    exit_codes=(
        ("0", "Valid"),
        ("1", "Invalid"),
        ("2", "Invalid usage"),
        ("3", "Cannot read"),
    ),
    examples=(
        ("open-token validate session.json", ""),
        ("open-token export session.jsonl | open-token validate -", ""),
        ("open-token validate --explain OT104", ""),
    ),
)
_MAX_PROBLEMS = 20
_NOT_AN_EXPORT = ("OT011", "OT102")
"""Checks that fail for a file that is no export at all."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the files and the check to explain."""
    parser.add_argument("files", nargs="*", help=argparse.SUPPRESS)
    checks = parser.add_argument_group("Checks")
    checks.add_argument("--strict", action="store_true", help="Treat warnings as errors")
    checks.add_argument(
        "--explain", metavar="ID", help="Explain what a check requires, and how to fix it"
    )


def run(args: argparse.Namespace, console: Console) -> int:
    """Check each file; the exit code is 1 if one of them is invalid."""
    if args.explain:
        return _explain_check(args.explain, console)
    if not args.files:
        raise UsageError("validate needs a file", help="open-token validate FILE, or - for stdin")
    results = {name: _find_problems(name, console) for name in args.files}
    valid = {}
    for name, problems in results.items():
        errors = [item for item in problems if args.strict or item.severity == "error"]
        valid[name] = not errors
    if args.json:
        files: list[dict[str, Any]] = []
        for name, problems in results.items():
            listed = [problem._asdict() for problem in problems]
            files.append({"file": name, "valid": valid[name], "problems": listed})
        console.print_json(
            {"schema": "open-token/validation/1", "valid": all(valid.values()), "files": files}
        )
    else:
        for name, problems in results.items():
            _print_result(name, problems, valid[name], console)
    return 0 if all(valid.values()) else 1


def _find_problems(name: str, console: Console) -> list[Problem]:
    if name == "-":
        source = Source.of_stream(console.stdin, name)
    else:
        source = Source.of(console.cwd / Path(name).expanduser(), name)
    with source.opened() as stream:
        # NDJSON is checked line by line, in constant memory.
        if source.shape == "lines" and b'"header"' in source.head[:200]:
            return validate_lines(stream)
        return validate_bytes(stream.read())


def _print_result(name: str, problems: list[Problem], is_valid: bool, console: Console) -> None:
    is_terminal = console.stdout_is_terminal
    for problem in problems[:_MAX_PROBLEMS]:
        color = "red" if problem.severity == "error" else "yellow"
        severity = console.style(f"{problem.severity}:", color, is_terminal)
        place = f" {escape_controls(problem.place)}" if problem.place else ""
        console.print(f"{severity} {problem.id}{place}: {escape_controls(problem.message)}")
    if len(problems) > _MAX_PROBLEMS:
        console.print(f"... and {len(problems) - _MAX_PROBLEMS} more; --json lists all")
    if is_valid:
        verdict = console.style("ok", "green", is_terminal)
    else:
        verdict = console.style("FAIL", "red", is_terminal)
    console.print(f"{verdict}  {escape_controls(name)}  {_count_problems(problems)}")
    if any(problem.id in _NOT_AN_EXPORT for problem in problems):
        console.info("note    not an export? create one with `open-token export FILE`")
    elif problems:
        console.info(f"next    open-token validate --explain {problems[0].id}")


def _count_problems(problems: list[Problem]) -> str:
    errors = sum(problem.severity == "error" for problem in problems)
    warnings = len(problems) - errors
    counts = []
    if errors:
        counts.append(pluralize(errors, "error"))
    if warnings:
        counts.append(pluralize(warnings, "warning"))
    return ", ".join(counts) or f"{len(CHECKS)} checks"


def _explain_check(name: str, console: Console) -> int:
    check_id = name.upper()
    check = CHECKS.get(check_id)
    if check is None:
        raise UsageError(
            "no such check", help=f"checks are numbered from {min(CHECKS)} to {max(CHECKS)}"
        )
    console.print(f"{check_id} ({check.severity}): {check.title}")
    console.print(f"why: {check.why}")
    console.print(f"fix: {check.help}")
    return 0
