"""Signs exports that are there already: checks them first, adds a signature, and changes nothing
else."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import orjson

from open_token.checking.verify import (
    UNVERIFIABLE,
    VERIFIED,
    Verdict,
    is_long_stream,
    is_stream,
    source_lines,
    verify,
    verify_bytes,
    verify_source,
)
from open_token.errors import SigningError, UsageError
from open_token.signatures import dsse, keygen, sshsig
from open_token.signatures.judging import INVALID, MOST
from open_token.sources.source import Source

SCHEMES = (sshsig.SCHEME, dsse.SCHEME)

Entry = dict[str, Any]
Sign = Callable[[bytes], Entry]
"""Makes the signature of a statement."""


class Signed(NamedTuple):
    """What came of signing: the signature, and whether the export had one of that key already."""

    entry: Entry
    was_there: bool
    events: int


def signer(key: Path, scheme: str = sshsig.SCHEME, *, is_alone: bool = False) -> Sign:
    """Signs with a key file; one that is not there is refused before anything is read.

    Where nobody sits at the terminal, is_alone keeps a key from asking for a passphrase there.
    """
    if scheme not in SCHEMES:
        raise UsageError(
            f"there is no scheme '{scheme[:40]}'", help=f"the schemes are {', '.join(SCHEMES)}"
        )
    name = str(key)
    if not key.is_file():
        raise SigningError(
            "there is no such key",
            where=name,
            help="name a private SSH key, or the .pub of one in ssh-agent",
            code="sign.key",
        )
    if scheme == dsse.SCHEME:
        return lambda statement: dsse.sign(statement, name)
    keygen.must_be_there()
    return lambda statement: sshsig.sign(statement, name, is_alone=is_alone)


def signed(document: dict[str, Any], sign: Sign) -> dict[str, Any]:
    """A parsed document with one signature more; it shares all else with the one given."""
    made = _sign(verify(document), document.get("integrity"), sign, "the document")
    return {**document, "integrity": _with(document["integrity"], made)}


def sign_source(source: Source, out: BinaryIO, sign: Sign) -> Signed:
    """Write an export with one signature more: a stream line by line, a document whole."""
    if is_long_stream(source):
        return _sign_stream(source, verify_source(source), out, sign)
    with source.opened() as stream:
        raw = stream.read()
    verdict = verify_bytes(raw)
    if is_stream(raw):
        return _sign_stream(Source(source.name, data=raw), verdict, out, sign)
    document = orjson.loads(raw) if verdict.status == VERIFIED else {}
    made = _sign(verdict, document.get("integrity"), sign, source.name)
    document["integrity"] = _with(document["integrity"], made)
    is_pretty = raw.lstrip()[1:2] in (b"\n", b"\r")
    out.write(orjson.dumps(document, option=orjson.OPT_INDENT_2 if is_pretty else None) + b"\n")
    return made


def _sign_stream(source: Source, verdict: Verdict, out: BinaryIO, sign: Sign) -> Signed:
    """The lines as they are, but for the footer, which is the last."""
    footer = b"{}"
    for line in source_lines(source):
        footer = line
    read = orjson.loads(footer) if verdict.status == VERIFIED else {}
    made = _sign(verdict, read.get("integrity"), sign, source.name)
    before = b""
    for line in source_lines(source):
        if before:
            out.write(before + b"\n")
        before = line
    out.write(orjson.dumps({**read, "integrity": _with(read["integrity"], made)}) + b"\n")
    return made


def _sign(verdict: Verdict, integrity: Any, sign: Sign, name: str) -> Signed:
    _must_hold(verdict, integrity, name)
    there = integrity.get("signatures", [])
    entry = sign(verdict.statement.encode())
    for known in there[:MOST]:
        if isinstance(known, dict) and all(
            known.get(part) == entry[part] for part in ("scheme", "keyid")
        ):
            return Signed(known, True, verdict.events)
    if len(there) >= MOST:
        raise SigningError(
            f"it has {len(there):,} signatures, and no more than {MOST} are looked at",
            where=name,
            help="remove those from integrity.signatures that nobody needs; nothing was signed",
            code="sign.unverified",
        )
    return Signed(entry, False, verdict.events)


def _with(integrity: dict[str, Any], made: Signed) -> dict[str, Any]:
    if made.was_there:
        return integrity
    return {**integrity, "signatures": [*integrity.get("signatures", []), made.entry]}


def _must_hold(verdict: Verdict, integrity: Any, name: str) -> None:
    """Refuse an export for which nobody should put their name down."""
    if verdict.status != VERIFIED or not isinstance(integrity, dict):
        can_tell = verdict.status != UNVERIFIABLE
        raise SigningError(
            "this export is not as it was written"
            if can_tell
            else "this cannot be verified, so it cannot be signed",
            where=name,
            help="see `open-token verify`; nothing was signed"
            if can_tell
            else "only a whole export with integrity can be signed: `open-token export FILE --sign KEY` makes one",
            code="sign.unverified",
        )
    if not verdict.statement:
        raise SigningError(
            "a signature would not cover all of this export",
            where=name,
            help="it has no conversation id, or integers beyond 2^53-1; see `open-token validate`",
            code="sign.unverified",
        )
    if any(judged.state == INVALID for judged in verdict.signatures):
        raise SigningError(
            "a signature that it has already does not hold",
            where=name,
            help="see `open-token verify`; remove integrity.signatures if you want to sign it all the same",
            code="sign.unverified",
        )
