"""Word-level differences."""

import random

import pytest

from open_token.comparison.words import diff_words


@pytest.mark.parametrize(
    ("old", "new", "pieces"),
    [
        ("", "", []),
        ("a b", "a b", [("=", "a b")]),
        ("make test", "make all", [("=", "make "), ("-", "test"), ("+", "all")]),
        ("a", "a b", [("=", "a"), ("+", " b")]),
        ("one two three", "1 2 three", [("-", "one two"), ("+", "1 2"), ("=", " three")]),
        ("", "x", [("+", "x")]),
    ],
)
def test_what_stayed_went_and_came(old: str, new: str, pieces: list[tuple[str, str]]) -> None:
    assert diff_words(old, new) == pieces


@pytest.mark.parametrize("seed", range(20))
def test_both_texts_can_be_put_together_again(seed: int) -> None:
    chance = random.Random(seed)
    old, new = ("".join(chance.choices(["ab", "c", " ", "\n", "é", "."], k=40)) for _ in range(2))
    pieces = diff_words(old, new)
    assert "".join(text for sign, text in pieces if sign != "+") == old
    assert "".join(text for sign, text in pieces if sign != "-") == new


def test_a_long_text_keeps_its_end() -> None:
    long = "words " * 40_000
    pieces = diff_words(long + "a", long + "b")
    assert "".join(text for sign, text in pieces if sign != "+") == long + "a"
