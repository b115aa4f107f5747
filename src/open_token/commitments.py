"""Salted commitments to the events of a source: an export with parts withheld still verifies
against their root."""

import hmac
import re
from array import array
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from open_token.canonical import CanonicalError, event_bytes
from open_token.merkle import Tree, blocks, leaf_hash

ALG = "ot-leaf/1"
_SALT, _HASH = 16, 32
_WITHHELD = bytes(_SALT)
_LARGEST = 2**53 - 1
_HEX = re.compile(r"[0-9a-f]{64}")

Row = tuple[int, int | None, int]
"""Events of the export that stand together: the first seq, its seq in the source (None: inserted),
how many."""


def _split(event: Mapping[str, Any]) -> tuple[bytes, bytes]:
    """The canonical bytes of the content and of the rest; seq is the export's own and belongs to
    neither."""
    rest = {name: value for name, value in event.items() if name not in ("content", "seq")}
    return event_bytes(event.get("content")), event_bytes(rest)  # type: ignore[arg-type]


def _commitment(salt: bytes, content: bytes) -> bytes:
    return sha256(b"\x02" + salt + content).digest()


def _root(tree: Tree) -> str:
    """The size is hashed along: a tree alone does not tell how many leaves its hidden parts
    have."""
    return sha256(b"\x03" + tree.size.to_bytes(8, "big") + tree.root()).hexdigest()


class Committed:
    """What is kept of every source event: a short name, its leaf, and the commitment to its
    content."""

    def __init__(self, key: bytes, conversation_id: str) -> None:
        self._seed = hmac.digest(
            key, b"ot-leaf-seed/1" + conversation_id.encode("utf-8", "surrogatepass"), "sha256"
        )
        self._names = array("Q")
        self._leaves = bytearray()
        self._commitments = bytearray()
        self._tree = Tree()

    def add(self, event: Mapping[str, Any]) -> None:
        """The next event of the source."""
        content, rest = _split(event)
        commitment = _commitment(self.salt(self.size, content), content)
        leaf = leaf_hash(commitment + rest)
        self._tree.graft(leaf)
        self._names.append(_name(event))
        self._leaves += leaf
        self._commitments += commitment

    @property
    def size(self) -> int:
        return self._tree.size

    @property
    def root(self) -> str:
        return _root(self._tree)

    def salt(self, index: int, content: bytes) -> bytes:
        """A salt that nobody can guess without the key.

        The content goes in, so that a salt shown for one content says nothing of another that stood
        at its place."""
        return hmac.digest(self._seed, b"ot-salt/1" + index.to_bytes(8, "big") + content, "sha256")[
            :_SALT
        ]

    def find(self, event: Mapping[str, Any], start: int) -> int | None:
        """Where an event stands in the source, not before start; passes keep ids and order."""
        try:
            return self._names.index(_name(event), start)
        except ValueError:
            return None

    def leaf(self, index: int) -> bytes:
        return bytes(self._leaves[index * _HASH : (index + 1) * _HASH])

    def commitment(self, index: int) -> bytes:
        return bytes(self._commitments[index * _HASH : (index + 1) * _HASH])

    def block(self, first: int, height: int) -> str:
        """The hash of the whole subtree of 2**height leaves that begins at first."""
        tree = Tree()
        for index in range(first, first + (1 << height)):
            tree.graft(self.leaf(index))
        return tree.root().hex()


def _name(event: Mapping[str, Any]) -> int:
    return int.from_bytes(sha256(event["id"].encode()).digest()[:8], "big")


class Disclosure:
    """Takes the events of an export one by one, and knows after the last what ties them to their
    source."""

    def __init__(self, source: Committed) -> None:
        self._source = source
        self._rows: list[Row] = []
        self._salts = bytearray()
        self._commitments: dict[str, str] = {}
        self._seq = 0
        self._next = 0

    def take(self, event: Mapping[str, Any]) -> None:
        """The next event: verbatim, with other content than its source, or inserted."""
        self._seq += 1
        index = self._source.find(event, self._next)
        if index is not None:
            self._next = index + 1
            index = index if self._opens(index, event) else None
        self._place(None if index is None else index + 1)

    def _opens(self, index: int, event: Mapping[str, Any]) -> bool:
        """Whether the event can be tied to its source; not when anything but its content was
        changed."""
        content, rest = _split(event)
        salt, leaf = self._source.salt(index, content), self._source.leaf(index)
        if leaf_hash(_commitment(salt, content) + rest) == leaf:
            self._salts += salt
            return True
        commitment = self._source.commitment(index)
        if leaf_hash(commitment + rest) != leaf:
            return False
        self._salts += _WITHHELD
        self._commitments[str(self._seq)] = commitment.hex()
        return True

    def _place(self, place: int | None) -> None:
        if self._rows:
            first, source, count = self._rows[-1]
            if place == (None if source is None else source + count):
                self._rows[-1] = first, source, count + 1
                return
        self._rows.append((self._seq, place, 1))

    def as_object(self) -> dict[str, Any]:
        """The `source` object of integrity."""
        source = self._source
        made: dict[str, Any] = {
            "alg": ALG,
            "size": source.size,
            "root": source.root,
            "map": self._rows,
            "salts": b64encode(self._salts).decode(),
            "commitments": self._commitments,
        }
        if proof := [
            source.block(*block) for gap in _gaps(self._rows, source.size) for block in blocks(*gap)
        ]:
            made["proof"] = proof
        return made


def disclose(source: Committed, events: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The `source` object for all events of an export."""
    made = Disclosure(source)
    for event in events:
        made.take(event)
    return made.as_object()


def _gaps(rows: Iterable[Row], size: int) -> Iterator[tuple[int, int]]:
    """The source events that no row has, as ranges counted from 0."""
    end = 0
    for _, source, count in rows:
        if source is not None:
            yield end, source - 1
            end = source - 1 + count
    yield end, size


class SourceFault(ValueError):
    """A part of the source object that the events contradict; the message is its name."""


class Tied(NamedTuple):
    """How the events of an export hang together with their source."""

    root: str
    verbatim: int
    altered: int
    inserted: int
    dropped: int


def check(source: Mapping[str, Any], events: Iterable[Any]) -> Tied:
    """What became of the source, and the root that the events and the source object give;
    SourceFault when none."""
    size, rows = source.get("size"), list(_rows(source))
    mapped = sum(count for _, place, count in rows if place is not None)
    salts = _salts(source, mapped)
    commitments = _commitments(source)
    proof = iter(_hashes(source.get("proof", []), "proof"))
    tree, altered, inserted = Tree(), 0, 0
    for seq, place, event in _placed(rows, events):
        if place is None:
            inserted += 1
            continue
        _hide(tree, place - 1, proof)
        commitment = commitments.get(str(seq))
        tree.add(_opened(event, next(salts), commitment))
        altered += commitment is not None
    if type(size) is not int or not tree.size <= size <= _LARGEST:
        raise SourceFault("size")
    _hide(tree, size, proof)
    for part, is_whole in (
        ("commitments", altered == len(commitments)),
        ("proof", next(proof, None) is None),
    ):
        if not is_whole:
            raise SourceFault(part)
    return Tied(_root(tree), mapped - altered, altered, inserted, size - mapped)


def _placed(
    rows: Iterable[Row], events: Iterable[Any]
) -> Iterator[tuple[int, int | None, dict[str, Any]]]:
    """Each event with its seq and its place in the source; the rows have every event once."""
    rest = iter(events)
    for first, source, count in rows:
        for step in range(count):
            event = next(rest, None)
            if not isinstance(event, dict):
                raise SourceFault("map")
            yield first + step, None if source is None else source + step, event
    if next(rest, rows) is not rows:
        raise SourceFault("map")


def _hide(tree: Tree, end: int, proof: Iterator[bytes]) -> None:
    """Put in the proof's hashes for the source events before end that are not shown."""
    for _, height in blocks(tree.size, end):
        node = next(proof, None)
        if node is None:
            raise SourceFault("proof")
        tree.graft(node, height)


def _opened(event: Mapping[str, Any], salt: bytes, commitment: bytes | None) -> bytes:
    """The leaf of an event: by its salt, or by the commitment to a content that is not shown."""
    if (commitment is None) == (salt == _WITHHELD):
        raise SourceFault("salts")
    try:
        content, rest = _split(event)
    except CanonicalError:
        raise SourceFault("root") from None
    return (commitment or _commitment(salt, content)) + rest


def _rows(source: Mapping[str, Any]) -> Iterator[Row]:
    """The rows of the map, in the order of the export and of the source."""
    rows, seq, end = source.get("map"), 1, 0
    for row in rows if isinstance(rows, list) else [None]:
        if (
            not isinstance(row, list | tuple)
            or len(row) != 3
            or not all(type(n) is int for n in row if n is not None)
        ):
            raise SourceFault("map")
        first, place, count = row
        if first != seq or count is None or count < 1 or (place is not None and place <= end):
            raise SourceFault("map")
        seq += count
        end = end if place is None else place - 1 + count
        yield first, place, count


def _salts(source: Mapping[str, Any], count: int) -> Iterator[bytes]:
    text = source.get("salts")
    try:
        raw = b64decode(text, validate=True) if isinstance(text, str) else b""
    except ValueError:
        raise SourceFault("salts") from None
    if len(raw) != count * _SALT or b64encode(raw).decode() != text:
        raise SourceFault("salts")
    return (raw[place : place + _SALT] for place in range(0, len(raw), _SALT))


def _commitments(source: Mapping[str, Any]) -> dict[str, bytes]:
    given = source.get("commitments", {})
    if not isinstance(given, dict):
        raise SourceFault("commitments")
    return dict(zip(given, _hashes(list(given.values()), "commitments"), strict=True))


def _hashes(given: Any, part: str) -> list[bytes]:
    if not isinstance(given, list) or not all(
        isinstance(item, str) and _HEX.fullmatch(item) for item in given
    ):
        raise SourceFault(part)
    return [bytes.fromhex(item) for item in given]
