"""The RFC 9162 hash tree over the events, built in O(log n) memory."""

from collections.abc import Iterator
from hashlib import sha256


class Tree:
    """A growing tree: leaves in, root out at any time."""

    def __init__(self) -> None:
        self._peaks: list[tuple[int, bytes]] = []
        self.size = 0

    def add(self, data: bytes) -> None:
        """One more leaf."""
        self.graft(leaf_hash(data))

    def graft(self, node: bytes, height: int = 0) -> None:
        """One more whole subtree of 2**height leaves, known by its hash; it must stand where
        `blocks` puts it."""
        self.size += 1 << height
        while self._peaks and self._peaks[-1][0] == height:
            node = _join(self._peaks.pop()[1], node)
            height += 1
        self._peaks.append((height, node))

    def root(self) -> bytes:
        """The root over all leaves so far; of none, the hash of nothing."""
        if not self._peaks:
            return sha256(b"").digest()
        node = self._peaks[-1][1]
        for _, left in reversed(self._peaks[:-1]):
            node = _join(left, node)
        return node


def leaf_hash(data: bytes) -> bytes:
    """The hash of one leaf."""
    return sha256(b"\x00" + data).digest()


def blocks(first: int, end: int) -> Iterator[tuple[int, int]]:
    """The fewest whole subtrees over the leaves from first up to end: the first leaf and the height
    of each."""
    while first < end:
        height = (end - first).bit_length() - 1
        if first:
            height = min(height, (first & -first).bit_length() - 1)
        yield first, height
        first += 1 << height


def _join(left: bytes, right: bytes) -> bytes:
    return sha256(b"\x01" + left + right).digest()
