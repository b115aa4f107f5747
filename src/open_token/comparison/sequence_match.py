"""Common subsequence of two sequences of keys, in about linear time on any input.

Keys that are unique on both sides are anchors (patience); the rest is matched by a bounded Myers
search.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Sequence

Pair = tuple[int, int]
Keys = Sequence[Hashable]
Gap = tuple[int, int, int, int]
"""Start and end in the first sequence, start and end in the second."""

_MAX_DEPTH = 12
"""Nesting of gaps; a hostile sequence could have as many as it has keys."""
_MAX_EDITS = 48
"""Edits of one search, whose cost is their square."""


def match_sequences(a: Keys, b: Keys) -> list[Pair]:
    """Return the positions of equal keys, increasing in both sequences."""
    pairs: list[Pair] = []
    gaps: list[tuple[Gap, int]] = [((0, len(a), 0, len(b)), 0)]
    while gaps:
        gap, depth = gaps.pop()
        left, right, gap = _trim_equal_ends(a, b, gap)
        pairs += left
        pairs += right
        if gap[0] == gap[1] or gap[2] == gap[3]:
            continue
        anchors = _find_anchors(a, b, gap) if depth < _MAX_DEPTH else []
        if anchors:
            pairs += anchors
            gaps += [(between, depth + 1) for between in find_gaps(anchors, gap)]
        else:
            pairs += _match_repeated(a, b, gap)
    pairs.sort()
    return pairs


def find_gaps(pairs: Sequence[Pair], gap: Gap) -> list[Gap]:
    """Return the non-empty gaps between increasing pairs."""
    gaps: list[Gap] = []
    start_a, end_a, start_b, end_b = gap
    for index_a, index_b in [*pairs, (end_a, end_b)]:
        if index_a > start_a or index_b > start_b:
            gaps.append((start_a, index_a, start_b, index_b))
        start_a = index_a + 1
        start_b = index_b + 1
    return gaps


def _trim_equal_ends(a: Keys, b: Keys, gap: Gap) -> tuple[list[Pair], list[Pair], Gap]:
    """Return the equal pairs at both ends, and the gap that is left."""
    start_a, end_a, start_b, end_b = gap
    left: list[Pair] = []
    while start_a < end_a and start_b < end_b and a[start_a] == b[start_b]:
        left.append((start_a, start_b))
        start_a += 1
        start_b += 1
    right: list[Pair] = []
    while start_a < end_a and start_b < end_b and a[end_a - 1] == b[end_b - 1]:
        end_a -= 1
        end_b -= 1
        right.append((end_a, end_b))
    return left, right, (start_a, end_a, start_b, end_b)


def _find_anchors(a: Keys, b: Keys, gap: Gap) -> list[Pair]:
    """Return keys that are unique on both sides, the longest increasing run of them."""
    counts_a = Counter(a[gap[0] : gap[1]])
    counts_b = Counter(b[gap[2] : gap[3]])
    positions = {b[j]: j for j in range(gap[2], gap[3]) if counts_b[b[j]] == 1}
    candidates = [
        (i, positions[a[i]])
        for i in range(gap[0], gap[1])
        if a[i] in positions and counts_a[a[i]] == 1
    ]
    # Patience sorting: each pile ends with its smallest position in b.
    tops: list[int] = []
    last_on_pile: list[int] = []
    predecessors: list[int] = []
    for index, (_, j) in enumerate(candidates):
        pile = bisect_left(tops, j)
        tops[pile : pile + 1] = [j]
        last_on_pile[pile : pile + 1] = [index]
        predecessors.append(last_on_pile[pile - 1] if pile else -1)
    anchors: list[Pair] = []
    index = last_on_pile[-1] if last_on_pile else -1
    while index >= 0:
        anchors.append(candidates[index])
        index = predecessors[index]
    anchors.reverse()
    return anchors


def _match_repeated(a: Keys, b: Keys, gap: Gap) -> list[Pair]:
    """Match a gap in which every common key repeats; keys of only one side are skipped."""
    keys_a = set(a[gap[0] : gap[1]])
    keys_b = set(b[gap[2] : gap[3]])
    common_a = [i for i in range(gap[0], gap[1]) if a[i] in keys_b]
    common_b = [j for j in range(gap[2], gap[3]) if b[j] in keys_a]
    sequence_a = [a[i] for i in common_a]
    sequence_b = [b[j] for j in common_b]
    pairs: list[Pair] = []
    x = 0
    y = 0
    while x < len(sequence_a) and y < len(sequence_b):
        matched, x, y = _search_edits(sequence_a, sequence_b, x, y)
        pairs += matched
    return [(common_a[i], common_b[j]) for i, j in pairs]


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
            x = ends[k + 1] if _comes_from_above(ends, k, edits) else ends[k - 1] + 1
            y = x - k - shift
            while x < len(a) and y < len(b) and a[x] == b[y]:
                x += 1
                y += 1
            ends[k] = x
            if x >= len(a) and y >= len(b):
                return _trace_back(trace, k, x, shift, x0), len(a), len(b)
    # Continue from the diagonal that got furthest; the middle one where several did.
    candidates: list[tuple[int, int, int]] = []
    for k, x in ends.items():
        is_last_round = (k + _MAX_EDITS) % 2 == 0
        if is_last_round and x <= len(a) and x - k - shift <= len(b):
            candidates.append((2 * x - k, -abs(k), k))
    k = max(candidates)[2]
    x = ends[k]
    return _trace_back(trace, k, x, shift, x0), x, x - k - shift


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
