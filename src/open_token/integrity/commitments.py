"""Salted commitments to the events of a source.

An export from which parts are withheld still verifies against the Merkle root of its source. The
leaf of a source event is a commitment to its content, followed by the rest of the event. An export
discloses the salts of unchanged events, the commitments of events whose content was altered, and
hashes of the subtrees over dropped events.
"""

import hmac
import re
from array import array
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from open_token.integrity.merkle import MerkleTree, hash_leaf, split_into_subtrees
from open_token.jsontools.canonical import CanonicalError, encode_event

ALGORITHM = "ot-leaf/1"

_SALT_LENGTH = 16
_HASH_LENGTH = 32
_WITHHELD_SALT = bytes(_SALT_LENGTH)
_MAX_SIZE = 2**53 - 1
_HEX_HASH = re.compile(r"[0-9a-f]{64}")

Row = tuple[int, int | None, int]
"""Consecutive events of an export: first seq, its seq in the source (None: inserted), count."""


def _split_event(event: Mapping[str, Any]) -> tuple[bytes, bytes]:
    """Return the canonical bytes of the content and of the rest, without the export's own seq."""
    content = encode_event(event.get("content"))  # type: ignore[arg-type]
    rest = {name: value for name, value in event.items() if name not in ("content", "seq")}
    return content, encode_event(rest)


def _commit(salt: bytes, content: bytes) -> bytes:
    return sha256(b"\x02" + salt + content).digest()


def _compute_root(tree: MerkleTree) -> str:
    # The size is part of the root: hidden subtrees do not reveal how many leaves they have.
    return sha256(b"\x03" + tree.size.to_bytes(8, "big") + tree.root()).hexdigest()


class SourceCommitments:
    """Commitments to the events of a source, with what is needed to disclose parts of them."""

    def __init__(self, key: bytes, conversation_id: str) -> None:
        name = conversation_id.encode("utf-8", "surrogatepass")
        self._seed = hmac.digest(key, b"ot-leaf-seed/1" + name, "sha256")
        # Flat buffers, 72 bytes an event: lists of hashes would take more than twice as much.
        self._id_hashes = array("Q")
        self._leaves = bytearray()
        self._commitments = bytearray()
        self._tree = MerkleTree()

    def add(self, event: Mapping[str, Any]) -> None:
        """Add the next event of the source."""
        content, rest = _split_event(event)
        commitment = _commit(self.salt(self.size, content), content)
        leaf = hash_leaf(commitment + rest)
        self._tree.graft(leaf)
        self._id_hashes.append(_hash_id(event))
        self._leaves += leaf
        self._commitments += commitment

    @property
    def size(self) -> int:
        """The number of source events."""
        return self._tree.size

    @property
    def root(self) -> str:
        """The root over all source events."""
        return _compute_root(self._tree)

    def salt(self, index: int, content: bytes) -> bytes:
        """Return a salt that nobody can guess without the key.

        It depends on the content, so that the disclosed salt of one content reveals nothing about
        another content at the same position.
        """
        message = b"ot-salt/1" + index.to_bytes(8, "big") + content
        return hmac.digest(self._seed, message, "sha256")[:_SALT_LENGTH]

    def find(self, event: Mapping[str, Any], start: int) -> int | None:
        """Return the index of an event in the source, from start on; passes keep ids and order."""
        try:
            return self._id_hashes.index(_hash_id(event), start)
        except ValueError:
            return None

    def leaf(self, index: int) -> bytes:
        """Return the leaf hash of a source event."""
        return bytes(self._leaves[index * _HASH_LENGTH : (index + 1) * _HASH_LENGTH])

    def commitment(self, index: int) -> bytes:
        """Return the commitment to the content of a source event."""
        return bytes(self._commitments[index * _HASH_LENGTH : (index + 1) * _HASH_LENGTH])

    def block(self, first: int, height: int) -> str:
        """Return the hash of the complete subtree of 2**height leaves that starts at first."""
        tree = MerkleTree()
        for index in range(first, first + (1 << height)):
            tree.graft(self.leaf(index))
        return tree.root().hex()


def _hash_id(event: Mapping[str, Any]) -> int:
    return int.from_bytes(sha256(event["id"].encode()).digest()[:8], "big")


class Disclosure:
    """Takes the events of an export one by one and builds its `source` object."""

    def __init__(self, source: SourceCommitments) -> None:
        self._source = source
        self._rows: list[Row] = []
        self._salts = bytearray()
        self._commitments: dict[str, str] = {}
        self._seq = 0
        self._next = 0

    def take(self, event: Mapping[str, Any]) -> None:
        """Add the next event: unchanged, with altered content, or inserted."""
        self._seq += 1
        index = self._source.find(event, self._next)
        if index is None:
            self._add_to_map(None)
            return
        self._next = index + 1
        is_tied = self._disclose(index, event)
        self._add_to_map(index + 1 if is_tied else None)

    def _disclose(self, index: int, event: Mapping[str, Any]) -> bool:
        """Disclose the salt or the commitment of an event.

        Return False if anything but its content was changed, so that it counts as inserted.
        """
        content, rest = _split_event(event)
        salt = self._source.salt(index, content)
        leaf = self._source.leaf(index)
        if hash_leaf(_commit(salt, content) + rest) == leaf:
            self._salts += salt
            return True
        commitment = self._source.commitment(index)
        if hash_leaf(commitment + rest) != leaf:
            return False
        self._salts += _WITHHELD_SALT
        self._commitments[str(self._seq)] = commitment.hex()
        return True

    def _add_to_map(self, source_seq: int | None) -> None:
        if self._rows:
            first, source, count = self._rows[-1]
            following = None if source is None else source + count
            if source_seq == following:
                self._rows[-1] = first, source, count + 1
                return
        self._rows.append((self._seq, source_seq, 1))

    def as_object(self) -> dict[str, Any]:
        """Return the `source` object of integrity."""
        source = self._source
        result: dict[str, Any] = {
            "alg": ALGORITHM,
            "size": source.size,
            "root": source.root,
            "map": self._rows,
            "salts": b64encode(self._salts).decode(),
            "commitments": self._commitments,
        }
        proof = []
        for first, end in _iter_gaps(self._rows, source.size):
            for start, height in split_into_subtrees(first, end):
                proof.append(source.block(start, height))
        if proof:
            result["proof"] = proof
        return result


def build_disclosure(
    source: SourceCommitments, events: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the `source` object for all events of an export."""
    disclosure = Disclosure(source)
    for event in events:
        disclosure.take(event)
    return disclosure.as_object()


def _iter_gaps(rows: Iterable[Row], size: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of source events, counted from 0, that no row covers."""
    end = 0
    for _, source, count in rows:
        if source is not None:
            yield end, source - 1
            end = source - 1 + count
    yield end, size


class CommitmentError(ValueError):
    """A part of the source object contradicts the events; the message is its name."""


class SourceCoverage(NamedTuple):
    """The recomputed root, and what became of the source events."""

    root: str
    verbatim: int
    altered: int
    inserted: int
    dropped: int


def check_disclosure(source: Mapping[str, Any], events: Iterable[Any]) -> SourceCoverage:
    """Recompute the root from the events and a source object; raise CommitmentError if impossible."""
    rows = list(_read_rows(source))
    mapped = sum(count for _, source_seq, count in rows if source_seq is not None)
    salts = _read_salts(source, mapped)
    commitments = _read_commitments(source)
    proof = iter(_read_hashes(source.get("proof", []), "proof"))
    tree = MerkleTree()
    altered = 0
    inserted = 0
    for seq, source_seq, event in _iter_mapped(rows, events):
        if source_seq is None:
            inserted += 1
            continue
        _graft_hidden(tree, source_seq - 1, proof)
        commitment = commitments.get(str(seq))
        tree.add(_build_leaf(event, next(salts), commitment))
        if commitment is not None:
            altered += 1
    size = source.get("size")
    # `type` and not isinstance: True is no size.
    if type(size) is not int or not tree.size <= size <= _MAX_SIZE:
        raise CommitmentError("size")
    _graft_hidden(tree, size, proof)
    # Parts that no event used would be bytes that an attacker may choose freely.
    if altered != len(commitments):
        raise CommitmentError("commitments")
    if next(proof, None) is not None:
        raise CommitmentError("proof")
    return SourceCoverage(
        root=_compute_root(tree),
        verbatim=mapped - altered,
        altered=altered,
        inserted=inserted,
        dropped=size - mapped,
    )


def _iter_mapped(
    rows: Iterable[Row], events: Iterable[Any]
) -> Iterator[tuple[int, int | None, dict[str, Any]]]:
    """Yield seq, seq in the source, and event; the rows must cover every event once."""
    remaining = iter(events)
    for first, source, count in rows:
        for offset in range(count):
            event = next(remaining, None)
            if not isinstance(event, dict):
                raise CommitmentError("map")
            source_seq = None if source is None else source + offset
            yield first + offset, source_seq, event
    for _ in remaining:
        raise CommitmentError("map")


def _graft_hidden(tree: MerkleTree, end: int, proof: Iterator[bytes]) -> None:
    """Append the proof's hashes for the source events before end that are not in the export."""
    for _, height in split_into_subtrees(tree.size, end):
        node = next(proof, None)
        if node is None:
            raise CommitmentError("proof")
        tree.graft(node, height)


def _build_leaf(event: Mapping[str, Any], salt: bytes, commitment: bytes | None) -> bytes:
    """Return the data of a leaf, by its salt, or by the commitment to a withheld content."""
    is_withheld = salt == _WITHHELD_SALT
    if is_withheld != (commitment is not None):
        raise CommitmentError("salts")
    try:
        content, rest = _split_event(event)
    except CanonicalError:
        raise CommitmentError("root") from None
    return (commitment or _commit(salt, content)) + rest


def _read_rows(source: Mapping[str, Any]) -> Iterator[Row]:
    """Yield the rows of the map, which must follow the order of the export and of the source."""
    rows = source.get("map")
    if not isinstance(rows, list):
        raise CommitmentError("map")
    next_seq = 1
    source_end = 0
    for row in rows:
        if not _is_row(row):
            raise CommitmentError("map")
        first, source_seq, count = row
        if first != next_seq or count < 1:
            raise CommitmentError("map")
        if source_seq is not None:
            if source_seq <= source_end:
                raise CommitmentError("map")
            source_end = source_seq - 1 + count
        next_seq += count
        yield first, source_seq, count


def _is_row(row: Any) -> bool:
    if not isinstance(row, list | tuple) or len(row) != 3:
        return False
    first, source_seq, count = row
    if source_seq is not None and type(source_seq) is not int:
        return False
    return type(first) is int and type(count) is int


def _read_salts(source: Mapping[str, Any], count: int) -> Iterator[bytes]:
    """Return the salts of `count` events; there must be exactly that many."""
    text = source.get("salts")
    if not isinstance(text, str):
        raise CommitmentError("salts")
    try:
        raw = b64decode(text, validate=True)
    except ValueError:
        raise CommitmentError("salts") from None
    if len(raw) != count * _SALT_LENGTH:
        raise CommitmentError("salts")
    # The unused bits before the padding may be set in base64; one spelling only is accepted.
    if b64encode(raw).decode() != text:
        raise CommitmentError("salts")
    return _split_salts(raw)


def _split_salts(raw: bytes) -> Iterator[bytes]:
    for start in range(0, len(raw), _SALT_LENGTH):
        yield raw[start : start + _SALT_LENGTH]


def _read_commitments(source: Mapping[str, Any]) -> dict[str, bytes]:
    commitments = source.get("commitments", {})
    if not isinstance(commitments, dict):
        raise CommitmentError("commitments")
    hashes = _read_hashes(list(commitments.values()), "commitments")
    return dict(zip(commitments, hashes, strict=True))


def _read_hashes(values: Any, part: str) -> list[bytes]:
    if not isinstance(values, list):
        raise CommitmentError(part)
    hashes = []
    for value in values:
        if not isinstance(value, str) or not _HEX_HASH.fullmatch(value):
            raise CommitmentError(part)
        hashes.append(bytes.fromhex(value))
    return hashes
