"""The RFC 9162 tree."""

from hashlib import sha256

import pytest

from open_token.integrity.merkle import MerkleTree, hash_leaf, split_into_subtrees

LEAVES = [
    "",
    "00",
    "10",
    "2021",
    "3031",
    "40414243",
    "5051525354555657",
    "606162636465666768696a6b6c6d6e6f",
]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]


def test_known_roots() -> None:
    tree = MerkleTree()
    assert tree.root() == sha256(b"").digest()
    for leaf, root in zip(LEAVES, ROOTS, strict=True):
        tree.add(bytes.fromhex(leaf))
        assert tree.root().hex() == root


def slow_root(leaves: list[bytes]) -> bytes:
    """As the RFC writes it: split at the largest power of two below the count."""
    if len(leaves) == 1:
        return sha256(b"\x00" + leaves[0]).digest()
    split = 1 << (len(leaves) - 1).bit_length() - 1
    return sha256(b"\x01" + slow_root(leaves[:split]) + slow_root(leaves[split:])).digest()


@pytest.mark.parametrize("count", [1, 2, 3, 5, 31, 32, 33, 100])
def test_agrees_with_the_definition(count: int) -> None:
    leaves = [str(n).encode() for n in range(count)]
    tree = MerkleTree()
    for leaf in leaves:
        tree.add(leaf)
    assert tree.root() == slow_root(leaves)
    assert tree.size == count


@pytest.mark.parametrize(
    ("first", "end"), [(0, 0), (0, 1), (0, 37), (1, 37), (5, 6), (12, 32), (30, 37), (36, 37)]
)
def test_whole_subtrees_stand_for_their_leaves(first: int, end: int) -> None:
    hashes = [hash_leaf(bytes([n])) for n in range(37)]
    tree, grafted, height_of = MerkleTree(), MerkleTree(), dict(split_into_subtrees(first, end))
    for leaf in hashes:
        tree.graft(leaf)
    while (place := grafted.size) < len(hashes):
        part = MerkleTree()
        for leaf in hashes[place : place + (1 << height_of.get(place, 0))]:
            part.graft(leaf)
        grafted.graft(part.root(), height_of.get(place, 0))
    assert grafted.root() == tree.root()
    assert sum(1 << height for height in height_of.values()) == end - first
    assert len(height_of) <= 2 * max(1, end - first).bit_length()
