"""Which step of one run is which step of another: equal ones first, then the likest of those
between them."""

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

from open_token.comparing.chain import Gap, Pair, chain, gaps_of
from open_token.comparing.steps import Step, said

_SMALL = 1600
"""Cells of a table of likeness; larger gaps are first cut by what is alike at a glance."""
_CELLS = 150_000
"""Cells in all: runs that have nothing in common must not take longer than others."""
_HEARD = 2000
"""Characters of a text that tell whether two texts are alike."""
_WORD = re.compile(r"\w+")
_LEAST = 0.05

_PARTNERS = 8
"""Batches of the one run among which the calls of a batch of the other are looked for."""

Glance = Callable[[Step], Hashable]
LEVELS: tuple[Glance, ...] = (
    lambda step: step.key,
    lambda step: (step.kind, step.role, step.call_key if step.kind == "call" else step.key),
    lambda step: (step.kind, step.role, step.deed.name, step.deed.target or step.key),
    lambda step: (step.kind, step.role, step.deed.name),
)
"""What makes two steps the same at a glance, from the narrowest to the widest."""


class Alignment:
    """The pairs of two runs: those that rise in both, and calls of one batch that were made in
    another order."""

    def __init__(self, a: Sequence[Step], b: Sequence[Step]) -> None:
        self._a, self._b = a, b
        self._cells = _CELLS
        self._words: dict[int, frozenset[str]] = {}
        self._gone_a: set[int] = set()
        self._gone_b: set[int] = set()
        self.pairs: list[Pair] = []
        self.moved: list[Pair] = []

    def find(self) -> None:
        """Find all pairs."""
        units_a, units_b = _units(self._a), _units(self._b)
        keys_a, keys_b = ([key for key, _ in units] for units in (units_a, units_b))
        same = chain(keys_a, keys_b)
        for x, y in same:
            self._take_unit(units_a[x][1], units_b[y][1])
        for gap in gaps_of(same, (0, len(units_a), 0, len(units_b))):
            self._settle(
                _span(units_a, gap[0], gap[1], len(self._a))
                + _span(units_b, gap[2], gap[3], len(self._b))
            )
        self.pairs.sort()
        self.moved.sort()

    def _take_unit(self, places_a: range, places_b: range) -> None:
        """Calls that were made side by side, in whatever order."""
        if all(self._a[i].key == self._b[j].key for i, j in zip(places_a, places_b, strict=True)):
            self.pairs += zip(places_a, places_b, strict=True)
            return
        self._reunite(places_a, places_b, self._in_order(places_a, places_b))

    def _in_order(self, places_a: range, places_b: range) -> list[Pair]:
        found = chain([self._a[i].key for i in places_a], [self._b[j].key for j in places_b])
        return [(places_a[x], places_b[y]) for x, y in found]

    def _settle(self, gap: Gap) -> None:
        """Pairs where the runs differ: equal steps, then those of a batch in another order, then
        like ones."""
        places_a, places_b = range(gap[0], gap[1]), range(gap[2], gap[3])
        found = self._in_order(places_a, places_b)
        across = self._across(*self._left(places_a, places_b, found), found, LEVELS[0])
        self.moved += across
        self._gone_a.update(i for i, _ in across)
        self._gone_b.update(j for _, j in across)
        found += [pair for between in gaps_of(found, gap) for pair in self._paired(between, 1)]
        found.sort()
        self._reunite(places_a, places_b, found)

    def _paired(self, gap: Gap, level: int) -> Iterator[Pair]:
        """The pairs of a gap: by a table of likeness where it is small, else by one glance after
        another."""
        size = (gap[1] - gap[0]) * (gap[3] - gap[2])
        if not size:
            return
        if size <= _SMALL and size <= self._cells:
            self._cells -= size
            yield from self._likest(gap)
        elif level < len(LEVELS):
            glance = LEVELS[level]
            keys_a = [
                -i - 1 if i in self._gone_a else glance(self._a[i]) for i in range(gap[0], gap[1])
            ]
            keys_b = [
                j + 1 if j in self._gone_b else glance(self._b[j]) for j in range(gap[2], gap[3])
            ]
            found = [(gap[0] + x, gap[2] + y) for x, y in chain(keys_a, keys_b)]
            yield from found
            for between in gaps_of(found, gap):
                yield from self._paired(between, level + 1)

    def _likest(self, gap: Gap) -> list[Pair]:
        """The rising pairs that are alike the most, all taken together (Needleman and Wunsch)."""
        a, b = range(gap[0], gap[1]), range(gap[2], gap[3])
        scores = [[self._score(i, j) for j in b] for i in a]
        best = [[0.0] * (len(b) + 1) for _ in range(len(a) + 1)]
        for x in range(len(a) - 1, -1, -1):
            for y in range(len(b) - 1, -1, -1):
                best[x][y] = max(best[x + 1][y], best[x][y + 1], best[x + 1][y + 1] + scores[x][y])
        pairs: list[Pair] = []
        x = y = 0
        while x < len(a) and y < len(b):
            if scores[x][y] > _LEAST and best[x][y] <= best[x + 1][y + 1] + scores[x][y] + 1e-9:
                pairs.append((a[x], b[y]))
                x, y = x + 1, y + 1
            elif best[x + 1][y] >= best[x][y + 1]:
                x += 1
            else:
                y += 1
        return pairs

    def _score(self, i: int, j: int) -> float:
        if i in self._gone_a or j in self._gone_b:
            return 0.0
        return self._likeness(self._a[i], self._b[j])

    def _likeness(self, one: Step, other: Step) -> float:
        """0 for what cannot be the same step, 1 for what is."""
        if one.kind != other.kind or one.role != other.role:
            return 0.0
        if one.key == other.key:
            return 1.0
        words = self._words_of(one), self._words_of(other)
        both = len(words[0] & words[1])
        shared = both / max(1, len(words[0]) + len(words[1]) - both)
        if one.kind != "call":
            return 0.3 + 0.6 * shared
        if one.call_key == other.call_key:
            return 0.95
        near = bool(one.deed.target) and one.deed.target == other.deed.target
        if one.deed.name == other.deed.name or one.tool == other.tool:
            return 0.3 + 0.3 * near + 0.3 * shared
        return 0.25 + 0.2 * shared if near else 0.0

    def _words_of(self, step: Step) -> frozenset[str]:
        known = self._words.get(id(step))
        if known is None:
            value = step.arguments if step.kind == "call" else said(step.event)
            text = value if isinstance(value, str) else str(value)
            known = self._words[id(step)] = frozenset(_WORD.findall(text[:_HEARD]))
        return known

    def _reunite(self, places_a: range, places_b: range, found: list[Pair]) -> None:
        """Pair what is left of batches that belong together, and then the calls with which each gap
        begins."""
        left_a, left_b = self._left(places_a, places_b, found)
        moved: list[Pair] = []
        for glance in (*LEVELS, _any) if left_a and left_b else ():
            across = self._across(left_a, left_b, found, glance)
            left_a, left_b = self._left(left_a, left_b, across)
            moved += across
        self.moved += moved
        waiting = set(left_a), set(left_b)
        gap = places_a.start, places_a.stop, places_b.start, places_b.stop
        self.pairs += found
        self.pairs += [
            pair
            for between in gaps_of(found, gap)
            if (pair := self._first_calls(between, *waiting))
        ]

    def _left(
        self, a: Iterable[int], b: Iterable[int], found: list[Pair]
    ) -> tuple[list[int], list[int]]:
        """The calls of batches that have no partner yet."""
        done_a, done_b = {i for i, _ in found}, {j for _, j in found}
        left_a = [i for i in a if self._a[i].batch and i not in done_a and i not in self._gone_a]
        left_b = [j for j in b if self._b[j].batch and j not in done_b and j not in self._gone_b]
        return left_a, left_b

    def _across(
        self, left_a: list[int], left_b: list[int], found: list[Pair], glance: Glance
    ) -> list[Pair]:
        """Calls that are the same at a glance, of two batches of which other calls are pairs."""
        partners: dict[int, dict[int, None]] = defaultdict(dict)
        for i, j in found:
            if len(partners[self._a[i].batch]) < _PARTNERS:
                partners[self._a[i].batch][self._b[j].batch] = None
        waiting: dict[tuple[int, Hashable], list[int]] = defaultdict(list)
        for j in reversed(left_b):
            waiting[self._b[j].batch, glance(self._b[j])].append(j)
        pairs: list[Pair] = []
        for i in left_a:
            seen = glance(self._a[i])
            there = (
                waiting[other, seen] for other in partners[self._a[i].batch] if waiting[other, seen]
            )
            if places := next(there, None):
                pairs.append((i, places.pop()))
        return pairs

    def _first_calls(self, gap: Gap, left_a: set[int], left_b: set[int]) -> Pair | None:
        """The two calls where the ways part, however unlike they are: only words may stand before
        them."""
        i = next((i for i in range(gap[0], gap[1]) if self._a[i].kind != "message"), None)
        j = next((j for j in range(gap[2], gap[3]) if self._b[j].kind != "message"), None)
        return (i, j) if i is not None and j is not None and i in left_a and j in left_b else None


def _any(step: Step) -> Hashable:
    return step.kind


def _units(steps: Sequence[Step]) -> list[tuple[Hashable, range]]:
    """Steps, those of one batch together: the order of calls that are made side by side does not
    count."""
    made: list[tuple[Hashable, range]] = []
    i = 0
    while i < len(steps):
        end = i + 1
        batch = steps[i].batch
        while batch and end < len(steps) and steps[end].batch == batch:
            end += 1
        key: Hashable = (
            steps[i].key if end == i + 1 else tuple(sorted(step.key for step in steps[i:end]))
        )
        made.append((key, range(i, end)))
        i = end
    return made


def _span(
    units: list[tuple[Hashable, range]], begin: int, end: int, length: int
) -> tuple[int, int]:
    start = units[begin][1].start if begin < len(units) else length
    return (start, units[end - 1][1].stop) if end > begin else (start, start)


def aligned(a: Sequence[Step], b: Sequence[Step]) -> tuple[list[Pair], list[Pair]]:
    """The pairs, and those of calls that were made side by side in another order; the same
    whichever run is first."""
    swapped = [step.key for step in a] > [step.key for step in b]
    found = Alignment(b, a) if swapped else Alignment(a, b)
    found.find()
    if swapped:
        return sorted((j, i) for i, j in found.pairs), sorted((j, i) for i, j in found.moved)
    return found.pairs, found.moved
