"""Text of untrusted JSON values."""

from typing import Any

import pytest

from open_token.replay.text import flatten_text, is_media


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
def test_flatten_text(value: Any, words: str) -> None:
    assert flatten_text(value) == words


def test_what_is_deep_is_no_trouble() -> None:
    value: Any = "a"
    for _ in range(300):
        value = {"output": value}
    assert '"a"' in flatten_text(value)


def test_a_string_is_no_media() -> None:
    assert not is_media("image")
