"""Alignment of steps: equal ones first, then the most similar of those between them."""

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple

from open_token.comparison.sequence_match import Gap, find_gaps, match_sequences, shift_pairs
from open_token.comparison.steps import Step
from open_token.jsontools.anchors import Pair
from open_token.jsontools.objects import get_content

_MAX_TABLE_CELLS = 1600
"""Cells of one similarity table; larger gaps are first split by coarse keys."""
_MAX_TOTAL_CELLS = 150_000
"""Cells of all tables, so that sessions with nothing in common do not take longer."""
_MAX_TEXT = 2000
_MIN_SIMILARITY = 0.05
_ROUNDING = 1e-9
"""Sums of the same similarities in another order differ by less than this."""
_MAX_PARTNERS = 8
"""Batches of one session that are searched for the calls of a batch of the other."""
_WORD = re.compile(r"\w+")


def _get_key(step: Step) -> Hashable:
    return step.key


def _get_call_key(step: Step) -> Hashable:
    """Return the key of a call whatever its result was."""
    if step.kind == "call":
        return step.kind, step.role, step.call_key
    return step.kind, step.role, step.key


def _get_target_key(step: Step) -> Hashable:
    """Return the key of an action on a target, whatever its arguments were."""
    target: Hashable = step.action.target or step.key
    return step.kind, step.role, step.action.name, target


def _get_action_key(step: Step) -> Hashable:
    return step.kind, step.role, step.action.name


def _get_kind(step: Step) -> Hashable:
    return step.kind


KeyFunction = Callable[[Step], Hashable]
KEY_FUNCTIONS: tuple[KeyFunction, ...] = (
    _get_key,
    _get_call_key,
    _get_target_key,
    _get_action_key,
)
"""Keys that make two steps a pair, from the strictest to the loosest."""


class _Unit(NamedTuple):
    """A step, or a batch of parallel calls, whose key does not depend on their order."""

    key: Hashable
    steps: range


def align_steps(a: Sequence[Step], b: Sequence[Step]) -> tuple[list[Pair], list[Pair]]:
    """Return the pairs in order, and the pairs of parallel calls in another order.

    The result does not depend on which session is first.
    """
    # Where several alignments are equally good, the aligner prefers one side. Which side that is
    # follows from the content.
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
        """Fill `pairs` and `moved`."""
        # Units first: parallel calls are the same step in whatever order they were made.
        units_a = _group_batches(self._a)
        units_b = _group_batches(self._b)
        keys_a = [unit.key for unit in units_a]
        keys_b = [unit.key for unit in units_b]
        matches = match_sequences(keys_a, keys_b)
        for index_a, index_b in matches:
            self._pair_batches(units_a[index_a].steps, units_b[index_b].steps)
        for gap in find_gaps(matches, Gap(0, len(units_a), 0, len(units_b))):
            start_a, end_a = _find_steps(units_a, gap.range_a, len(self._a))
            start_b, end_b = _find_steps(units_b, gap.range_b, len(self._b))
            self._align_gap(Gap(start_a, end_a, start_b, end_b))
        self.pairs.sort()
        self.moved.sort()

    def _pair_batches(self, range_a: range, range_b: range) -> None:
        """Pair the calls of two batches that are equal in any order."""
        pairs = list(zip(range_a, range_b, strict=True))
        has_same_order = all(self._a[i].key == self._b[j].key for i, j in pairs)
        if has_same_order:
            self.pairs += pairs
            return
        gap = Gap(range_a.start, range_a.stop, range_b.start, range_b.stop)
        self._pair_reordered(gap, self._match_equal(gap))

    def _match_equal(self, gap: Gap) -> list[Pair]:
        """Return the pairs of equal steps in a gap."""
        keys_a = [self._a[i].key for i in gap.range_a]
        keys_b = [self._b[j].key for j in gap.range_b]
        matches = match_sequences(keys_a, keys_b)
        return shift_pairs(matches, gap)

    def _align_gap(self, gap: Gap) -> None:
        """Pair equal steps, then reordered calls of a batch, then similar steps."""
        pairs = self._match_equal(gap)
        # Before similar steps are searched: a call that another batch repeats exactly must not
        # become the partner of one that merely resembles it.
        left_a, left_b = self._find_unpaired_calls(gap.range_a, gap.range_b, pairs)
        moved = self._match_across_batches(left_a, left_b, pairs, _get_key)
        self.moved += moved
        for i, j in moved:
            self._moved_a.add(i)
            self._moved_b.add(j)
        similar: list[Pair] = []
        for inner in find_gaps(pairs, gap):
            similar += self._match_similar(inner, 1)
        pairs += similar
        pairs.sort()
        self._pair_reordered(gap, pairs)

    def _match_similar(self, gap: Gap, level: int) -> Iterator[Pair]:
        """Yield the pairs of a gap: by a similarity table, or by looser and looser keys."""
        size = len(gap.range_a) * len(gap.range_b)
        if not size:
            return
        if size <= _MAX_TABLE_CELLS and size <= self._cells_left:
            self._cells_left -= size
            yield from self._match_by_table(gap)
            return
        if level == len(KEY_FUNCTIONS):
            return
        keys_a, keys_b = self._compute_keys(gap, KEY_FUNCTIONS[level])
        pairs = shift_pairs(match_sequences(keys_a, keys_b), gap)
        yield from pairs
        for inner in find_gaps(pairs, gap):
            yield from self._match_similar(inner, level + 1)

    def _compute_keys(
        self, gap: Gap, get_key: KeyFunction
    ) -> tuple[list[Hashable], list[Hashable]]:
        """Return the keys of a gap; a step that is paired already gets one of its own."""
        keys_a: list[Hashable] = []
        for i in gap.range_a:
            if i in self._moved_a:
                keys_a.append(-i - 1)
            else:
                keys_a.append(get_key(self._a[i]))
        keys_b: list[Hashable] = []
        for j in gap.range_b:
            if j in self._moved_b:
                keys_b.append(j + 1)
            else:
                keys_b.append(get_key(self._b[j]))
        return keys_a, keys_b

    def _match_by_table(self, gap: Gap) -> list[Pair]:
        """Return the pairs with the largest sum of similarities (Needleman-Wunsch).

        `sums[x][y]` is the largest sum that the steps from x of `a` and from y of `b` can reach, so
        the best path goes from the first cell to wherever the sum does not get smaller.
        """
        scores: list[list[float]] = []
        for i in gap.range_a:
            scores.append([self._score(i, j) for j in gap.range_b])
        sums = _sum_scores(scores)

        pairs: list[Pair] = []
        x = 0
        y = 0
        while x < len(gap.range_a) and y < len(gap.range_b):
            score = scores[x][y]
            is_best = sums[x][y] <= sums[x + 1][y + 1] + score + _ROUNDING
            if score > _MIN_SIMILARITY and is_best:
                pairs.append((gap.range_a[x], gap.range_b[y]))
                x += 1
                y += 1
            elif sums[x + 1][y] >= sums[x][y + 1]:
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
        # The weights only have to order the cases: the same call with another result comes before
        # the same tool on the same target, and that before a call that merely uses the same words.
        if a.key == b.key:
            return 1.0
        if a.kind == "call" and a.call_key == b.call_key:
            return 0.95
        overlap = self._measure_overlap(a, b)
        if a.kind != "call":
            return 0.3 + 0.6 * overlap
        has_same_target = bool(a.action.target) and a.action.target == b.action.target
        if a.action.name == b.action.name or a.tool == b.tool:
            return 0.3 + 0.3 * has_same_target + 0.3 * overlap
        if has_same_target:
            return 0.25 + 0.2 * overlap
        return 0.0

    def _measure_overlap(self, a: Step, b: Step) -> float:
        """Return the share of words that two steps have in common (Jaccard index)."""
        words_a = self._get_words(a)
        words_b = self._get_words(b)
        common = len(words_a & words_b)
        total = len(words_a) + len(words_b) - common
        return common / max(1, total)

    def _get_words(self, step: Step) -> frozenset[str]:
        words = self._words.get(id(step))
        if words is not None:
            return words
        if step.kind == "call":
            value = step.arguments
        else:
            value = get_content(step.event)
        text = value if isinstance(value, str) else str(value)
        words = frozenset(_WORD.findall(text[:_MAX_TEXT]))
        self._words[id(step)] = words
        return words

    def _pair_reordered(self, gap: Gap, pairs: list[Pair]) -> None:
        """Add pairs; also pair what is left of their batches, and the first calls of each gap."""
        # From strict to loose keys, so that a call gets the most similar partner that is left.
        left_a, left_b = self._find_unpaired_calls(gap.range_a, gap.range_b, pairs)
        for get_key in (*KEY_FUNCTIONS, _get_kind):
            if not left_a or not left_b:
                break
            moved = self._match_across_batches(left_a, left_b, pairs, get_key)
            left_a, left_b = self._find_unpaired_calls(left_a, left_b, moved)
            self.moved += moved
        self.pairs += pairs

        unpaired_a = set(left_a)
        unpaired_b = set(left_b)
        for inner in find_gaps(pairs, gap):
            first_a = _find_first_call(self._a, inner.range_a)
            first_b = _find_first_call(self._b, inner.range_b)
            # Shown side by side, they say how the sessions diverge.
            if first_a in unpaired_a and first_b in unpaired_b:
                self.pairs.append((first_a, first_b))

    def _find_unpaired_calls(
        self, a: Iterable[int], b: Iterable[int], pairs: list[Pair]
    ) -> tuple[list[int], list[int]]:
        """Return the calls of batches that have no partner yet."""
        paired_a = set(self._moved_a)
        paired_b = set(self._moved_b)
        for i, j in pairs:
            paired_a.add(i)
            paired_b.add(j)
        left_a = _select_batch_calls(self._a, a, paired_a)
        left_b = _select_batch_calls(self._b, b, paired_b)
        return left_a, left_b

    def _match_across_batches(
        self, left_a: list[int], left_b: list[int], pairs: list[Pair], get_key: KeyFunction
    ) -> list[Pair]:
        """Pair calls with equal keys in batches of which other calls are pairs."""
        partners = self._find_partner_batches(pairs)
        candidates: dict[tuple[int, Hashable], list[int]] = defaultdict(list)
        # Reversed, so that `pop` takes the earliest call first.
        for j in reversed(left_b):
            step = self._b[j]
            candidates[step.batch, get_key(step)].append(j)
        matched: list[Pair] = []
        for i in left_a:
            step = self._a[i]
            key = get_key(step)
            for batch in partners[step.batch]:
                if candidates[batch, key]:
                    matched.append((i, candidates[batch, key].pop()))
                    break
        return matched

    def _find_partner_batches(self, pairs: list[Pair]) -> dict[int, list[int]]:
        """Return the batches of `b` that share a pair with each batch of `a`, in order."""
        partners: dict[int, list[int]] = defaultdict(list)
        for i, j in pairs:
            batches = partners[self._a[i].batch]
            batch = self._b[j].batch
            if batch not in batches and len(batches) < _MAX_PARTNERS:
                batches.append(batch)
        return partners


def _select_batch_calls(
    steps: Sequence[Step], positions: Iterable[int], paired: set[int]
) -> list[int]:
    """Return the positions of calls in batches that are not paired."""
    selected = []
    for position in positions:
        if steps[position].batch and position not in paired:
            selected.append(position)
    return selected


def _sum_scores(scores: list[list[float]]) -> list[list[float]]:
    """Return the best sum of scores from each cell to the end of both sequences."""
    columns = len(scores[0])
    # From the last row up. Beyond the last row and the last column there is nothing to gain.
    below = [0.0] * (columns + 1)
    sums = [below]
    for row_scores in reversed(scores):
        row = [0.0] * (columns + 1)
        for y in reversed(range(columns)):
            paired = below[y + 1] + row_scores[y]
            row[y] = max(below[y], row[y + 1], paired)
        sums.append(row)
        below = row
    sums.reverse()
    return sums


def _find_first_call(steps: Sequence[Step], positions: range) -> int:
    """Return the first step at these positions that is not a message, or -1."""
    for position in positions:
        if steps[position].kind != "message":
            return position
    return -1


def _group_batches(steps: Sequence[Step]) -> list[_Unit]:
    units: list[_Unit] = []
    start = 0
    while start < len(steps):
        end = start + 1
        batch = steps[start].batch
        while batch and end < len(steps) and steps[end].batch == batch:
            end += 1
        key: Hashable = steps[start].key
        if end > start + 1:
            key = tuple(sorted(step.key for step in steps[start:end]))
        units.append(_Unit(key, range(start, end)))
        start = end
    return units


def _find_steps(units: list[_Unit], selected: range, total: int) -> tuple[int, int]:
    """Return start and end of the steps that a range of units covers."""
    if selected.start == len(units):
        return total, total
    start = units[selected.start].steps.start
    if not selected:
        return start, start
    end = units[selected.stop - 1].steps.stop
    return start, end
