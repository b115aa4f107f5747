"""`open-token verify`: is an export unchanged since it was written?"""

import argparse
from pathlib import Path

from open_token.checking.verify import (
    MATCH,
    MISMATCH,
    MISMATCHED,
    UNVERIFIABLE,
    Part,
    Verdict,
    verify_source,
)
from open_token.cli.console import Console, plural, visible
from open_token.errors import InputError
from open_token.signatures.judging import INVALID, TRUSTED, UNKNOWN, Judged
from open_token.sources.source import Source
from open_token.vouching import trusted

HELP = """Check that an export is unchanged since it was written, and who signed it.

usage: open-token verify FILE [--signed] [--trust FILE] [--statement] [--json]

  open-token verify talk.json
  open-token verify talk.json --trust mia.pub      is it signed by Mia?
  open-token export talk.jsonl | open-token verify -

  --signed         it must be signed by somebody whom you trust
  --trust FILE     whom to trust: an allowed_signers file of OpenSSH, or a public key; the
                   same as --signed, with this list and not that of your settings
  --statement      print what a signature is made over, byte for byte, and nothing else
  --accept-legacy  a hash made under another reading of the canonical form is good enough
A hash shows that nothing changed since the export, not who made it or when. A signature
by a key that you do not know shows no more than that; the key came with the file.
Exit: 0 unchanged  1 changed  2 usage  3 cannot be verified  4 signature false or not trusted
"""

_SHOWN = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The file."""
    parser.add_argument("file")
    parser.add_argument("--accept-legacy", action="store_true")
    parser.add_argument("--signed", action="store_true")
    parser.add_argument("--trust", metavar="FILE")
    parser.add_argument("--statement", action="store_true")


def run(args: argparse.Namespace, console: Console) -> int:
    """Compute every hash again and compare."""
    name = args.file
    source = (
        Source.of_stream(console.stdin, name)
        if name == "-"
        else Source.of(console.cwd / Path(name).expanduser(), name)
    )
    verdict = verify_source(source, trusted(args.trust, console.env))
    if args.statement:
        return _tell_statement(verdict, name, console)
    is_asked = args.signed or args.trust is not None
    code = _exit_code(verdict, args.accept_legacy, is_asked)
    if args.json:
        lists = {"parts": [part._asdict() for part in verdict.parts]}
        lists["signatures"] = [judged._asdict() for judged in verdict.signatures]
        console.json(
            {"schema": "open-token/verdict/1", "file": name, "exit": code}
            | verdict._asdict()
            | lists
        )
    else:
        _show(verdict, name, code, is_asked, console)
    return code


def _tell_statement(verdict: Verdict, name: str, console: Console) -> int:
    if not verdict.statement:
        raise InputError(
            "this export has no statement that could be signed",
            where=name,
            help="see `open-token verify`",
        )
    console.payload.write(verdict.statement.encode())
    code = _exit_code(verdict._replace(signatures=()), False, False)
    if code:
        console.warn("the export is not as it was written; see `open-token verify`")
    return code


def _line(part: Part, word: str) -> str:
    told = _short(part.claimed)
    if part.state == MISMATCH and part.found:
        told = f"stored {told}  computed {_short(part.found)}"
    elif part.state not in (MATCH, MISMATCH):
        told = "not checked"
    return f"{word}  {part.name:14} {visible(told)}"


def _short(value: str) -> str:
    return f"{value[:16]}..." if len(value) == 64 else value


def _exit_code(verdict: Verdict, accept_legacy: bool, is_asked: bool) -> int:
    if verdict.status == UNVERIFIABLE:
        return 3
    if verdict.status == MISMATCHED and not (accept_legacy and verdict.matched_profile):
        return 1
    states = {judged.state for judged in verdict.signatures}
    return 4 if INVALID in states or (is_asked and TRUSTED not in states) else 0


def _signature_line(judged: Judged, good: str, bad: str) -> str:
    word = {TRUSTED: good, INVALID: bad}.get(judged.state, "--  ")
    told = f"by {judged.by}" if judged.by else ""
    if judged.state == UNKNOWN:
        told = "not trusted" if judged.detail else "by an unknown key"
    key = (
        f"({judged.keyid}, {judged.scheme})"
        if judged.keyid
        else f"({judged.scheme})"
        if judged.scheme
        else ""
    )
    told = "  ".join(filter(None, (f"{told} {key}".strip(), judged.detail)))
    return f"{word}  {'signature':14} {visible(told)}"


def _show_signatures(
    verdict: Verdict, is_asked: bool, good: str, bad: str, console: Console
) -> None:
    for judged in verdict.signatures:
        console.out(_signature_line(judged, good, bad))
    if is_asked and not verdict.signatures:
        console.out(f"{bad}  {'signature':14} none")


def _show(verdict: Verdict, name: str, code: int, is_asked: bool, console: Console) -> None:
    terminal = console.out_is_terminal
    good, bad = console.paint("ok  ", "green", terminal), console.paint("FAIL", "red", terminal)
    for part in verdict.parts:
        console.out(_line(part, {MATCH: good, MISMATCH: bad}.get(part.state, "--  ")))
    _show_signatures(verdict, is_asked, good, bad, console)
    reasons = verdict.reasons if verdict.status == UNVERIFIABLE else ()
    for reason in reasons[:_SHOWN]:
        console.out(f"{bad}  {visible(reason)}")
    if len(reasons) > _SHOWN:
        console.out(f"... and {len(reasons) - _SHOWN:,} more; --json has them all")
    for warning in verdict.warnings:
        console.warn(visible(warning))
    if verdict.matched_profile:
        console.say(
            f"note    the hash holds when the canonical form is read as {verdict.matched_profile}"
        )
    if code in (0, 4) and {judged[2:] for judged in verdict.signatures} == {(UNKNOWN, "", "")}:
        console.say(
            "note    the key came with the file and proves nothing until you know whose it is; --trust names keys"
        )
    if code == 0:
        console.out(
            f"{good}  {visible(name)}  unchanged since it was written, {plural(verdict.events, 'event')}"
        )
    elif code == 1:
        console.out(f"{bad}  {visible(name)}  changed since it was written")
    elif code == 4:
        console.out(f"{bad}  {visible(name)}  {_distrust(verdict)}")
    else:
        console.say(f"help    {_advice(verdict)}")


def _distrust(verdict: Verdict) -> str:
    """Why the hashes hold and the export is refused all the same."""
    if any(judged.state == INVALID for judged in verdict.signatures):
        return "its hashes hold, but a signature does not"
    return "unchanged since it was written, but not signed by anyone whom you trust"


def _advice(verdict: Verdict) -> str:
    """What to do about a file that cannot be verified: an export without a hash, or none that can
    be read at all."""
    if verdict.parts or verdict.events:
        return "export it again with integrity=hash; a hash shows change, not authorship"
    return "this is no export, or not a whole one: get it again, or make one with `open-token export FILE`"
