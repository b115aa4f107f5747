"""Random values are not mistaken for words, paths or placeholders because of a few letters."""

import random
import string
from collections.abc import Callable

import pytest

from open_token.redaction.detector import Detector
from open_token.redaction.ruleset import load_rules

LETTERS, ALNUM = string.ascii_letters, string.ascii_letters + string.digits
URL, BASE64 = ALNUM + "-_", ALNUM + "+/"
COUNT, FEW = 400, 2
# Few letters, drawn by lot, may look like words all the same.
MOST_MISSED = {"no digit by chance": 12, "a slash in front": 40, "a password without digits": 30}
DRAWN: dict[str, Callable[[random.Random], str]] = {
    "letters alone": lambda lot: "hf_" + drawn(lot, LETTERS, 34),
    "letters behind an underscore": lambda lot: (
        f"AIza{drawn(lot, ALNUM, 14)}_{drawn(lot, LETTERS, 20)}"
    ),
    "no digit by chance": lambda lot: f"re_{drawn(lot, LETTERS, 8)}_{drawn(lot, LETTERS, 24)}",
    "the word for what is left to do": lambda lot: (
        f"sk-ant-api03-{drawn(lot, URL, 40)}tOdO{drawn(lot, ALNUM, 49)}AA"
    ),
    "my between two signs": lambda lot: (
        f"hvs.{drawn(lot, ALNUM, 30)}-my_{drawn(lot, string.digits, 60)}"
    ),
    "a slash in front": lambda lot: f'JWT_SECRET="/{drawn(lot, BASE64, 42)}7"',
    "a password without digits": lambda lot: f'PGPASSWORD = "{drawn(lot, LETTERS, 20)}"',
}


def drawn(lot: random.Random, letters: str, size: int) -> str:
    return "".join(lot.choice(letters) for _ in range(size))


@pytest.mark.parametrize("kind", DRAWN)
def test_values_drawn_by_lot_are_found(kind: str) -> None:
    lot = random.Random(kind)
    texts = [DRAWN[kind](lot) for _ in range(COUNT)]
    found = Detector(load_rules("secrets"), engine="keywords").find(texts)
    assert COUNT - len(found) <= MOST_MISSED.get(kind, FEW)


def test_names_and_placeholders_still_stand_for_nothing() -> None:
    texts = [
        "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",
        "hf_TODO_put_the_token_of_the_hub_here_please",
        "sk-ant-api03-my-key-stands-here",
        'JWT_SECRET="/run/secrets/production/jwtSigningKey2"',
        'password = "someNameOfAVariable"',
        "curl -u user:password https://x.invalid",
    ]
    assert Detector(load_rules("secrets"), engine="keywords").find(texts) == []
