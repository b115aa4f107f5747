"""`open-token sign`: puts the user's name under an export."""

import argparse
import shlex
from pathlib import Path
from typing import Any

from open_token.cli.console import Console, plural, visible
from open_token.errors import OutputError, UsageError
from open_token.signing import SCHEMES, Sign, Signed, sign_source, signer
from open_token.sources.source import Source
from open_token.storage.files import whole_file
from open_token.vouching import key_file

HELP = """Sign an export, so that others can check who vouches for it.

usage: open-token sign FILE [-o OUT] [--key KEY] [--scheme sshsig|dsse-ed25519]

  open-token sign talk.json -o talk.json --key ~/.ssh/id_ed25519
  open-token export talk.jsonl | open-token sign - --key id_ed25519.pub > talk.json
  open-token export talk.jsonl --sign ~/.ssh/id_ed25519 -o talk.json    both at once

FILE     an export, json or ndjson, by whatever program, as long as its hashes hold; - for stdin
  -o OUT         write to OUT, which may be FILE itself; else to stdout
  --key KEY      a private SSH key, or the .pub of one that ssh-agent or a security key holds;
                 without it sign_key of the settings
  --scheme S     sshsig (the default) is made by ssh-keygen; dsse-ed25519 needs no ssh-keygen,
                 but the package cryptography and an Ed25519 key without a passphrase
Only integrity.signatures changes. Signatures stand side by side; a key signs an export once.
It shows that the holder of the key vouches for the export, not when, nor that it is true.
Exit: 0 signed  2 usage  3 cannot be read, verified, signed or written  130 interrupted
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The file, where it goes, and the key."""
    parser.add_argument("file")
    parser.add_argument("-o", "--output", metavar="OUT")
    parser.add_argument("--key", metavar="KEY")
    parser.add_argument("--scheme", choices=SCHEMES, default=SCHEMES[0])


def run(args: argparse.Namespace, console: Console) -> int:
    """Check the export, sign it, say who signed."""
    output = None if args.output == "-" else args.output
    if args.json and not output:
        raise UsageError(
            "--json tells about a written file",
            help="add -o FILE; without it stdout carries the export",
        )
    name = args.file
    source = (
        Source.of_stream(console.stdin, name)
        if name == "-"
        else Source.of(console.cwd / Path(name).expanduser(), name)
    )
    sign = signer_for(args.key, console, args.scheme)
    made = _sign(source, output, sign, console)
    _tell_next(output, key_file(args.key, console.env), console)
    if args.json:
        entry = {part: made.entry[part] for part in ("scheme", "keyid")}
        facts = {
            "file": name,
            "output": output,
            "events": made.events,
            **entry,
            "was_there": made.was_there,
        }
        console.json({"schema": "open-token/signed/1", **facts})
    return 0


def signer_for(key: str | None, console: Console, scheme: str = SCHEMES[0]) -> Sign:
    """Signs with a key, or with that of the settings; told before, since a key may wait for a touch
    in silence."""
    path = key_file(key, console.env)
    sign = signer(path, scheme)

    def told(statement: bytes) -> dict[str, Any]:
        if console.err_is_terminal:
            console.say(
                f"signing with {visible(str(path))}; unlock or touch the key if it waits for that"
            )
        return sign(statement)

    return told


def _sign(source: Source, output: str | None, sign: Sign, console: Console) -> Signed:
    if output is None:
        made = sign_source(source, console.payload, sign)
    elif Path(output).is_dir():
        raise OutputError(
            "the output is a folder", where=output, help="name a file in it; nothing was written"
        )
    else:
        with whole_file(Path(output)) as out:
            made = sign_source(source, out, sign)
    word = "signed before by" if made.was_there else "signed by"
    console.say(
        f"sign    {plural(made.events, 'event')}, {word} {made.entry['keyid']} ({made.entry['scheme']})"
    )
    if output:
        console.say(f"wrote   {visible(output)}")
    return made


def _tell_next(output: str | None, key: Path, console: Console) -> None:
    """How somebody else checks it: with the public half, which they must have from you."""
    public = key if key.suffix == ".pub" else Path(f"{key}.pub")
    if output and public.is_file():
        console.say(
            f"next    {visible(shlex.join(['open-token', 'verify', output, '--trust', str(public)]))}"
        )
