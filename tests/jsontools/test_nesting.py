"""What is nested very deep goes in and out, from wherever on the stack it is asked for."""

import json
from typing import Any

import msgspec
import pytest

from open_token.jsontools.nesting import (
    decode_deep,
    encode_deep,
    measure_depth,
    run_with_fresh_stack,
)

DEEP = 900


def deep(levels: int) -> Any:
    value: Any = "core"
    for number in range(levels):
        value = [value] if number % 2 else {"a": value}
    return value


def far_down(calls: int, work: Any) -> Any:
    """Do it with so many calls on the stack."""
    return far_down(calls - 1, work) if calls else work()


def core(value: Any) -> Any:
    while isinstance(value, dict | list):
        value = value["a"] if isinstance(value, dict) else value[0]
    return value


def test_it_is_written_and_read_with_many_calls_on_the_stack() -> None:
    value = deep(DEEP)
    text = far_down(300, lambda: encode_deep(value))
    assert text.count("[") + text.count("{") == DEEP
    assert core(far_down(300, lambda: decode_deep(text))) == "core"


def test_what_fails_for_another_reason_fails_so() -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_deep("{")
    with pytest.raises(RecursionError):
        encode_deep(deep(5000))


def test_the_failure_on_a_stack_of_its_own_is_reported() -> None:
    def work(value: Any) -> Any:
        raise RecursionError if not seen.append(value) and len(seen) == 1 else LookupError

    seen: list[Any] = []
    with pytest.raises(LookupError):
        run_with_fresh_stack(work, 7)
    assert seen == [7, 7]


@pytest.mark.parametrize(
    ("value", "depth"),
    [(1, 0), ([], 1), ({"a": [[1], 2]}, 3), ({"[[[": '{{{"[['}, 1), (["\\", [1]], 2)],
)
def test_brackets_in_texts_are_no_depth(value: Any, depth: int) -> None:
    assert measure_depth(json.dumps(value).encode()) == depth
