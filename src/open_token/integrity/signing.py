"""Sign existing exports: verify them first, add a signature, and change nothing else."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import orjson

from open_token.errors import SigningError, UsageError
from open_token.integrity.signatures import dsse, sshsig
from open_token.integrity.signatures.results import INVALID, MAX_SIGNATURES
from open_token.integrity.strict_reader import is_stream
from open_token.integrity.verify import (
    UNVERIFIABLE,
    VERIFIED,
    Verdict,
    is_ndjson_source,
    iter_source_lines,
    verify,
    verify_bytes,
    verify_source,
)
from open_token.sources.source import Source

SCHEMES = (sshsig.SCHEME, dsse.SCHEME)

Entry = dict[str, Any]
Sign = Callable[[bytes], Entry]
"""Signs a statement and returns the entry for `signatures`."""


class SigningResult(NamedTuple):
    """The signature, and whether the export had one of that key already."""

    entry: Entry
    was_there: bool
    events: int


def load_signer(key: Path, scheme: str = sshsig.SCHEME, *, is_alone: bool = False) -> Sign:
    """Return a function that signs with a key file; a missing file is refused right away.

    With `is_alone`, nobody is asked for a passphrase.
    """
    if scheme not in SCHEMES:
        raise UsageError(
            f"unknown signature scheme '{scheme[:40]}'", help=f"use one of {', '.join(SCHEMES)}"
        )
    name = str(key)
    if not key.is_file():
        raise SigningError(
            "no such key file",
            where=name,
            help="name a private SSH key, or the .pub of one in ssh-agent",
            code="sign.key",
        )
    if scheme == dsse.SCHEME:
        return lambda statement: dsse.sign(statement, name)
    sshsig.require_keygen()
    return lambda statement: sshsig.sign(statement, name, is_alone=is_alone)


def sign_document(document: dict[str, Any], sign: Sign) -> dict[str, Any]:
    """Return a parsed document with one more signature; everything else is shared with it."""
    verdict = verify(document)
    result = _sign(verdict, document.get("integrity"), sign, "the document")
    signed = dict(document)
    signed["integrity"] = _add_entry(document["integrity"], result)
    return signed


def sign_file(source: Source, out: BinaryIO, sign: Sign) -> SigningResult:
    """Write an export with one more signature: NDJSON line by line, a document as a whole."""
    if is_ndjson_source(source):
        return _sign_stream(source, verify_source(source), out, sign)
    with source.opened() as stream:
        raw = stream.read()
    verdict = verify_bytes(raw)
    if is_stream(raw):
        return _sign_stream(Source(source.name, data=raw), verdict, out, sign)
    # Bytes that do not verify may not even be JSON; _sign refuses them by their verdict.
    document = orjson.loads(raw) if verdict.status == VERIFIED else {}
    result = _sign(verdict, document.get("integrity"), sign, source.name)
    document["integrity"] = _add_entry(document["integrity"], result)
    is_pretty = raw.lstrip()[1:2] in (b"\n", b"\r")
    option = orjson.OPT_INDENT_2 if is_pretty else None
    out.write(orjson.dumps(document, option=option))
    out.write(b"\n")
    return result


def _sign_stream(source: Source, verdict: Verdict, out: BinaryIO, sign: Sign) -> SigningResult:
    """Copy all lines but the last one, which is the footer with the integrity object."""
    last_line = b"{}"
    for line in iter_source_lines(source):
        last_line = line
    footer = orjson.loads(last_line) if verdict.status == VERIFIED else {}
    result = _sign(verdict, footer.get("integrity"), sign, source.name)
    previous = b""
    for line in iter_source_lines(source):
        if previous:
            out.write(previous + b"\n")
        previous = line
    footer["integrity"] = _add_entry(footer["integrity"], result)
    out.write(orjson.dumps(footer) + b"\n")
    return result


def _sign(verdict: Verdict, integrity: Any, sign: Sign, name: str) -> SigningResult:
    _require_verified(verdict, integrity, name)
    signatures = integrity.get("signatures", [])
    entry = sign(verdict.statement.encode())
    for known in signatures[:MAX_SIGNATURES]:
        if _is_same_signer(known, entry):
            return SigningResult(known, True, verdict.events)
    if len(signatures) >= MAX_SIGNATURES:
        raise SigningError(
            f"it has {len(signatures):,} signatures, and no more than {MAX_SIGNATURES} are checked",
            where=name,
            help="remove unneeded entries from integrity.signatures; nothing was signed",
            code="sign.unverified",
        )
    return SigningResult(entry, False, verdict.events)


def _is_same_signer(known: Any, entry: Entry) -> bool:
    if not isinstance(known, dict):
        return False
    return all(known.get(field) == entry[field] for field in ("scheme", "keyid"))


def _add_entry(integrity: dict[str, Any], result: SigningResult) -> dict[str, Any]:
    if result.was_there:
        return integrity
    signatures = [*integrity.get("signatures", []), result.entry]
    return {**integrity, "signatures": signatures}


def _require_verified(verdict: Verdict, integrity: Any, name: str) -> None:
    """Raise SigningError for an export that nobody should sign."""
    if verdict.status == UNVERIFIABLE:
        raise SigningError(
            "this cannot be verified, so it cannot be signed",
            where=name,
            help="only a complete export with integrity can be signed; "
            "`open-token export FILE --sign KEY` makes one",
            code="sign.unverified",
        )
    if verdict.status != VERIFIED or not isinstance(integrity, dict):
        raise SigningError(
            "this export was changed since it was written",
            where=name,
            help="see `open-token verify`; nothing was signed",
            code="sign.unverified",
        )
    if not verdict.statement:
        raise SigningError(
            "a signature would not cover all of this export",
            where=name,
            help="it has no conversation id, or integers beyond 2^53-1; see `open-token validate`",
            code="sign.unverified",
        )
    if any(result.state == INVALID for result in verdict.signatures):
        raise SigningError(
            "it already has an invalid signature",
            where=name,
            help="see `open-token verify`; remove integrity.signatures to sign it anyway",
            code="sign.unverified",
        )
