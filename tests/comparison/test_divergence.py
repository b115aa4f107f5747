"""Classes of differences, divergence and resync."""

import pytest

from open_token.comparison.divergence import Row, build_rows, find_divergence, find_first_difference
from open_token.comparison.steps import Step


def step(number: int, key: str, role: str = "assistant", kind: str = "call") -> Step:
    return Step(number, kind, role, {}, key=key.encode(), call_key=key.encode())


def rows(word: str) -> list[Row]:
    """`=` equal, `~` args, `t` words of the model, `-` missing, `+` extra, `o` order, `r` result,
    `u` other input."""
    kinds = {
        "=": "equal",
        "~": "args_changed",
        "t": "text_changed",
        "o": "order_change",
        "r": "result_changed",
    }
    made = []
    for number, sign in enumerate(word, 1):
        role, kind = (
            ("user", "message")
            if sign == "u"
            else ("assistant", "message" if sign == "t" else "call")
        )
        one = step(number, sign, role, kind)
        sides = {"-": (one, None), "+": (None, one)}.get(sign, (one, one))
        name = {"-": "missing", "+": "extra", "u": "text_changed"}.get(sign) or kinds[sign]
        made.append(Row(name, *sides))
    return made


@pytest.mark.parametrize(
    ("word", "place", "cause", "met", "radius"),
    [
        ("==~==", 2, "decision", 3, 1),
        ("==r==", 2, "environment", 3, 1),
        ("==u==", 2, "input", 3, 1),
        ("=t=~=", 3, "decision", 4, 1),
        ("=tu==", 1, "decision", 3, 2),
        ("=t~==", 2, "decision", 3, 1),
        ("=t===", 1, "decision", 2, 1),
        ("=~=~=", 1, "decision", 4, 3),
        ("=~=~~", 1, "decision", None, 4),
        ("=~o==", 1, "decision", 2, 1),
        ("=-+==", 1, "decision", 3, 2),
        ("==---", 2, "decision", None, 3),
        ("=o===", 1, "decision", 2, 1),
    ],
)
def test_divergence_and_resync(
    word: str, place: int, cause: str, met: int | None, radius: int
) -> None:
    divergence_found = find_divergence(rows(word))
    assert divergence_found is not None
    assert (
        divergence_found.row,
        divergence_found.cause,
        divergence_found.resync_row,
        divergence_found.radius,
    ) == (
        place,
        cause,
        met,
        radius,
    )


def test_no_divergence() -> None:
    assert find_divergence(rows("===")) is None
    assert find_divergence([]) is None


def test_the_first_difference() -> None:
    assert find_first_difference(rows("=o=t")) == 3
    assert find_first_difference(rows("=o=")) == 1
    assert find_first_difference(rows("==")) is None


def test_what_was_done_instead_is_reported() -> None:
    divergence_found = find_divergence(rows("=--+="))
    assert divergence_found is not None
    assert divergence_found.a is not None
    assert divergence_found.b is not None
    assert (divergence_found.a.number, divergence_found.b.number) == (2, 4)


def test_rows_of_both() -> None:
    a, b = (
        [step(n, key) for n, key in enumerate("abc", 1)],
        [step(n, key) for n, key in enumerate("xac", 1)],
    )
    made = build_rows(a, b, [(0, 1), (2, 2)], [])
    assert [row.kind for row in made] == ["extra", "equal", "missing", "equal"]
    made = build_rows(a, b, [(0, 1), (2, 2)], [(1, 0)])
    assert [row.kind for row in made] == ["equal", "args_changed", "equal"]
