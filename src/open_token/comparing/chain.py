"""The longest way that two sequences of keys go together, found in about linear time whatever they
hold."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Sequence

Pair = tuple[int, int]
Keys = Sequence[Hashable]
Gap = tuple[int, int, int, int]
"""From and to in the one sequence, from and to in the other."""

_DEEPEST = 12
"""Gaps within gaps; a hostile sequence could be cut into as many as it has keys."""
_EDITS = 48
"""Edits that are searched at once: the cost of a search is their square."""


def chain(a: Keys, b: Keys) -> list[Pair]:
    """Places with equal keys, rising in both: keys that stand once in each lead, what is between
    them follows."""
    pairs: list[Pair] = []
    gaps: list[tuple[Gap, int]] = [((0, len(a), 0, len(b)), 0)]
    while gaps:
        gap, depth = gaps.pop()
        left, right, gap = _trimmed(a, b, gap)
        pairs += left
        pairs += right
        if gap[0] == gap[1] or gap[2] == gap[3]:
            continue
        anchors = _anchors(a, b, gap) if depth < _DEEPEST else []
        if anchors:
            pairs += anchors
            gaps += [(between, depth + 1) for between in gaps_of(anchors, gap)]
        else:
            pairs += _rest(a, b, gap)
    pairs.sort()
    return pairs


def gaps_of(pairs: Sequence[Pair], gap: Gap) -> list[Gap]:
    """What is left of a gap between rising pairs, where something is left."""
    made: list[Gap] = []
    i, end_a, j, end_b = gap
    for x, y in [*pairs, (end_a, end_b)]:
        if x > i or y > j:
            made.append((i, x, j, y))
        i, j = x + 1, y + 1
    return made


def _trimmed(a: Keys, b: Keys, gap: Gap) -> tuple[list[Pair], list[Pair], Gap]:
    """What is equal at both ends, and the gap that is left."""
    i, end_a, j, end_b = gap
    left: list[Pair] = []
    while i < end_a and j < end_b and a[i] == b[j]:
        left.append((i, j))
        i, j = i + 1, j + 1
    right: list[Pair] = []
    while i < end_a and j < end_b and a[end_a - 1] == b[end_b - 1]:
        end_a, end_b = end_a - 1, end_b - 1
        right.append((end_a, end_b))
    return left, right, (i, end_a, j, end_b)


def _anchors(a: Keys, b: Keys, gap: Gap) -> list[Pair]:
    """Keys that stand once on either side, as many as rise together (patience sorting)."""
    counts_a, counts_b = Counter(a[gap[0] : gap[1]]), Counter(b[gap[2] : gap[3]])
    places = {key: j for j in range(gap[2], gap[3]) if counts_b[key := b[j]] == 1}
    twins = [
        (i, places[a[i]]) for i in range(gap[0], gap[1]) if a[i] in places and counts_a[a[i]] == 1
    ]
    tops: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for place, (_, j) in enumerate(twins):
        pile = bisect_left(tops, j)
        tops[pile : pile + 1] = [j]
        ends[pile : pile + 1] = [place]
        before.append(ends[pile - 1] if pile else -1)
    way: list[Pair] = []
    place = ends[-1] if ends else -1
    while place >= 0:
        way.append(twins[place])
        place = before[place]
    return way[::-1]


def _rest(a: Keys, b: Keys, gap: Gap) -> list[Pair]:
    """A gap in which every common key repeats: only those that both sides have are searched."""
    known_a, known_b = set(a[gap[0] : gap[1]]), set(b[gap[2] : gap[3]])
    in_a = [i for i in range(gap[0], gap[1]) if a[i] in known_b]
    in_b = [j for j in range(gap[2], gap[3]) if b[j] in known_a]
    few_a, few_b = [a[i] for i in in_a], [b[j] for j in in_b]
    pairs: list[Pair] = []
    x = y = 0
    while x < len(few_a) and y < len(few_b):
        found, x, y = _stretch(few_a, few_b, x, y)
        pairs += found
    return [(in_a[i], in_b[j]) for i, j in pairs]


def _stretch(a: Keys, b: Keys, x0: int, y0: int) -> tuple[list[Pair], int, int]:
    """Myers' search from one place on, as far as a number of edits leads; gives where it came
    to."""
    ends = {1: x0}
    trace: list[dict[int, int]] = []
    shift = x0 - y0
    for edits in range(_EDITS + 1):
        trace.append(dict(ends))
        for k in range(-edits, edits + 1, 2):
            down = k == -edits or (k != edits and ends.get(k - 1, -1) < ends.get(k + 1, -1))
            x = ends[k + 1] if down else ends[k - 1] + 1
            y = x - k - shift
            while x < len(a) and y < len(b) and a[x] == b[y]:
                x, y = x + 1, y + 1
            ends[k] = x
            if x >= len(a) and y >= len(b):
                return _way_back(trace, k, x, shift, x0), len(a), len(b)
    inside = {
        k: x
        for k, x in ends.items()
        if x <= len(a) and x - k - shift <= len(b) and (k + _EDITS) % 2 == 0
    }
    k, x = max(inside.items(), key=lambda item: (2 * item[1] - item[0], -abs(item[0]), item[0]))
    return _way_back(trace, k, x, shift, x0), x, x - k - shift


def _way_back(trace: list[dict[int, int]], k: int, x: int, shift: int, x0: int) -> list[Pair]:
    """The equal places on the way that led to a place."""
    pairs: list[Pair] = []
    for edits in range(len(trace) - 1, -1, -1):
        ends = trace[edits]
        if edits == 0:
            start = x0
        else:
            down = k == -edits or (k != edits and ends.get(k - 1, -1) < ends.get(k + 1, -1))
            last = k + 1 if down else k - 1
            start = ends[last] if down else ends[last] + 1
        while x > start:
            x -= 1
            pairs.append((x, x - k - shift))
        if edits:
            x, k = ends[last], last
    return pairs[::-1]
