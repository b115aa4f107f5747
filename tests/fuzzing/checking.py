"""The target behind fuzz_exports.py: strict parsing, canonical bytes, validate and verify take any
bytes and agree."""

import contextlib
import io
import json
import random
import sys
import zlib
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import rfc8785

from fuzzing import seeds as known
from fuzzing.campaign import Violated
from fuzzing.mutate import CANARY
from open_token.api import read
from open_token.cli import main
from open_token.errors import OpenTokenError
from open_token.integrity.verify import UNVERIFIABLE, VERIFIED, verify, verify_bytes
from open_token.jsontools.canonical import CanonicalError, encode_canonical, encode_event
from open_token.jsontools.strict import Fault, StrictError, parse_strict
from open_token.validation.validate import Problem, validate, validate_bytes

HASHES = {"OT905", "OT906", "OT907", "OT908"}
OF_BYTES = "OT017"
"""Checks below this one are about the bytes of a file."""
PARSED = object()

for _verb in ("dispatch", "validate", "verify"):
    import_module(f"open_token.cli.{_verb}")

_originals: dict[str, bytes] = {}


def seeds(more: list[Path], one_in: int = 1) -> list[bytes]:
    """Exports in every shape, and a few of them spoiled in ways that mutation rarely finds."""
    conversations = known.conversations(more)[::one_in]
    found = [data for way in known.WAYS for data in _exports(conversations, way)]
    for data in found:
        if document := _whole(data):
            _originals[document["integrity"]["document_hash"]] = _covered(document)
    return found


def _exports(conversations: list[bytes], way: dict[str, str]) -> list[bytes]:
    exports = [known.exported(data, way) for data in conversations]
    return [export for export in exports if export]


def settings_for(data: bytes) -> bool:
    """Whether the commands are run, too."""
    return random.Random(zlib.crc32(data)).random() < 0.1


def check(data: bytes, settings: bool) -> None:
    """Everything that takes the bytes of an export."""
    value, faults = check_parse(data)
    if value is not PARSED:
        check_canonical(value, faults)
        print_problems(validate(value))
        verify(value)
    problems = validate_bytes(data)
    print_problems(problems)
    check_verdict(data, problems)
    check_reading(data, problems)
    if settings:
        check_commands(data)


def check_parse(data: bytes) -> tuple[Any, list[Fault]]:
    """The strict parser takes what Python's takes, and reads the same out of it."""
    try:
        expected = json.loads(data.removeprefix(b"\xef\xbb\xbf").decode())
    except RecursionError:
        expected = PARSED
    except ValueError as problem:
        expected = PARSED if "integer string conversion" in str(problem) else ValueError
    try:
        value, faults = parse_strict(data)
    except StrictError as error:
        if expected not in (PARSED, ValueError) and "nested" not in error.reason:
            raise Violated("strict parser refuses JSON: others take it") from None
        return PARSED, []
    if expected is ValueError:
        raise Violated("strict parser takes what is not JSON: others refuse it")
    if expected is not PARSED and not faults and not _alike(value, expected):
        raise Violated("strict parser reads another value: than Python's")
    return value, faults


def _alike(one: Any, other: Any) -> bool:
    return repr(one) == repr(other)


def check_canonical(value: Any, faults: list[Fault]) -> None:
    """Canonical bytes are there for all sound values, are those of the reference, and canonical
    once more."""
    try:
        raw = encode_canonical(value)
    except CanonicalError:
        if not {fault.code for fault in faults} - {"bom", "duplicate-key"}:
            raise Violated("no canonical bytes: for a value without a fault") from None
        return
    with contextlib.suppress(rfc8785.CanonicalizationError, RecursionError):
        if rfc8785.dumps(value) != raw:
            raise Violated("canonical bytes: not those of the reference")
    if isinstance(value, dict) and encode_event(value) != raw:
        raise Violated("canonical bytes: the short way gives others")
    if encode_canonical(json.loads(raw, parse_int=float)) != raw:
        raise Violated("canonical bytes: not the same once more")


def print_problems(problems: list[Problem]) -> None:
    """Problems can be printed, and contain nothing of what was said."""
    raw = msgspec.json.encode([problem._asdict() for problem in problems])
    if CANARY.encode() in raw:
        raise Violated("content in a message: a problem repeats what was said")


def check_verdict(data: bytes, problems: list[Problem]) -> None:
    """Validate and verify agree on the hashes, and no change goes unseen."""
    verdict = verify_bytes(data)
    msgspec.json.encode(verdict._asdict())
    # A tree of an unknown kind is an error of form: verify leaves it unchecked, and says so.
    result = [
        problem
        for problem in problems
        if problem.severity == "error" and problem.place != "integrity.tree.alg"
    ]
    errors = {problem.id for problem in result}
    if verdict.status == VERIFIED and errors & HASHES:
        raise Violated("verified: but validate finds another hash")
    if verdict.status not in (VERIFIED, UNVERIFIABLE) and not errors & HASHES:
        raise Violated("mismatch: but validate finds none")
    document = _whole(data) if verdict.status == VERIFIED else None
    if document and _originals.get(document["integrity"]["document_hash"], b"") not in (
        b"",
        _covered(document),
    ):
        raise Violated("verified: but changed since it was written")


def _whole(data: bytes) -> dict[str, Any] | None:
    """An export with a document_hash as one document; None when it is broken or has none."""
    try:
        records = [parse_strict(line)[0] for line in data.splitlines()]
        document: Any = _joined(records) if len(records) > 1 else records[0]
    except (StrictError, IndexError):
        try:
            document = parse_strict(data)[0]
        except StrictError:
            return None
    integrity = document.get("integrity") if isinstance(document, dict) else None
    if not isinstance(integrity, dict) or not isinstance(integrity.get("document_hash"), str):
        return None
    return document


def _joined(records: list[Any]) -> dict[str, Any]:
    joined: dict[str, Any] = {"events": []}
    for record in records:
        kind = record.get("type") if isinstance(record, dict) else None
        if kind in ("header", "footer"):
            joined |= {name: item for name, item in record.items() if name != "type"}
        elif (
            kind == "event" and "event_type" not in record and isinstance(record.get("event"), dict)
        ):
            joined["events"].append(record["event"])
        elif kind == "event":
            joined["events"].append(
                {("type" if n == "event_type" else n): v for n, v in record.items() if n != "type"}
            )
        else:
            joined["events"].append(record)
    return joined


def _covered(document: dict[str, Any]) -> bytes:
    """What the hashes must cover: everything but what they say themselves."""
    try:
        return encode_canonical(
            {name: item for name, item in document.items() if name != "integrity"}
        )
    except CanonicalError:
        return b"outside"


def check_reading(data: bytes, problems: list[Problem]) -> None:
    """A valid export can be read, and what was read is as good as the file."""
    is_valid = not any(problem.severity == "error" for problem in problems)
    try:
        document = read(data)
    except OpenTokenError as problem:
        str(problem).encode()
        if is_valid and problem.code != "input.no-events":
            raise Violated(f"a valid export is refused {problem.what}: by the reader") from None
        return
    found = validate(document)
    if is_valid and any(problem.severity == "error" for problem in found):
        raise Violated(
            f"a valid export is read as {next(p.id for p in found if p.severity == 'error')}: not valid"
        )


def check_commands(data: bytes) -> None:
    """The commands end with a code of theirs and without a word about trouble inside."""
    for words in (
        ["validate", "-"],
        ["validate", "-", "--json"],
        ["verify", "-"],
        ["verify", "-", "--json"],
    ):
        code, said = command(words, data)
        if code not in (0, 1, 3) or b"inside open-token" in said or b"cannot go on" in said:
            raise Violated(
                f"open-token {' '.join(words)} {said.decode(errors='replace').splitlines()[:1]}: exit {code}"
            )
        if CANARY.encode() in said:
            raise Violated(f"content in a message: of open-token {words[0]}")


def command(words: list[str], data: bytes) -> tuple[int, bytes]:
    """One command in this process, and all that it said."""
    said = io.BytesIO()
    streams = [
        io.TextIOWrapper(raw, encoding="utf-8", write_through=True)
        for raw in (io.BytesIO(data), said, said)
    ]
    with patch.object(sys, "stdin", streams[0]), patch.object(sys, "stdout", streams[1]):
        with patch.object(sys, "stderr", streams[2]):
            code = main(words)
        streams[1].flush()
    result = said.getvalue()
    for stream in streams[1:]:
        stream.detach()
    return code, result
