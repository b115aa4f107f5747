"""`open-token verify`: check the hashes and signatures of an export."""

import argparse
from pathlib import Path

from open_token.api import load_trust
from open_token.cli.shared.console import Console, escape_controls, pluralize
from open_token.cli.shared.help import Help, Section
from open_token.errors import InputError
from open_token.integrity.page_seal import is_page, verify_page
from open_token.integrity.signatures.results import INVALID, TRUSTED, UNKNOWN, SignatureResult
from open_token.integrity.verify import (
    MATCH,
    MISMATCH,
    MISMATCHED,
    UNVERIFIABLE,
    HashComparison,
    Verdict,
    verify_source,
)
from open_token.sources.source import Source

HELP = Help(
    summary="Check that an export is unchanged since it was written, and who signed it.",
    usage=("verify FILE [OPTIONS]",),
    sections=(Section("Arguments", (("FILE", "An export or a web page of one, or - for stdin"),)),),
    notes=(
        "A hash proves that nothing changed since the export, not who made it or when. A "
        "signature by an unknown key proves no more than that: the key came with the file.",
    ),
    exit_codes=(
        ("0", "Unchanged"),
        ("1", "Changed"),
        ("2", "Invalid usage"),
        ("3", "Cannot be verified"),
        ("4", "Signature invalid or not trusted"),
    ),
    examples=(
        ("open-token verify session.json", ""),
        ("open-token verify session.json --trust mia.pub", "Require a signature by Mia"),
        ("open-token export session.jsonl | open-token verify -", ""),
    ),
)
_MAX_REASONS = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the file and what is required of it."""
    parser.add_argument("file", metavar="FILE", help=argparse.SUPPRESS)
    signatures = parser.add_argument_group("Signatures")
    signatures.add_argument(
        "--signed", action="store_true", help="Require a signature by a trusted key"
    )
    signatures.add_argument(
        "--trust",
        metavar="FILE",
        help="Like --signed, with the keys of FILE: an OpenSSH allowed_signers file or a "
        "public key [default: allowed_signers in the settings]",
    )
    display = parser.add_argument_group("Display")
    display.add_argument(
        "--statement", action="store_true", help="Print the exact bytes that signatures cover"
    )


def run(args: argparse.Namespace, console: Console) -> int:
    """Recompute every hash and compare."""
    name = args.file
    if name == "-":
        source = Source.of_stream(console.stdin, name)
    else:
        source = Source.of(console.cwd / Path(name).expanduser(), name)
    trust = load_trust(args.trust, console.env)
    verdict = verify_page(source) if is_page(source) else verify_source(source, trust)
    if args.statement:
        return _print_statement(verdict, name, console)
    needs_signature = args.signed or args.trust is not None
    code = _choose_exit_code(verdict, needs_signature)
    if args.json:
        result = {"schema": "open-token/verdict/1", "file": name, "exit": code}
        result |= verdict._asdict()
        result["parts"] = [part._asdict() for part in verdict.parts]
        result["signatures"] = [judged._asdict() for judged in verdict.signatures]
        console.print_json(result)
    else:
        _print_verdict(verdict, name, code, needs_signature, console)
    return code


def _print_statement(verdict: Verdict, name: str, console: Console) -> int:
    if not verdict.statement:
        raise InputError(
            "the export has no statement that could be signed",
            where=name,
            help="see `open-token verify`",
        )
    console.stdout.write(verdict.statement.encode())
    # Only the hashes count here: the statement is printed in order to be signed.
    code = _choose_exit_code(verdict._replace(signatures=()), False)
    if code:
        console.warn("the export was changed since it was written; see `open-token verify`")
    return code


def _choose_exit_code(verdict: Verdict, needs_signature: bool) -> int:
    if verdict.status == UNVERIFIABLE:
        return 3
    if verdict.status == MISMATCHED:
        return 1
    states = {judged.state for judged in verdict.signatures}
    if INVALID in states:
        return 4
    # Who asks for a signature relies on it: nothing may be outside of it.
    if needs_signature and (TRUSTED not in states or verdict.uncovered):
        return 4
    return 0


def _print_verdict(
    verdict: Verdict, name: str, code: int, needs_signature: bool, console: Console
) -> None:
    is_terminal = console.stdout_is_terminal
    ok = console.style("ok  ", "green", is_terminal)
    fail = console.style("FAIL", "red", is_terminal)
    for part in verdict.parts:
        label = {MATCH: ok, MISMATCH: fail}.get(part.state, "--  ")
        console.print(f"{label}  {part.name:14} {escape_controls(_describe_part(part))}")
    for judged in verdict.signatures:
        label = {TRUSTED: ok, INVALID: fail}.get(judged.state, "--  ")
        text = escape_controls(_describe_signature(judged))
        console.print(f"{label}  {'signature':14} {text}")
    if needs_signature and not verdict.signatures:
        console.print(f"{fail}  {'signature':14} none")
    if verdict.status == UNVERIFIABLE:
        _print_reasons(verdict, fail, console)
    for warning in verdict.warnings:
        console.warn(escape_controls(warning))
    states = {(judged.state, judged.by, judged.detail) for judged in verdict.signatures}
    if code in (0, 4) and states == {(UNKNOWN, "", "")}:
        console.info("note    the key came with the file; name keys that you trust with --trust")
    shown = escape_controls(name)
    if code == 0:
        # A page that compares sessions, or lists them, is not of one document.
        events = f", {pluralize(verdict.events, 'event')}" if verdict.events else ""
        console.print(f"{ok}  {shown}  {_describe_coverage(verdict)}{events}")
    elif code == 1:
        if not any(part.state == MISMATCH for part in verdict.parts):
            _print_reasons(verdict, fail, console)
        console.print(f"{fail}  {shown}  changed since it was written")
    elif code == 4:
        console.print(f"{fail}  {shown}  {_describe_distrust(verdict)}")
    else:
        console.info(f"help    {_suggest_remedy(verdict)}")


def _print_reasons(verdict: Verdict, label: str, console: Console) -> None:
    for reason in verdict.reasons[:_MAX_REASONS]:
        console.print(f"{label}  {escape_controls(reason)}")
    if len(verdict.reasons) > _MAX_REASONS:
        console.print(f"... and {len(verdict.reasons) - _MAX_REASONS:,} more; --json lists all")


def _describe_part(part: HashComparison) -> str:
    claimed = _shorten_hash(part.claimed)
    if part.state == MATCH:
        return claimed
    if part.state != MISMATCH:
        return "not checked"
    if part.found:
        return f"stored {claimed}  computed {_shorten_hash(part.found)}"
    return claimed


def _shorten_hash(value: str) -> str:
    if len(value) == 64:
        return f"{value[:16]}..."
    return value


def _describe_signature(judged: SignatureResult) -> str:
    signer = f"by {judged.by}" if judged.by else ""
    if judged.state == UNKNOWN:
        signer = "not trusted" if judged.detail else "by an unknown key"
    key = ", ".join(filter(None, (judged.keyid, judged.scheme)))
    if key:
        key = f"({key})"
    return "  ".join(filter(None, (f"{signer} {key}".strip(), judged.detail)))


def _describe_coverage(verdict: Verdict) -> str:
    if any(part.name in ("document_hash", "page_hash") for part in verdict.parts):
        return "unchanged since it was written"
    return "events unchanged since they were written, all else unknown"


def _describe_distrust(verdict: Verdict) -> str:
    states = {judged.state for judged in verdict.signatures}
    if INVALID in states:
        return "hashes match, but a signature is invalid"
    if TRUSTED in states:
        return "signed by a trusted key, but not all of it: see the warnings"
    return "unchanged since it was written, but not signed by a trusted key"


def _suggest_remedy(verdict: Verdict) -> str:
    """Suggest what to do with a file that has no hash, or that is no export."""
    if verdict.parts or verdict.events:
        return "export it again with integrity=hash; a hash shows changes, not authorship"
    return "not a complete export: get it again, or create one with `open-token export FILE`"
