"""Verify an export: recompute its hashes and compare them with its integrity object."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from open_token.integrity.commitments import ALGORITHM as SOURCE_ALGORITHM
from open_token.integrity.commitments import CommitmentError, check_disclosure
from open_token.integrity.merkle import MerkleTree
from open_token.integrity.signatures.results import (
    SignatureResult,
    check_signatures,
    has_unsigned_fields,
)
from open_token.integrity.signatures.statement import TREE, build_statement
from open_token.integrity.signatures.trust import Trust
from open_token.integrity.strict_reader import (
    BROKEN,
    FLAT,
    NdjsonReader,
    ReportProblem,
    is_stream,
    iter_lines,
    read_document,
)
from open_token.jsontools.canonical import (
    CanonicalError,
    EventsHash,
    encode_canonical,
    encode_event,
    hash_document,
)
from open_token.sources.source import Source

MATCH = "match"
MISMATCH = "mismatch"
UNCHECKED = "unchecked"

VERIFIED = "verified"
MISMATCHED = "mismatch"
UNVERIFIABLE = "unverifiable"

ALGORITHM = "sha256"
CANONICALIZATION = "json-c14n-like"
C14N = "rfc8785"
PROFILE = "ot-int/1"
"""Says that an export has every hash of docs/reference/integrity.md, and flat lines."""

_HEX = re.compile(r"[0-9A-Fa-f]{1,64}")
_MAX_INTEGER = 2**53 - 1
_MAX_DEPTH = 250
_MAX_NAMES = 5
_MAX_NAME_LENGTH = 40

IterEvents = Callable[[], Iterable[Any]]
"""Iterates over the events of an export once more."""


class HashComparison(NamedTuple):
    """One field of integrity: its name, whether it holds, the claimed and the computed value."""

    name: str
    state: str
    claimed: str
    found: str


class HashChecker:
    """Recomputes the hashes of an export, event by event, in constant memory.

    `is_rounded` is set if integers were hashed as 64-bit floats, so that the hash does not cover
    their last digits. `outside` counts events that have no canonical form.
    """

    def __init__(self) -> None:
        self._hash = EventsHash()
        self._tree = MerkleTree()
        self.is_rounded = False
        self.outside = 0

    def add(self, event: Any) -> bytes | None:
        """Add the next event; return its canonical bytes, or None if it has none as it is."""
        try:
            raw = encode_event(event) if isinstance(event, dict) else encode_canonical(event)
        except CanonicalError:
            self._add_rounded(event)
            return None
        self._hash.add(raw)
        self._tree.add(raw)
        return raw

    def _add_rounded(self, event: Any) -> None:
        try:
            raw = encode_canonical(_round_integers(event))
        except (CanonicalError, OverflowError):
            self.outside += 1
            return
        self.is_rounded = True
        self._hash.add(raw)
        self._tree.add(raw)

    @property
    def count(self) -> int:
        """The number of events so far."""
        return self._hash.count + self.outside

    def compare(
        self,
        integrity: Mapping[str, Any],
        head: Mapping[str, Any],
        iter_events: IterEvents | None = None,
    ) -> list[HashComparison]:
        """Compare every field by itself, so that a change shows where it was made.

        Source commitments need another pass over the events, and stay unchecked without
        `iter_events`.
        """
        comparisons = []
        claimed = integrity.get("events_hash")
        if isinstance(claimed, str):
            computed = "" if self.outside else self._hash.hexdigest()
            comparisons.append(_compare("events_hash", claimed, computed))
        if type(integrity.get("event_count")) is int:
            count = str(integrity["event_count"])
            comparisons.append(_compare("event_count", count, str(self.count)))
        if isinstance(integrity.get("document_hash"), str):
            # With the claimed hash of the events, so that it fails only for changes around them.
            events_hash = claimed if isinstance(claimed, str) else self._hash.hexdigest()
            computed = _compute_document_hash(head, events_hash)
            comparisons.append(_compare("document_hash", integrity["document_hash"], computed))
        tree = integrity.get("tree")
        if isinstance(tree, dict):
            comparisons += self._compare_tree(tree)
        if "source" in integrity:
            comparisons += _compare_source(integrity["source"], iter_events)
        return comparisons

    def _compare_tree(self, tree: Mapping[str, Any]) -> list[HashComparison]:
        root = ""
        if tree.get("alg") == TREE and not self.outside:
            root = self._tree.root().hex()
        return [
            _compare("tree.root", str(tree.get("root")), root),
            _compare("tree.size", str(tree.get("size")), str(self.count)),
        ]

    def statement(self, integrity: Mapping[str, Any], head: Mapping[str, Any]) -> bytes:
        """Return the statement that a signature covers; empty if it would not cover every digit."""
        if self.is_rounded or self.outside:
            return b""
        root = self._tree.root().hex()
        try:
            return build_statement(head, integrity, self._hash.hexdigest(), self.count, root)
        except CanonicalError:
            return b""


def _compare(name: str, claimed: str, computed: str) -> HashComparison:
    if not computed:
        state = UNCHECKED
    elif claimed == computed:
        state = MATCH
    else:
        state = MISMATCH
    shown = claimed if _HEX.fullmatch(claimed) else "not a hash"
    return HashComparison(name, state, shown, computed)


def _compare_source(source: Any, iter_events: IterEvents | None) -> list[HashComparison]:
    if not isinstance(source, dict) or source.get("alg") != SOURCE_ALGORITHM or iter_events is None:
        return [HashComparison("source", UNCHECKED, "", "")]
    try:
        coverage = check_disclosure(source, iter_events())
    except CommitmentError as error:
        return [HashComparison(f"source.{error}", MISMATCH, "does not fit the events", "")]
    root = _compare("source.root", str(source.get("root")), coverage.root)
    if root.state == MISMATCH:
        return [root]
    summary = (
        f"{coverage.verbatim} verbatim, {coverage.altered} altered and declared, "
        f"{coverage.inserted} inserted, {coverage.dropped} dropped"
    )
    return [root, HashComparison("source", MATCH, summary, summary)]


def _compute_document_hash(head: Mapping[str, Any], events_hash: str) -> str:
    rest = {name: value for name, value in head.items() if name not in ("events", "integrity")}
    try:
        return hash_document(_round_integers(rest), events_hash)
    except (CanonicalError, OverflowError):
        return ""


def _round_integers(value: Any, depth: int = 0) -> Any:
    """Return the value with large integers as floats, which is how most readers parse them."""
    if depth > _MAX_DEPTH:
        raise CanonicalError("nested too deep")
    if type(value) is int and not -_MAX_INTEGER <= value <= _MAX_INTEGER:
        return float(value)
    if isinstance(value, dict):
        return {key: _round_integers(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_round_integers(item, depth + 1) for item in value]
    return value


class Verdict(NamedTuple):
    """The result of verifying an export.

    `reasons` say why it is not verified, `warnings` what the verdict does not cover; `uncovered`
    are those of them that no signature covers either. An invalid signature does not change the
    status. `statement` is what a signature covers, or empty.
    """

    status: str
    parts: tuple[HashComparison, ...] = ()
    events: int = 0
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    signatures: tuple[SignatureResult, ...] = ()
    statement: str = ""
    uncovered: tuple[str, ...] = ()


class _HashedExport(NamedTuple):
    """An export whose events have been hashed."""

    head: dict[str, Any]
    hashes: HashChecker
    iter_events: IterEvents


def verify(document: Any, trust: Trust | None = None) -> Verdict:
    """Verify a parsed document, and its signatures against the signers that the reader trusts."""
    if not isinstance(document, dict) or not isinstance(document.get("events"), list):
        return _unverifiable("this is not an Open-Token document")
    hashes = HashChecker()
    for event in document["events"]:
        hashes.add(event)
    return _judge(_HashedExport(document, hashes, lambda: document["events"]), trust)


def verify_bytes(raw: bytes, trust: Trust | None = None) -> Verdict:
    """Verify the bytes of an export, JSON or NDJSON; ambiguous JSON is unverifiable."""
    if is_stream(raw):
        return verify_lines(lambda: iter_lines(raw), trust)
    problems: list[str] = []
    document = read_document(raw, _collect_ambiguities(problems))
    if document is BROKEN or problems:
        return _unverifiable(*problems)
    return verify(document, trust)


def verify_source(source: Source, trust: Trust | None = None) -> Verdict:
    """Verify a file: NDJSON line by line, a JSON document as a whole."""
    if is_ndjson_source(source):
        return verify_lines(partial(iter_source_lines, source), trust)
    with source.opened() as stream:
        return verify_bytes(stream.read(), trust)


def is_ndjson_source(source: Source) -> bool:
    """Return whether a file is an NDJSON export, by its first line."""
    return source.shape == "lines" and b'"header"' in source.head[:200]


def iter_source_lines(source: Source) -> Iterator[bytes]:
    """Yield the lines of a file without line ends."""
    with source.opened() as stream:
        for line in stream:
            yield line.rstrip(b"\r\n")


def verify_lines(lines: Callable[[], Iterable[bytes]], trust: Trust | None = None) -> Verdict:
    """Verify an NDJSON export in constant memory; its lines may be read more than once."""
    problems: list[str] = []
    reader = NdjsonReader(lines(), _collect_ambiguities(problems))
    hashes = HashChecker()
    for event in reader:
        hashes.add(event)
    if not reader.has_footer:
        problems.append("the stream has no footer: it is not complete")
    if "events" in reader.document:
        problems.append("the header or the footer holds events, which no hash covers")
    for name in reader.disputed:
        problems.append(f"header and footer differ in {name[:_MAX_NAME_LENGTH]}")
    if not _has_one_shape(reader):
        problems.append("some lines were wrapped or unwrapped: they are not all of the same shape")
    if problems:
        return _unverifiable(*problems)
    # The first pass has reported all problems already.
    export = _HashedExport(reader.document, hashes, lambda: NdjsonReader(lines(), _ignore_problem))
    verdict = _judge(export, trust)
    if not (verdict.signatures and reader.corrected):
        return verdict
    names = ", ".join(name[:_MAX_NAME_LENGTH] for name in reader.corrected[:_MAX_NAMES])
    warning = f"the header differs from the footer and is not covered: {names}"
    return verdict._replace(
        warnings=(*verdict.warnings, warning), uncovered=(*verdict.uncovered, warning)
    )


def _has_one_shape(reader: NdjsonReader) -> bool:
    """Return whether all lines have the same shape, and that of our profile if it is named."""
    integrity = reader.document.get("integrity")
    if isinstance(integrity, dict) and integrity.get("profile") == PROFILE:
        return reader.shapes <= {FLAT}
    return len(reader.shapes) <= 1


def _collect_ambiguities(problems: list[str]) -> ReportProblem:
    """Return a callback that collects the problems for which two readers may see different data."""

    def report(check: str, place: str, message: str) -> None:
        # Large integers (OT007) are hashed as floats, with a warning.
        if check <= "OT014" and check != "OT007":
            problems.append(f"{place}: {message}")

    return report


def _ignore_problem(check: str, place: str, message: str) -> None:
    pass


def _unverifiable(*reasons: str) -> Verdict:
    return Verdict(UNVERIFIABLE, reasons=reasons)


def _judge(export: _HashedExport, trust: Trust | None) -> Verdict:
    """Return the verdict on the hashes, with the results for the signatures."""
    integrity = export.head.get("integrity")
    if not isinstance(integrity, dict):
        return _unverifiable("there is no integrity object")._replace(events=export.hashes.count)
    verdict = _judge_hashes(export, integrity)
    statement = export.hashes.statement(integrity, export.head)
    signatures: tuple[SignatureResult, ...] = ()
    if "signatures" in integrity:
        signatures = tuple(check_signatures(integrity["signatures"], statement, trust))
    uncovered: tuple[str, ...] = ()
    if has_unsigned_fields(integrity.get("signatures")):
        uncovered = ("a signature has extra fields that nothing covers; do not rely on them",)
    return verdict._replace(
        warnings=verdict.warnings + uncovered,
        signatures=signatures,
        statement=statement.decode(),
        uncovered=uncovered,
    )


def _judge_hashes(export: _HashedExport, integrity: dict[str, Any]) -> Verdict:
    hashes = export.hashes
    parts = tuple(hashes.compare(integrity, export.head, export.iter_events))
    warnings = tuple(_iter_warnings(integrity, hashes, parts))
    verdict = Verdict(VERIFIED, parts, hashes.count, warnings=warnings)
    obstacles = tuple(_iter_obstacles(integrity, hashes, parts))
    if obstacles:
        return verdict._replace(status=UNVERIFIABLE, reasons=obstacles)
    mismatches = [part.name for part in parts if part.state == MISMATCH]
    if not mismatches and lacks_document_hash(integrity):
        reason = "document_hash was removed: what is around the events may have been changed"
        return verdict._replace(status=MISMATCHED, reasons=(reason,))
    if not mismatches:
        return verdict
    unknown_forms = _find_unknown_forms(integrity)
    if "events_hash" in mismatches and unknown_forms:
        return verdict._replace(status=UNVERIFIABLE, reasons=unknown_forms)
    reasons = tuple(f"{name} does not match" for name in mismatches)
    return verdict._replace(status=MISMATCHED, reasons=reasons)


def lacks_document_hash(integrity: dict[str, Any]) -> bool:
    """Return whether an export of our profile, which always has the hash, has lost it."""
    has_hash = isinstance(integrity.get("document_hash"), str)
    return integrity.get("profile") == PROFILE and not has_hash


def _find_unknown_forms(integrity: dict[str, Any]) -> tuple[str, ...]:
    """Return which names of the canonical form are not ours: another form gives another hash."""
    expected_names = {"canonicalization": CANONICALIZATION, "c14n": C14N}
    reasons = []
    for key, expected in expected_names.items():
        if integrity.get(key, expected) != expected:
            reasons.append(f"{key} is not {expected}")
    return tuple(reasons)


def _iter_obstacles(
    integrity: dict[str, Any], hashes: HashChecker, parts: tuple[HashComparison, ...]
) -> Iterator[str]:
    """Yield the reasons why the export cannot be verified at all."""
    if integrity.get("hash_alg") != ALGORITHM:
        yield f"hash_alg is not {ALGORITHM}"
    if not isinstance(integrity.get("events_hash"), str):
        yield "there is no events_hash"
    if hashes.outside:
        yield f"{hashes.outside} events have no canonical form; see `open-token validate`"
    for part in parts:
        if part.name == "document_hash" and part.state == UNCHECKED:
            yield "the document around the events has no canonical form; see `open-token validate`"


def _iter_warnings(
    integrity: dict[str, Any], hashes: HashChecker, parts: tuple[HashComparison, ...]
) -> Iterator[str]:
    if hashes.is_rounded:
        yield "some integers are beyond 2^53-1: the hash does not cover their last digits"
    if all(part.name != "document_hash" for part in parts):
        yield "there is no document_hash: only the events are covered"
    for part in parts:
        if part.state == UNCHECKED:
            yield f"{part.name} was not checked"
