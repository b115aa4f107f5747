"""Values of strangers as plain words."""

from typing import Any

import pytest

from open_token.replay.plain import flat, is_media, list_of, object_of, text_of


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, ""),
        ("a", "a"),
        ([{"type": "text", "text": "a"}, "b", None], "a\nb"),
        ({"output": "a"}, "a"),
        ({"output": {"result": [{"text": "a"}]}}, "a"),
        ({"output": "a", "metadata": 1}, '{"metadata":1,"output":"a"}'),
        ({"b": 1, "a": [2]}, '{"a":[2],"b":1}'),
        ([{"type": "image", "base64": "x"}, {"inlineData": {}}], ""),
        (3, "3"),
    ],
)
def test_the_words_in_a_value(value: Any, words: str) -> None:
    assert flat(value) == words


def test_what_is_deep_is_no_trouble() -> None:
    value: Any = "a"
    for _ in range(300):
        value = {"output": value}
    assert '"a"' in flat(value)


def test_what_has_the_wrong_type_is_nothing() -> None:
    assert (object_of([1]), list_of({}), text_of(3)) == ({}, [], "")
    assert not is_media("image")
