"""Common subsequence of two sequences of keys, in about linear time on any input.

Keys that are unique on both sides are anchors (patience); the rest is matched by a bounded Myers
search.
"""

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from open_token.jsontools.anchors import Pair, find_anchors

Keys = Sequence[Hashable]

_MAX_DEPTH = 12
"""Nesting of gaps; a hostile sequence could have as many as it has keys."""
_MAX_EDITS = 48
"""Edits of one search, whose cost is their square."""


class Gap(NamedTuple):
    """A part of the first sequence and the part of the second that it is compared with."""

    start_a: int
    end_a: int
    start_b: int
    end_b: int

    @property
    def range_a(self) -> range:
        """The positions in the first sequence."""
        return range(self.start_a, self.end_a)

    @property
    def range_b(self) -> range:
        """The positions in the second sequence."""
        return range(self.start_b, self.end_b)


def match_sequences(a: Keys, b: Keys) -> list[Pair]:
    """Return the positions of equal keys, increasing in both sequences."""
    pairs: list[Pair] = []
    gaps = [(Gap(0, len(a), 0, len(b)), 0)]
    while gaps:
        gap, depth = gaps.pop()
        equal_ends, gap = _trim_equal_ends(a, b, gap)
        pairs += equal_ends
        if not gap.range_a or not gap.range_b:
            continue
        anchors: list[Pair] = []
        if depth < _MAX_DEPTH:
            anchors = _find_anchors_in_gap(a, b, gap)
        if not anchors:
            pairs += _match_repeated(a, b, gap)
            continue
        pairs += anchors
        for inner in find_gaps(anchors, gap):
            gaps.append((inner, depth + 1))
    pairs.sort()
    return pairs


def find_gaps(pairs: Sequence[Pair], gap: Gap) -> list[Gap]:
    """Return the non-empty gaps before, between and after increasing pairs of a gap."""
    gaps: list[Gap] = []
    start_a = gap.start_a
    start_b = gap.start_b
    for index_a, index_b in [*pairs, (gap.end_a, gap.end_b)]:
        if index_a > start_a or index_b > start_b:
            gaps.append(Gap(start_a, index_a, start_b, index_b))
        start_a = index_a + 1
        start_b = index_b + 1
    return gaps


def _trim_equal_ends(a: Keys, b: Keys, gap: Gap) -> tuple[list[Pair], Gap]:
    """Return the equal pairs at both ends, and the gap that is left."""
    start_a, end_a, start_b, end_b = gap
    pairs: list[Pair] = []
    while start_a < end_a and start_b < end_b and a[start_a] == b[start_b]:
        pairs.append((start_a, start_b))
        start_a += 1
        start_b += 1
    while start_a < end_a and start_b < end_b and a[end_a - 1] == b[end_b - 1]:
        end_a -= 1
        end_b -= 1
        pairs.append((end_a, end_b))
    return pairs, Gap(start_a, end_a, start_b, end_b)


def _find_anchors_in_gap(a: Keys, b: Keys, gap: Gap) -> list[Pair]:
    anchors = find_anchors(a[gap.start_a : gap.end_a], b[gap.start_b : gap.end_b])
    return shift_pairs(anchors, gap)


def shift_pairs(pairs: list[Pair], gap: Gap) -> list[Pair]:
    """Return pairs of positions in a gap as pairs of positions in the sequences."""
    return [(gap.start_a + x, gap.start_b + y) for x, y in pairs]


def _match_repeated(a: Keys, b: Keys, gap: Gap) -> list[Pair]:
    """Match a gap in which every common key repeats; keys of only one side are skipped."""
    # Keys of one side only would use up the edits of every search without ever matching.
    keys_a = set(a[gap.start_a : gap.end_a])
    keys_b = set(b[gap.start_b : gap.end_b])
    positions_a = [position for position in gap.range_a if a[position] in keys_b]
    positions_b = [position for position in gap.range_b if b[position] in keys_a]
    common_a = [a[position] for position in positions_a]
    common_b = [b[position] for position in positions_b]
    pairs: list[Pair] = []
    x = 0
    y = 0
    while x < len(common_a) and y < len(common_b):
        matched, x, y = _search_edits(common_a, common_b, x, y)
        for index_a, index_b in matched:
            pairs.append((positions_a[index_a], positions_b[index_b]))
    return pairs


def _search_edits(a: Keys, b: Keys, x0: int, y0: int) -> tuple[list[Pair], int, int]:
    """Search with Myers' algorithm from a position until the edits are used up.

    Return the equal pairs and the position that was reached. The names are those of the paper:
    `ends` has the furthest x on each diagonal k.
    """
    ends = {1: x0}
    trace: list[dict[int, int]] = []
    shift = x0 - y0
    for edits in range(_MAX_EDITS + 1):
        trace.append(dict(ends))
        for k in range(-edits, edits + 1, 2):
            if _comes_from_above(ends, k, edits):
                x = ends[k + 1]
            else:
                x = ends[k - 1] + 1
            y = x - k - shift
            while x < len(a) and y < len(b) and a[x] == b[y]:
                x += 1
                y += 1
            ends[k] = x
            if x >= len(a) and y >= len(b):
                pairs = _trace_back(trace, k, x, shift, x0)
                return pairs, len(a), len(b)
    # Too many edits: settle for the path that got furthest. The caller goes on from its end, which
    # is less than optimal, but linear.
    k = _find_furthest_diagonal(ends, len(a), len(b), shift)
    x = ends[k]
    pairs = _trace_back(trace, k, x, shift, x0)
    return pairs, x, x - k - shift


def _find_furthest_diagonal(ends: dict[int, int], size_a: int, size_b: int, shift: int) -> int:
    """Return the diagonal on which a search got furthest; the middle one where several did."""
    candidates: list[tuple[int, int, int]] = []
    for k, x in ends.items():
        y = x - k - shift
        # A round computes every other diagonal; the others still hold the round before.
        is_last_round = (k + _MAX_EDITS) % 2 == 0
        if is_last_round and x <= size_a and y <= size_b:
            progress = 2 * x - k
            candidates.append((progress, -abs(k), k))
    return max(candidates)[2]


def _comes_from_above(ends: dict[int, int], k: int, edits: int) -> bool:
    """Return whether the best path to a diagonal inserts a key of b."""
    if k == -edits:
        return True
    return k != edits and ends.get(k - 1, -1) < ends.get(k + 1, -1)


def _trace_back(trace: list[dict[int, int]], k: int, x: int, shift: int, x0: int) -> list[Pair]:
    """Return the equal pairs on the path to an end point."""
    pairs: list[Pair] = []
    for edits in range(len(trace) - 1, -1, -1):
        ends = trace[edits]
        previous_k = k
        start = x0
        if edits and _comes_from_above(ends, k, edits):
            previous_k = k + 1
            start = ends[previous_k]
        elif edits:
            previous_k = k - 1
            start = ends[previous_k] + 1
        while x > start:
            x -= 1
            pairs.append((x, x - k - shift))
        if edits:
            x = ends[previous_k]
            k = previous_k
    pairs.reverse()
    return pairs
