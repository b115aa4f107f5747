"""The hash of a web page, which the page itself holds at its end.

A page shows events, but does not hold them as data, so that their hash cannot be recomputed from
it. What can be checked is that no byte of the page has changed, and of which document it was made.
"""

import hashlib
from collections.abc import Iterator
from typing import Any, BinaryIO

import msgspec

from open_token.integrity.verify import (
    MATCH,
    MISMATCH,
    MISMATCHED,
    UNCHECKED,
    UNVERIFIABLE,
    VERIFIED,
    HashComparison,
    Verdict,
)
from open_token.model.document import Integrity
from open_token.sources.source import Source

SEAL_START = b'<script type="application/json" id="ot-integrity">'
SEAL_END = b"</script></body></html>\n"
_DOCTYPE = b"<!doctype html>"
_CHUNK = 1 << 20
_MAX_SEAL = 16 << 20


class _Seal(msgspec.Struct):
    page_hash: str
    integrity: dict[str, Any]


class HashingOutput:
    """Passes bytes on to an output and hashes them."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._hash = hashlib.sha256()

    def write(self, data: bytes) -> int:
        """Write and hash; return the byte count."""
        self._hash.update(data)
        return self._out.write(data)

    def render_seal(self, integrity: Integrity | None = None) -> bytes:
        """Return the element that ends the page: the hash of what was written, and the integrity.

        A page that is not of one document has no integrity."""
        seal = msgspec.json.encode(_Seal(self._hash.hexdigest(), dict(integrity or {})))
        # Nothing in it may end the element.
        return SEAL_START + seal.replace(b"<", b"\\u003c") + SEAL_END


def is_page(source: Source) -> bool:
    """Return whether a file is a web page that Open-Token may have written."""
    return source.head[: len(_DOCTYPE)].lower() == _DOCTYPE


def verify_page(source: Source) -> Verdict:
    """Verify that a page is unchanged since it was written."""
    digest = hashlib.sha256()
    rest = b""
    with source.opened() as stream:
        for is_last, data in _split_at_seal(stream):
            if is_last:
                rest = data
            else:
                digest.update(data)
    seal = _parse_seal(rest)
    if seal is None:
        return _reject("there is no complete integrity object at the end of the page")
    events_hash = seal.integrity.get("events_hash")
    count = seal.integrity.get("event_count")
    if seal.integrity and not isinstance(events_hash, str):
        return _reject("the integrity object of the page names no events")
    found = digest.hexdigest()
    state = MATCH if found == seal.page_hash else MISMATCH
    parts = [HashComparison("page_hash", state, seal.page_hash, found)]
    warnings: list[str] = []
    if isinstance(events_hash, str):
        parts.append(HashComparison("events_hash", UNCHECKED, events_hash, ""))
        warnings.append(
            "a page shows its events but does not hold them as data: compare events_hash with the "
            "one of the JSON export"
        )
    if seal.integrity.get("signatures"):
        warnings.append("the signatures cover the JSON export, and not this page")
    return Verdict(
        VERIFIED if state == MATCH else MISMATCHED,
        tuple(parts),
        count if type(count) is int else 0,
        warnings=tuple(warnings),
    )


def _reject(reason: str) -> Verdict:
    return Verdict(UNVERIFIABLE, (), 0, reasons=(reason,))


def _split_at_seal(stream: BinaryIO) -> Iterator[tuple[bool, bytes]]:
    """Yield what stands before the seal in pieces, and at last the seal with what follows it."""
    # Text of a conversation is escaped, so that the first match is the only one.
    held = b""
    while True:
        data = stream.read(_CHUNK)
        held += data
        start = held.find(SEAL_START)
        if start >= 0:
            yield False, held[:start]
            yield True, held[start:] + stream.read(_MAX_SEAL)
            return
        if not data:
            yield False, held
            return
        kept = len(SEAL_START) - 1
        yield False, held[:-kept]
        held = held[-kept:]


def _parse_seal(raw: bytes) -> _Seal | None:
    if not raw.startswith(SEAL_START) or not raw.endswith(SEAL_END):
        return None
    try:
        return msgspec.json.decode(raw[len(SEAL_START) : -len(SEAL_END)], type=_Seal)
    except (msgspec.DecodeError, RecursionError):
        return None
