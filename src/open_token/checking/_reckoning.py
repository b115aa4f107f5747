"""The hashes of an export made anew from its events, and compared with what its integrity says."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from open_token.canonical import CanonicalError, EventsHash, document_hash, dumps, event_bytes
from open_token.commitments import ALG as SOURCE
from open_token.commitments import SourceFault, check
from open_token.merkle import Tree
from open_token.signatures.statement import TREE, statement

MATCH, MISMATCH, UNCHECKED = "match", "mismatch", "unchecked"
ALGORITHM = "sha256"
CANONICALIZATION = "json-c14n-like"
C14N = "rfc8785"

_HEX = re.compile(r"[0-9A-Fa-f]{1,64}")
_SAFE = 2**53 - 1
_DEEPEST = 250


Again = Callable[[], Iterable[Any]]
"""Walks the events of an export once more."""


class Part(NamedTuple):
    """One thing that integrity says: its name, whether it holds, what it says and what was
    found."""

    name: str
    state: str
    claimed: str
    found: str


class Reckoning:
    """Takes the events one by one, in constant memory."""

    def __init__(self) -> None:
        self._hash = EventsHash()
        self._tree = Tree()
        self.is_rounded = False
        """Some integers were taken as 64-bit floats: the hash does not cover their last digits."""
        self.outside = 0
        """How many events have no canonical bytes at all."""

    def add(self, event: Any) -> bytes | None:
        """One more event; its canonical bytes, None when it has none as it stands."""
        try:
            raw = event_bytes(event) if isinstance(event, dict) else dumps(event)
        except CanonicalError:
            self._add_rounded(event)
            return None
        self._hash.add(raw)
        self._tree.add(raw)
        return raw

    def _add_rounded(self, event: Any) -> None:
        try:
            raw = dumps(_rounded(event))
        except (CanonicalError, OverflowError):
            self.outside += 1
            return
        self.is_rounded = True
        self._hash.add(raw)
        self._tree.add(raw)

    @property
    def count(self) -> int:
        """How many events were taken."""
        return self._hash.count + self.outside

    def compare(
        self, integrity: Mapping[str, Any], head: Mapping[str, Any], again: Again | None = None
    ) -> list[Part]:
        """Part by part; each is compared by itself, so that a change shows where it was made.

        What ties the events to their source takes another walk over them, and is not checked
        without one."""
        claimed = integrity.get("events_hash")
        parts = []
        if isinstance(claimed, str):
            parts.append(
                _part("events_hash", claimed, "" if self.outside else self._hash.hexdigest())
            )
        if type(integrity.get("event_count")) is int:
            parts.append(_part("event_count", str(integrity["event_count"]), str(self.count)))
        if isinstance(integrity.get("document_hash"), str):
            events_hash = claimed if isinstance(claimed, str) else self._hash.hexdigest()
            parts.append(
                _part(
                    "document_hash", integrity["document_hash"], _document_hash(head, events_hash)
                )
            )
        if isinstance(tree := integrity.get("tree"), dict):
            root = self._tree.root().hex() if tree.get("alg") == TREE and not self.outside else ""
            parts.append(_part("tree.root", str(tree.get("root")), root))
            parts.append(_part("tree.size", str(tree.get("size")), str(self.count)))
        if "source" in integrity:
            parts += _source_parts(integrity["source"], again)
        return parts

    def statement(self, integrity: Mapping[str, Any], head: Mapping[str, Any]) -> bytes:
        """What a signature of the export is made over; empty when it does not cover every digit of
        it."""
        if self.is_rounded or self.outside:
            return b""
        try:
            return statement(
                head, integrity, self._hash.hexdigest(), self.count, self._tree.root().hex()
            )
        except CanonicalError:
            return b""


def _part(name: str, claimed: str, found: str) -> Part:
    state = UNCHECKED if not found else MATCH if claimed == found else MISMATCH
    return Part(name, state, claimed if _HEX.fullmatch(claimed) else "not a hash", found)


def _source_parts(source: Any, again: Again | None) -> list[Part]:
    if again is None or not isinstance(source, dict) or source.get("alg") != SOURCE:
        return [Part("source", UNCHECKED, "", "")]
    try:
        tied = check(source, again())
    except SourceFault as fault:
        return [Part(f"source.{fault}", MISMATCH, "does not fit the events", "")]
    root = _part("source.root", str(source.get("root")), tied.root)
    if root.state == MISMATCH:
        return [root]
    states = f"{tied.verbatim} verbatim, {tied.altered} altered and declared"
    states += f", {tied.inserted} inserted, {tied.dropped} dropped"
    return [root, Part("source", MATCH, states, states)]


def _document_hash(head: Mapping[str, Any], events_hash: str) -> str:
    head = {name: value for name, value in head.items() if name not in ("events", "integrity")}
    try:
        return document_hash(_rounded(head), events_hash)
    except (CanonicalError, OverflowError):
        return ""


def _rounded(value: Any, depth: int = 0) -> Any:
    """The value with long integers as the floats that most readers take them for."""
    if depth > _DEEPEST:
        raise CanonicalError("nested too deep")
    if type(value) is int and not -_SAFE <= value <= _SAFE:
        return float(value)
    if isinstance(value, dict):
        return {key: _rounded(item, depth + 1) for key, item in value.items()}
    return [_rounded(item, depth + 1) for item in value] if isinstance(value, list) else value
