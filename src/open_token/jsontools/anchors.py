"""Anchors of a patience diff: items that are unique in two sequences, in a common order."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Sequence

Pair = tuple[int, int]
"""The positions of equal items in the first and in the second sequence."""


def find_anchors(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[Pair]:
    """Return as many items as possible that are unique on both sides and in the same order."""
    positions_b = _find_unique_items(b)
    candidates: list[Pair] = []
    for item, position_a in _find_unique_items(a).items():
        position_b = positions_b.get(item)
        if position_b is not None:
            candidates.append((position_a, position_b))
    return _find_longest_increasing(candidates)


def _find_unique_items(items: Sequence[Hashable]) -> dict[Hashable, int]:
    """Return the items that occur once, in order, with their position."""
    counts = Counter(items)
    unique: dict[Hashable, int] = {}
    for position, item in enumerate(items):
        if counts[item] == 1:
            unique[item] = position
    return unique


def _find_longest_increasing(candidates: list[Pair]) -> list[Pair]:
    """Return the most pairs whose second positions increase, by patience sorting.

    The first positions increase already. As in the card game each pair goes on the leftmost pile
    whose top is not smaller, so the number of piles is the length of the result.
    """
    # The second position on top of each pile; they increase from left to right.
    tops: list[int] = []
    last_on_pile: list[int] = []
    predecessors: list[int] = []
    for index, (_, position) in enumerate(candidates):
        pile = bisect_left(tops, position)
        predecessor = -1
        if pile > 0:
            # A longest run that ends here goes on from what is on top of the pile to the left.
            predecessor = last_on_pile[pile - 1]
        predecessors.append(predecessor)
        if pile == len(tops):
            tops.append(position)
            last_on_pile.append(index)
        else:
            tops[pile] = position
            last_on_pile[pile] = index

    if not last_on_pile:
        return []
    # Back from the last pile along the predecessors.
    increasing: list[Pair] = []
    index = last_on_pile[-1]
    while index >= 0:
        increasing.append(candidates[index])
        index = predecessors[index]
    increasing.reverse()
    return increasing
