"""What is done with JSON that the fast parser refused."""

import pytest

from open_token.jsontools.repair import (
    detect_encoding,
    find_syntax_error,
    is_truncated_json,
    parse_with_surrogates,
    split_concatenated,
)


@pytest.mark.parametrize(
    ("raw", "values"),
    [
        (b'{\n "a": 1\n}\n{\n "b": 2\n}\n', [{"a": 1}, {"b": 2}]),
        (b'{"a": 1}{"b": 2} [3]', [{"a": 1}, {"b": 2}, [3]]),
        (b'{"a": "\\ud800"}\n{"b": 2}', [{"a": "�"}, {"b": 2}]),
        (b'{"a": 1}', None),
        (b'{"a": 1} oops', None),
        (b'{"a": 1}\n{"b": ', None),
        (b'{"a": NaN}{"b": 1}', None),
        (b'{"a": 1}\n7', None),
        (b'{"a": "\xff"}{}', None),
        (b"[" * 100_000, None),
    ],
)
def test_whole_values_one_after_another_are_reported_apart(raw: bytes, values: object) -> None:
    assert split_concatenated(raw) == values


def test_lone_surrogates_are_repaired_and_nothing_else() -> None:
    assert parse_with_surrogates(b'{"a": "\\ud800x"}') == {"a": "�x"}
    assert parse_with_surrogates(b'{"a": oops "\\ud800"}') is None
    assert parse_with_surrogates(b'{"a": 1}') is None


def test_only_a_beginning_breaks_off() -> None:
    assert is_truncated_json(b'{"a": "wor')
    assert is_truncated_json('{"a": "wör'.encode()[:-2])
    assert not is_truncated_json(b'{"a": oops')
    assert not is_truncated_json(b'{"a": 1}')
    assert not is_truncated_json(b'{"a": "\xff\xff')


def test_the_place_of_a_fault_and_the_encoding() -> None:
    assert find_syntax_error(b'{\n"a": oops}') == (2, 6)
    assert find_syntax_error(b"{}") == (1, 1)
    assert detect_encoding(b"\xff\xfe{\0") == "utf-16"
    assert detect_encoding(b"{}") == "utf-8"
