"""`open-token verify`: is an export unchanged since it was written?"""

import argparse
from collections.abc import Iterator
from pathlib import Path

from open_token.checking.verify import (
    MATCH,
    MISMATCH,
    MISMATCHED,
    UNVERIFIABLE,
    Part,
    Verdict,
    verify_bytes,
    verify_lines,
)
from open_token.cli.console import Console, plural, visible
from open_token.source import Source

HELP = """Check that an export is unchanged since it was written.

usage: open-token verify FILE [--accept-legacy] [--json]

  open-token verify talk.json
  open-token export talk.jsonl | open-token verify -

  --accept-legacy  a hash made under another reading of the canonical form is good enough
A hash shows that nothing changed since the export, not who made it or when.
Exit: 0 unchanged  1 changed  2 usage  3 cannot be verified (no hash, or not an export)
"""

_SHOWN = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The file."""
    parser.add_argument("file")
    parser.add_argument("--accept-legacy", action="store_true")


def run(args: argparse.Namespace, console: Console) -> int:
    """Compute every hash again and compare."""
    name = args.file
    source = (
        Source.of_stream(console.stdin, name) if name == "-" else Source.of(console.cwd / Path(name).expanduser(), name)
    )
    verdict = _verdict(source)
    code = _exit_code(verdict, args.accept_legacy)
    if args.json:
        parts = [part._asdict() for part in verdict.parts]
        console.json(
            {"schema": "open-token/verdict/1", "file": name, "exit": code} | verdict._asdict() | {"parts": parts}
        )
    else:
        _show(verdict, name, code, console)
    return code


def _verdict(source: Source) -> Verdict:
    """A stream line by line, a document whole."""
    if source.shape == "lines" and b'"header"' in source.head[:200]:
        return verify_lines(lambda: _lines(source))
    with source.opened() as stream:
        return verify_bytes(stream.read())


def _lines(source: Source) -> Iterator[bytes]:
    with source.opened() as stream:
        yield from (line.rstrip(b"\r\n") for line in stream)


def _line(part: Part, word: str) -> str:
    told = _short(part.claimed)
    if part.state == MISMATCH and part.found:
        told = f"stored {told}  computed {_short(part.found)}"
    elif part.state not in (MATCH, MISMATCH):
        told = "not checked"
    return f"{word}  {part.name:14} {visible(told)}"


def _short(value: str) -> str:
    return f"{value[:16]}..." if len(value) == 64 else value


def _exit_code(verdict: Verdict, accept_legacy: bool) -> int:
    if verdict.status == UNVERIFIABLE:
        return 3
    if verdict.status == MISMATCHED:
        return 0 if accept_legacy and verdict.matched_profile else 1
    return 0


def _show(verdict: Verdict, name: str, code: int, console: Console) -> None:
    terminal = console.out_is_terminal
    good, bad = console.paint("ok  ", "green", terminal), console.paint("FAIL", "red", terminal)
    for part in verdict.parts:
        console.out(_line(part, {MATCH: good, MISMATCH: bad}.get(part.state, "--  ")))
    reasons = verdict.reasons if verdict.status == UNVERIFIABLE else ()
    for reason in reasons[:_SHOWN]:
        console.out(f"{bad}  {visible(reason)}")
    if len(reasons) > _SHOWN:
        console.out(f"... and {len(reasons) - _SHOWN:,} more; --json has them all")
    for warning in verdict.warnings:
        console.warn(visible(warning))
    if verdict.matched_profile:
        console.say(f"note    the hash holds when the canonical form is read as {verdict.matched_profile}")
    if code == 0:
        console.out(f"{good}  {visible(name)}  unchanged since it was written, {plural(verdict.events, 'event')}")
    elif code == 1:
        console.out(f"{bad}  {visible(name)}  changed since it was written")
    else:
        console.say(f"help    {_advice(verdict)}")


def _advice(verdict: Verdict) -> str:
    """What to do about a file that cannot be verified: an export without a hash, or none that can be read at all."""
    if verdict.parts or verdict.events:
        return "export it again with integrity=hash; a hash shows change, not authorship"
    return "this is no export, or not a whole one: get it again, or make one with `open-token export FILE`"
