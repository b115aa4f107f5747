"""`open-token sign`: sign an export."""

import argparse
import shlex
from pathlib import Path
from typing import Any

from open_token.api import find_signing_key
from open_token.cli.shared.console import Console, escape_controls, pluralize
from open_token.cli.shared.help import Help, Section
from open_token.cli.shared.output import refuse_folder
from open_token.errors import UsageError
from open_token.integrity.signing import SCHEMES, Sign, SigningResult, load_signer, sign_file
from open_token.sources.source import Source
from open_token.storage.files import atomic_file

HELP = Help(
    summary="Sign an export with an SSH key, so that others can check who signed it.",
    usage=("sign FILE [OPTIONS]",),
    sections=(
        Section(
            "Arguments",
            (("FILE", "An export (json or ndjson) with valid hashes, or - for stdin"),),
        ),
    ),
    notes=(
        "Only integrity.signatures changes. An export can have several signatures, one for "
        "each key. A signature proves that the holder of the key signed the export, not when, "
        "and not that its content is true.",
    ),
    exit_codes=(
        ("0", "Signed"),
        ("2", "Invalid usage"),
        ("3", "Cannot read, verify, sign or write"),
        ("130", "Interrupted"),
    ),
    examples=(
        ("open-token sign session.json -o session.json --key ~/.ssh/id_ed25519", ""),
        ("open-token export s.jsonl | open-token sign - --key id.pub > s.json", ""),
        (
            "open-token export s.jsonl --sign ~/.ssh/id_ed25519 -o s.json",
            "Export and sign in one step",
        ),
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the file, the output and the key."""
    parser.add_argument("file", metavar="FILE", help=argparse.SUPPRESS)
    output = parser.add_argument_group("Output")
    output.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        help="Write to OUT, which may be FILE itself [default: stdout]",
    )
    signing = parser.add_argument_group("Signature")
    signing.add_argument(
        "--key",
        metavar="KEY",
        help="A private SSH key, or the .pub of a key in ssh-agent or on a security key "
        "[default: sign_key in the settings]",
    )
    signing.add_argument(
        "--scheme",
        choices=SCHEMES,
        default=SCHEMES[0],
        metavar="SCHEME",
        help="sshsig: by ssh-keygen [default]; dsse-ed25519: needs the package cryptography "
        "and an Ed25519 key without passphrase",
    )


def run(args: argparse.Namespace, console: Console) -> int:
    """Verify the export, sign it and report the key."""
    output = None if args.output == "-" else args.output
    if args.json and not output:
        raise UsageError(
            "--json needs -o FILE", help="without -o, stdout carries the export itself"
        )
    name = args.file
    if name == "-":
        source = Source.of_stream(console.stdin, name)
    else:
        source = Source.of(console.cwd / Path(name).expanduser(), name)
    sign = create_signer(args.key, console, args.scheme)
    signed = _sign_file(source, output, sign, console)
    _print_next_step(output, find_signing_key(args.key, console.env), console)
    if args.json:
        console.print_json(
            {
                "schema": "open-token/signed/1",
                "file": name,
                "output": output,
                "events": signed.events,
                "scheme": signed.entry["scheme"],
                "keyid": signed.entry["keyid"],
                "was_there": signed.was_there,
            }
        )
    return 0


def create_signer(key: str | None, console: Console, scheme: str = SCHEMES[0]) -> Sign:
    """Return a function that signs with a key, or with the key in the settings.

    It announces the key first: a security key waits silently for a touch."""
    path = find_signing_key(key, console.env)
    sign = load_signer(path, scheme)

    def announce_and_sign(statement: bytes) -> dict[str, Any]:
        if console.stderr_is_terminal:
            name = escape_controls(str(path))
            console.info(f"signing with {name}; unlock or touch the key if necessary")
        return sign(statement)

    return announce_and_sign


def _sign_file(source: Source, output: str | None, sign: Sign, console: Console) -> SigningResult:
    refuse_folder(output)
    if output is None:
        signed = sign_file(source, console.stdout, sign)
    else:
        with atomic_file(Path(output)) as out:
            signed = sign_file(source, out, sign)
    state = "already signed by" if signed.was_there else "signed by"
    key = f"{signed.entry['keyid']} ({signed.entry['scheme']})"
    console.info(f"sign    {pluralize(signed.events, 'event')}, {state} {key}")
    if output:
        console.info(f"wrote   {escape_controls(output)}")
    return signed


def _print_next_step(output: str | None, key: Path, console: Console) -> None:
    """Print how others verify the export: with the public key, which they need from you."""
    public_key = key if key.suffix == ".pub" else Path(f"{key}.pub")
    if output and public_key.is_file():
        command = shlex.join(["open-token", "verify", output, "--trust", str(public_key)])
        console.info(f"next    {escape_controls(command)}")
