"""Verifies an export: its hashes are made anew and compared with what its integrity says."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import orjson

from open_token.checking._file import BROKEN, Stream, is_stream, lines_of, read_document
from open_token.checking._findings import Add
from open_token.checking._legacy import matching_reading
from open_token.checking._reckoning import (
    ALGORITHM,
    C14N,
    CANONICALIZATION,
    MATCH,
    MISMATCH,
    UNCHECKED,
    Part,
    Reckoning,
)
from open_token.signatures.judging import Judged, holds_more, judge
from open_token.signatures.trust import Trust
from open_token.sources.source import Source

__all__ = [
    "MATCH",
    "MISMATCH",
    "MISMATCHED",
    "UNVERIFIABLE",
    "VERIFIED",
    "Part",
    "Verdict",
    "is_long_stream",
    "is_stream",
    "lines_of",
    "source_lines",
    "verify",
    "verify_bytes",
    "verify_lines",
    "verify_source",
]

VERIFIED, MISMATCHED, UNVERIFIABLE = "verified", "mismatch", "unverifiable"

_NAMED = 5
_NAMES = {"canonicalization": CANONICALIZATION, "c14n": C14N}


class Verdict(NamedTuple):
    """What verifying found: verified, mismatch or unverifiable; part by part, and why."""

    status: str
    parts: tuple[Part, ...] = ()
    events: int = 0
    reasons: tuple[str, ...] = ()
    """Why the export is not verified."""
    warnings: tuple[str, ...] = ()
    """What the verdict does not cover."""
    matched_profile: str | None = None
    """When nothing but events_hash fails: another reading of the canonical form under which it
    holds."""
    signatures: tuple[Judged, ...] = ()
    """What is to be thought of each signature; one that does not hold leaves the status as it
    is."""
    statement: str = ""
    """What a signature of the export is made over; empty when it has none."""


class _Told(NamedTuple):
    """An export as a verifier sees it."""

    head: dict[str, Any]
    reckoning: Reckoning
    again: Callable[[], Iterable[Any]]
    """The events once more."""
    lines: Callable[[], Iterable[bytes]]
    """The event lines of a stream as they lie."""


def verify(document: Any, trust: Trust | None = None) -> Verdict:
    """The verdict on a parsed document, and on its signatures by those whom the reader trusts."""
    if not isinstance(document, dict) or not isinstance(document.get("events"), list):
        return _unverifiable("this is not an Open-Token document")
    reckoning = Reckoning()
    for event in document["events"]:
        reckoning.add(event)
    return _judge(_Told(document, reckoning, lambda: document["events"], lambda: ()), trust)


def verify_bytes(raw: bytes, trust: Trust | None = None) -> Verdict:
    """The verdict on the bytes of an export, JSON or NDJSON; what readers may read differently
    cannot be verified."""
    if is_stream(raw):
        return verify_lines(lambda: lines_of(raw), trust)
    troubles: list[str] = []
    document = read_document(raw, _into(troubles))
    if document is BROKEN or troubles:
        return _unverifiable(*troubles)
    return verify(document, trust)


def verify_source(source: Source, trust: Trust | None = None) -> Verdict:
    """The verdict on a file: a stream line by line, a document whole."""
    if is_long_stream(source):
        return verify_lines(partial(source_lines, source), trust)
    with source.opened() as stream:
        return verify_bytes(stream.read(), trust)


def is_long_stream(source: Source) -> bool:
    """Whether a file is a stream by its first line, without reading all of it."""
    return source.shape == "lines" and b'"header"' in source.head[:200]


def source_lines(source: Source) -> Iterator[bytes]:
    """The lines of a file without their ends."""
    with source.opened() as stream:
        yield from (line.rstrip(b"\r\n") for line in stream)


def verify_lines(lines: Callable[[], Iterable[bytes]], trust: Trust | None = None) -> Verdict:
    """The verdict on a long NDJSON export in little memory; its lines, without their ends, are read
    more than once."""
    troubles: list[str] = []
    stream = Stream(lines(), _into(troubles))
    reckoning = Reckoning()
    for event in stream:
        reckoning.add(event)
    if not stream.has_footer:
        troubles.append("the stream has no footer: it is not complete")
    if "events" in stream.document:
        troubles.append("the header or the footer holds events, which no hash covers")
    troubles += [f"header and footer differ in {name[:40]}" for name in stream.disputed]
    if troubles:
        return _unverifiable(*troubles)
    told = _Told(
        stream.document, reckoning, lambda: Stream(lines(), _ignore), lambda: _event_lines(lines())
    )
    verdict = _judge(told, trust)
    if not (verdict.signatures and stream.corrected):
        return verdict
    names = ", ".join(name[:40] for name in stream.corrected[:_NAMED])
    return verdict._replace(
        warnings=(*verdict.warnings, f"the header says otherwise, and is not covered: {names}")
    )


def _into(troubles: list[str]) -> Add:
    """Takes what makes a file unverifiable: that two readers may read it differently."""

    def note(check: str, place: str, message: str) -> None:
        if check <= "OT014" and check != "OT007":
            troubles.append(f"{place}: {message}")

    return note


def _ignore(check: str, place: str, message: str) -> None:
    """The first reading has told it already."""


def _event_lines(lines: Iterable[bytes]) -> Iterator[bytes]:
    return (line for line in lines if orjson.loads(line).get("type") not in ("header", "footer"))


def _unverifiable(*reasons: str) -> Verdict:
    return Verdict(UNVERIFIABLE, reasons=reasons)


def _judge(told: _Told, trust: Trust | None) -> Verdict:
    """The verdict on the hashes, and beside it that on the signatures."""
    verdict = _judge_hashes(told)
    integrity = told.head.get("integrity")
    if not isinstance(integrity, dict):
        return verdict
    statement = told.reckoning.statement(integrity, told.head)
    signatures = (
        judge(integrity["signatures"], statement, trust) if "signatures" in integrity else ()
    )
    return verdict._replace(signatures=tuple(signatures), statement=statement.decode())


def _judge_hashes(told: _Told) -> Verdict:
    integrity = told.head.get("integrity")
    if not isinstance(integrity, dict):
        return _unverifiable("there is no integrity object")._replace(events=told.reckoning.count)
    parts = tuple(told.reckoning.compare(integrity, told.head, told.again))
    verdict = Verdict(VERIFIED, parts, told.reckoning.count, warnings=tuple(_warnings(told, parts)))
    if reasons := tuple(_obstacles(integrity, told.reckoning, parts)):
        return verdict._replace(status=UNVERIFIABLE, reasons=reasons)
    broken = {part.name: part for part in parts if part.state == MISMATCH}
    if not broken:
        return verdict
    if broken.keys() == {"events_hash"}:
        claimed, found = integrity["events_hash"], broken["events_hash"].found
        verdict = verdict._replace(
            matched_profile=matching_reading(claimed, found, told.again(), told.lines())
        )
    strange = [
        f"{key} is not {usual}"
        for key, usual in _NAMES.items()
        if integrity.get(key, usual) != usual
    ]
    if "events_hash" in broken and strange and not verdict.matched_profile:
        return verdict._replace(status=UNVERIFIABLE, reasons=tuple(strange))
    return verdict._replace(
        status=MISMATCHED, reasons=tuple(f"{name} does not match" for name in broken)
    )


def _obstacles(
    integrity: dict[str, Any], reckoning: Reckoning, parts: tuple[Part, ...]
) -> Iterator[str]:
    """Why nothing can be said at all."""
    if integrity.get("hash_alg") != ALGORITHM:
        yield f"hash_alg is not {ALGORITHM}"
    if not isinstance(integrity.get("events_hash"), str):
        yield "there is no events_hash"
    if reckoning.outside:
        yield f"{reckoning.outside} events have no canonical form; see `open-token validate`"
    if any(part.name == "document_hash" and part.state == UNCHECKED for part in parts):
        yield "the document around the events has no canonical form; see `open-token validate`"


def _warnings(told: _Told, parts: tuple[Part, ...]) -> Iterator[str]:
    if told.reckoning.is_rounded:
        yield "some integers are beyond 2^53-1: the hash does not cover their last digits"
    names = {part.name for part in parts}
    if "document_hash" not in names:
        yield "there is no document_hash: only the events are covered"
    if holds_more(told.head["integrity"].get("signatures")):
        yield "a signature has words beside it that nothing covers: believe only what stands here"
    for part in parts:
        if part.state == UNCHECKED:
            yield f"{part.name} was not checked"
