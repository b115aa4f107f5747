"""Short values of events: found by what they are, by where they stand, and forgotten when the
source has moved on."""

from typing import Any

import pytest

from open_token.nearby import Nearby, is_moment


def event(number: int) -> Any:
    return {
        "id": f"evt_{number:06d}",
        "ts": f"2026-01-01T00:00:{number % 60:02d}.{number:03d}Z",
        "content": {
            "mime": "text/plain",
            "data": {"n": number, "name": f"the name of {number:06d}", "~/": "odd key"},
        },
        "usage": {"output_tokens": 7},
    }


def test_what_stands_where() -> None:
    nearby = Nearby([event(1), event(2)])
    assert nearby.holds((2, "/content/data/n"), 2)
    assert not nearby.holds((2, "/content/data/n"), 2.0)
    assert not nearby.holds((3, "/content/data/n"), 3)
    assert not nearby.holds((1, "/content/data/~1~0"), "odd key")
    assert nearby.holds_moment((2, "/ts"), 1767225602002)
    assert not nearby.holds_moment((2, "/content/data/name"), 1767225602002)
    assert not nearby.holds_moment((2, "/ts"), True)


def test_what_a_value_tells() -> None:
    nearby = Nearby([event(1), event(2)])
    assert nearby.telling("the name of 000002") == (2, "/content/data/name")
    assert nearby.telling(1767225601001) == (1, "/ts")
    assert nearby.telling("text/plain") is None
    assert nearby.telling(7) is None
    assert list(nearby.around(2, 7)) == [(2, "/usage/output_tokens"), (1, "/usage/output_tokens")]


@pytest.mark.parametrize("value", [1.0, 2**53, "x", "y" * 65, True, None])
def test_what_is_not_written_as_it_is_or_too_short_or_too_long_is_not_held(value: Any) -> None:
    made = event(1)
    made["content"]["data"]["it"] = value
    nearby = Nearby([made])
    assert not nearby.holds((1, "/content/data/it"), value)


def test_it_moves_along_with_the_source() -> None:
    nearby = Nearby((event(number) for number in range(1, 400)), held=40)
    for number in range(1, 400):
        nearby.go(number)
        assert nearby.telling(f"the name of {number:06d}") == (number, "/content/data/name")
    assert nearby.telling("the name of 000001") is None
    assert not nearby.holds((1, "/content/data/n"), 1)


def test_a_moment_is_a_number_of_milliseconds_of_our_time() -> None:
    assert is_moment(1767225600000)
    assert not is_moment(1767225600)
    assert not is_moment("1767225600000")
