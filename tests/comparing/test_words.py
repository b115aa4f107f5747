"""How one text became another, word by word."""

import random

import pytest

from open_token.comparing.words import word_changes


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
    assert word_changes(old, new) == pieces


@pytest.mark.parametrize("seed", range(20))
def test_both_texts_can_be_put_together_again(seed: int) -> None:
    chance = random.Random(seed)
    old, new = ("".join(chance.choices(["ab", "c", " ", "\n", "é", "."], k=40)) for _ in range(2))
    pieces = word_changes(old, new)
    assert "".join(text for sign, text in pieces if sign != "+") == old
    assert "".join(text for sign, text in pieces if sign != "-") == new


def test_a_long_text_keeps_its_end() -> None:
    long = "words " * 40_000
    pieces = word_changes(long + "a", long + "b")
    assert "".join(text for sign, text in pieces if sign != "+") == long + "a"
