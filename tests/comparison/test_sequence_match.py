"""The common subsequence of two sequences of keys."""

import random
from itertools import pairwise

import pytest

from helpers.growth import grows_linearly
from open_token.comparison.sequence_match import Gap, find_gaps, match_sequences


def longest(a: list[int], b: list[int]) -> int:
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, one in enumerate(a):
        for j, other in enumerate(b):
            table[i + 1][j + 1] = (
                table[i][j] + 1 if one == other else max(table[i][j + 1], table[i + 1][j])
            )
    return table[-1][-1]


@pytest.mark.parametrize("keys", [2, 5, 40])
def test_pairs_are_equal_and_rise_and_are_nearly_as_many_as_can_be(keys: int) -> None:
    chance = random.Random(keys)
    found = possible = 0
    for _ in range(150):
        a, b = ([chance.randrange(keys) for _ in range(chance.randrange(25))] for _ in range(2))
        pairs = match_sequences(a, b)
        assert all(a[i] == b[j] for i, j in pairs)
        assert all(one[0] < other[0] and one[1] < other[1] for one, other in pairwise(pairs))
        found += len(pairs)
        possible += longest(a, b)
    assert found >= 0.8 * possible


@pytest.mark.parametrize(
    ("a", "b", "pairs"),
    [
        ("", "", []),
        ("abc", "abc", [(0, 0), (1, 1), (2, 2)]),
        ("abc", "axc", [(0, 0), (2, 2)]),
        ("abc", "xabc", [(0, 1), (1, 2), (2, 3)]),
        ("abc", "", []),
        ("aab", "ab", [(0, 0), (2, 1)]),
    ],
)
def test_small_ones(a: str, b: str, pairs: list[tuple[int, int]]) -> None:
    assert match_sequences(a, b) == pairs


def test_what_is_between_pairs() -> None:
    assert find_gaps([(1, 1), (2, 4)], Gap(0, 5, 0, 5)) == [
        (0, 1, 0, 1),
        (2, 2, 2, 4),
        (3, 5, 5, 5),
    ]


HOSTILE = {
    "one key": lambda n: ([0] * n, [0] * (n - n // 9)),
    "two keys": lambda n: ([k % 2 for k in range(n)], [k % 3 % 2 for k in range(n)]),
    "backwards, each twice": lambda n: (
        [k // 2 for k in range(n)],
        [k // 2 for k in range(n)][::-1],
    ),
    "shuffled": lambda n: (random.Random(n).sample(range(n), n), list(range(n))),
}


@pytest.mark.full
@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_hostile_takes_a_square(name: str) -> None:
    assert grows_linearly(lambda size: match_sequences(*HOSTILE[name](size)), 20_000)
