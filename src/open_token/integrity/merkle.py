"""The RFC 9162 Merkle tree over events, built in O(log n) memory."""

from collections.abc import Iterator
from hashlib import sha256


class MerkleTree:
    """A growing tree; its root can be computed at any time."""

    def __init__(self) -> None:
        # Complete subtrees from left to right: height and hash.
        self._peaks: list[tuple[int, bytes]] = []
        self.size = 0

    def add(self, data: bytes) -> None:
        """Append a leaf."""
        self.graft(hash_leaf(data))

    def graft(self, node: bytes, height: int = 0) -> None:
        """Append a complete subtree of 2**height leaves, given by its hash.

        It must start at a position that `split_into_subtrees` would give it.
        """
        self.size += 1 << height
        while self._peaks and self._peaks[-1][0] == height:
            _, left = self._peaks.pop()
            node = _hash_children(left, node)
            height += 1
        self._peaks.append((height, node))

    def root(self) -> bytes:
        """Return the root over all leaves so far; of an empty tree, the hash of nothing."""
        if not self._peaks:
            return sha256(b"").digest()
        node = self._peaks[-1][1]
        for _, left in reversed(self._peaks[:-1]):
            node = _hash_children(left, node)
        return node


def hash_leaf(data: bytes) -> bytes:
    """Return the hash of a leaf."""
    return sha256(b"\x00" + data).digest()


def split_into_subtrees(first: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the first leaf and the height of the fewest subtrees that cover the leaves up to end."""
    while first < end:
        height = (end - first).bit_length() - 1
        if first:
            alignment = (first & -first).bit_length() - 1
            height = min(height, alignment)
        yield first, height
        first += 1 << height


def _hash_children(left: bytes, right: bytes) -> bytes:
    return sha256(b"\x01" + left + right).digest()
