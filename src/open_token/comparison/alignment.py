"""Alignment of steps: equal ones first, then the most similar of those between them."""

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

from open_token.comparison.sequence_match import Gap, Pair, find_gaps, match_sequences
from open_token.comparison.steps import Step, get_content

_MAX_TABLE_CELLS = 1600
"""Cells of one similarity table; larger gaps are first split by coarse keys."""
_MAX_TOTAL_CELLS = 150_000
"""Cells of all tables, so that sessions with nothing in common do not take longer."""
_MAX_TEXT = 2000
_MIN_SIMILARITY = 0.05
_MAX_PARTNERS = 8
"""Batches of one session that are searched for the calls of a batch of the other."""
_WORD = re.compile(r"\w+")

KeyFunction = Callable[[Step], Hashable]
KEY_FUNCTIONS: tuple[KeyFunction, ...] = (
    lambda step: step.key,
    lambda step: (step.kind, step.role, step.call_key if step.kind == "call" else step.key),
    lambda step: (step.kind, step.role, step.action.name, step.action.target or step.key),
    lambda step: (step.kind, step.role, step.action.name),
)
"""Keys that make two steps a pair, from the strictest to the loosest."""


def align_steps(a: Sequence[Step], b: Sequence[Step]) -> tuple[list[Pair], list[Pair]]:
    """Return the pairs in order, and the pairs of parallel calls in another order.

    The result does not depend on which session is first.
    """
    if [step.key for step in a] <= [step.key for step in b]:
        aligner = _Aligner(a, b)
        aligner.align()
        return aligner.pairs, aligner.moved
    aligner = _Aligner(b, a)
    aligner.align()
    return _swap(aligner.pairs), _swap(aligner.moved)


def _swap(pairs: list[Pair]) -> list[Pair]:
    return sorted((second, first) for first, second in pairs)


class _Aligner:
    """Finds the pairs of two sequences of steps: indexes into `a` and `b`."""

    def __init__(self, a: Sequence[Step], b: Sequence[Step]) -> None:
        self._a = a
        self._b = b
        self._cells_left = _MAX_TOTAL_CELLS
        self._words: dict[int, frozenset[str]] = {}
        self._moved_a: set[int] = set()
        self._moved_b: set[int] = set()
        self.pairs: list[Pair] = []
        self.moved: list[Pair] = []

    def align(self) -> None:
        units_a = _group_batches(self._a)
        units_b = _group_batches(self._b)
        keys_a = [key for key, _ in units_a]
        keys_b = [key for key, _ in units_b]
        matches = match_sequences(keys_a, keys_b)
        for unit_a, unit_b in matches:
            self._pair_batches(units_a[unit_a][1], units_b[unit_b][1])
        for gap in find_gaps(matches, (0, len(units_a), 0, len(units_b))):
            range_a = _find_range(units_a, gap[0], gap[1], len(self._a))
            range_b = _find_range(units_b, gap[2], gap[3], len(self._b))
            self._align_gap((*range_a, *range_b))
        self.pairs.sort()
        self.moved.sort()

    def _pair_batches(self, range_a: range, range_b: range) -> None:
        """Pair the calls of two batches that are equal in any order."""
        pairs = list(zip(range_a, range_b, strict=True))
        if all(self._a[i].key == self._b[j].key for i, j in pairs):
            self.pairs += pairs
        else:
            self._pair_reordered(range_a, range_b, self._match_equal(range_a, range_b))

    def _match_equal(self, range_a: range, range_b: range) -> list[Pair]:
        keys_a = [self._a[i].key for i in range_a]
        keys_b = [self._b[j].key for j in range_b]
        return [(range_a[x], range_b[y]) for x, y in match_sequences(keys_a, keys_b)]

    def _align_gap(self, gap: Gap) -> None:
        """Pair equal steps, then reordered calls of a batch, then similar steps."""
        range_a = range(gap[0], gap[1])
        range_b = range(gap[2], gap[3])
        pairs = self._match_equal(range_a, range_b)
        left_a, left_b = self._find_unpaired_calls(range_a, range_b, pairs)
        moved = self._match_across_batches(left_a, left_b, pairs, KEY_FUNCTIONS[0])
        self.moved += moved
        self._moved_a.update(i for i, _ in moved)
        self._moved_b.update(j for _, j in moved)
        similar: list[Pair] = []
        for inner in find_gaps(pairs, gap):
            similar += self._match_similar(inner, 1)
        pairs += similar
        pairs.sort()
        self._pair_reordered(range_a, range_b, pairs)

    def _match_similar(self, gap: Gap, level: int) -> Iterator[Pair]:
        """Yield the pairs of a gap: by a similarity table, or by looser and looser keys."""
        size = (gap[1] - gap[0]) * (gap[3] - gap[2])
        if not size:
            return
        if size <= _MAX_TABLE_CELLS and size <= self._cells_left:
            self._cells_left -= size
            yield from self._match_by_table(gap)
            return
        if level == len(KEY_FUNCTIONS):
            return
        get_key = KEY_FUNCTIONS[level]
        # A step that is paired already gets a key that nothing else has.
        keys_a = [
            -i - 1 if i in self._moved_a else get_key(self._a[i]) for i in range(gap[0], gap[1])
        ]
        keys_b = [
            j + 1 if j in self._moved_b else get_key(self._b[j]) for j in range(gap[2], gap[3])
        ]
        pairs = [(gap[0] + x, gap[2] + y) for x, y in match_sequences(keys_a, keys_b)]
        yield from pairs
        for inner in find_gaps(pairs, gap):
            yield from self._match_similar(inner, level + 1)

    def _match_by_table(self, gap: Gap) -> list[Pair]:
        """Return the pairs with the largest sum of similarities (Needleman-Wunsch)."""
        range_a = range(gap[0], gap[1])
        range_b = range(gap[2], gap[3])
        scores = [[self._score(i, j) for j in range_b] for i in range_a]
        best = [[0.0] * (len(range_b) + 1) for _ in range(len(range_a) + 1)]
        for x in range(len(range_a) - 1, -1, -1):
            for y in range(len(range_b) - 1, -1, -1):
                best[x][y] = max(best[x + 1][y], best[x][y + 1], best[x + 1][y + 1] + scores[x][y])
        pairs: list[Pair] = []
        x = 0
        y = 0
        while x < len(range_a) and y < len(range_b):
            score = scores[x][y]
            is_best = best[x][y] <= best[x + 1][y + 1] + score + 1e-9
            if score > _MIN_SIMILARITY and is_best:
                pairs.append((range_a[x], range_b[y]))
                x += 1
                y += 1
            elif best[x + 1][y] >= best[x][y + 1]:
                x += 1
            else:
                y += 1
        return pairs

    def _score(self, i: int, j: int) -> float:
        if i in self._moved_a or j in self._moved_b:
            return 0.0
        return self._measure_similarity(self._a[i], self._b[j])

    def _measure_similarity(self, a: Step, b: Step) -> float:
        """Return 0 for steps that cannot be a pair, 1 for equal ones."""
        if a.kind != b.kind or a.role != b.role:
            return 0.0
        if a.key == b.key:
            return 1.0
        if a.kind == "call" and a.call_key == b.call_key:
            return 0.95
        words_a = self._get_words(a)
        words_b = self._get_words(b)
        common = len(words_a & words_b)
        overlap = common / max(1, len(words_a) + len(words_b) - common)
        if a.kind != "call":
            return 0.3 + 0.6 * overlap
        has_same_target = bool(a.action.target) and a.action.target == b.action.target
        if a.action.name == b.action.name or a.tool == b.tool:
            return 0.3 + 0.3 * has_same_target + 0.3 * overlap
        return 0.25 + 0.2 * overlap if has_same_target else 0.0

    def _get_words(self, step: Step) -> frozenset[str]:
        words = self._words.get(id(step))
        if words is None:
            value = step.arguments if step.kind == "call" else get_content(step.event)
            text = value if isinstance(value, str) else str(value)
            words = frozenset(_WORD.findall(text[:_MAX_TEXT]))
            self._words[id(step)] = words
        return words

    def _pair_reordered(self, range_a: range, range_b: range, pairs: list[Pair]) -> None:
        """Add pairs; also pair what is left of their batches, and the first calls of each gap."""
        left_a, left_b = self._find_unpaired_calls(range_a, range_b, pairs)
        for get_key in (*KEY_FUNCTIONS, _get_kind):
            if not left_a or not left_b:
                break
            moved = self._match_across_batches(left_a, left_b, pairs, get_key)
            left_a, left_b = self._find_unpaired_calls(left_a, left_b, moved)
            self.moved += moved
        self.pairs += pairs
        unpaired_a = set(left_a)
        unpaired_b = set(left_b)
        gap = (range_a.start, range_a.stop, range_b.start, range_b.stop)
        for inner in find_gaps(pairs, gap):
            pair = self._find_first_calls(inner)
            if pair is not None and pair[0] in unpaired_a and pair[1] in unpaired_b:
                self.pairs.append(pair)

    def _find_unpaired_calls(
        self, a: Iterable[int], b: Iterable[int], pairs: list[Pair]
    ) -> tuple[list[int], list[int]]:
        """Return the calls of batches that have no partner yet."""
        paired_a = {i for i, _ in pairs} | self._moved_a
        paired_b = {j for _, j in pairs} | self._moved_b
        left_a = [i for i in a if self._a[i].batch and i not in paired_a]
        left_b = [j for j in b if self._b[j].batch and j not in paired_b]
        return left_a, left_b

    def _match_across_batches(
        self, left_a: list[int], left_b: list[int], pairs: list[Pair], get_key: KeyFunction
    ) -> list[Pair]:
        """Pair calls with equal keys in batches of which other calls are pairs."""
        partners: dict[int, dict[int, None]] = defaultdict(dict)
        for i, j in pairs:
            if len(partners[self._a[i].batch]) < _MAX_PARTNERS:
                partners[self._a[i].batch][self._b[j].batch] = None
        candidates: dict[tuple[int, Hashable], list[int]] = defaultdict(list)
        for j in reversed(left_b):
            candidates[self._b[j].batch, get_key(self._b[j])].append(j)
        matched: list[Pair] = []
        for i in left_a:
            key = get_key(self._a[i])
            for batch in partners[self._a[i].batch]:
                if candidates[batch, key]:
                    matched.append((i, candidates[batch, key].pop()))
                    break
        return matched

    def _find_first_calls(self, gap: Gap) -> Pair | None:
        """Return the first steps of a gap that are not messages: where the sessions diverge."""
        first_a = next((i for i in range(gap[0], gap[1]) if self._a[i].kind != "message"), None)
        first_b = next((j for j in range(gap[2], gap[3]) if self._b[j].kind != "message"), None)
        if first_a is None or first_b is None:
            return None
        return first_a, first_b


def _get_kind(step: Step) -> Hashable:
    return step.kind


def _group_batches(steps: Sequence[Step]) -> list[tuple[Hashable, range]]:
    """Return steps with their keys, parallel calls as one unit whose key ignores their order."""
    units: list[tuple[Hashable, range]] = []
    start = 0
    while start < len(steps):
        end = start + 1
        batch = steps[start].batch
        while batch and end < len(steps) and steps[end].batch == batch:
            end += 1
        key: Hashable = steps[start].key
        if end > start + 1:
            key = tuple(sorted(step.key for step in steps[start:end]))
        units.append((key, range(start, end)))
        start = end
    return units


def _find_range(
    units: list[tuple[Hashable, range]], begin: int, end: int, length: int
) -> tuple[int, int]:
    """Return the range of steps that a range of units covers."""
    start = units[begin][1].start if begin < len(units) else length
    stop = units[end - 1][1].stop if end > begin else start
    return start, stop
