"""What is done with JSON that the fast parser refused."""

import pytest

from open_token.jsontext import breaks_off, encoding, fault_place, glued, with_surrogates


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
def test_whole_values_one_after_another_are_told_apart(raw: bytes, values: object) -> None:
    assert glued(raw) == values


def test_lone_surrogates_are_mended_and_nothing_else() -> None:
    assert with_surrogates(b'{"a": "\\ud800x"}') == {"a": "�x"}
    assert with_surrogates(b'{"a": oops "\\ud800"}') is None
    assert with_surrogates(b'{"a": 1}') is None


def test_only_a_beginning_breaks_off() -> None:
    assert breaks_off(b'{"a": "wor')
    assert breaks_off('{"a": "wör'.encode()[:-2])
    assert not breaks_off(b'{"a": oops')
    assert not breaks_off(b'{"a": 1}')
    assert not breaks_off(b'{"a": "\xff\xff')


def test_the_place_of_a_fault_and_the_encoding() -> None:
    assert fault_place(b'{\n"a": oops}') == (2, 6)
    assert fault_place(b"{}") == (1, 1)
    assert encoding(b"\xff\xfe{\0") == "utf-16"
    assert encoding(b"{}") == "utf-8"
