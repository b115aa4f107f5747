"""Blocks of text in pieces: what events say is found, also with margins, and comes back letter for
letter."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from open_token.blocks import Blocks, set_in
from open_token.folding import Room, unfold

LONG = "A long sentence that an event carries, word for word."
LINES = f"{LONG}\n\nand a second one:\n- {LONG}\n\nthe end"
PLACES = {"e1#/content/text": LONG, "e2#/content/data/a": LONG + "!", "e3#/content/text": LINES}
SAID = list(PLACES.items())


def comes_back(text: str, said: list[tuple[str, str]] = SAID) -> Any:
    block = Blocks(said).fold(text)
    assert unfold(block, dict(said).__getitem__, Room(1 << 20)) == text
    return block


def test_what_was_said_is_a_reference_wherever_it_stands() -> None:
    block = comes_back(f"{LONG}!\n#### {LONG}\nanswer {LONG}!")
    assert block == {
        "$parts": [
            {"$ref": "e2#/content/data/a"},
            "\n#### ",
            {"$ref": "e1#/content/text"},
            "\nanswer ",
            {"$ref": "e2#/content/data/a"},
        ]
    }
    assert Blocks(SAID).fold("nothing of it") == "nothing of it"


def test_lines_that_are_set_in() -> None:
    yaml = (
        "  text: |-\n      "
        + LINES.replace("\n", "\n      ").replace("      \n", "\n")
        + "\n  type: text\n"
    )
    assert comes_back(yaml)["$parts"][1] == {"$lines": ["e3#/content/text", "      ", "", True]}
    quoted = "> " + LINES.replace("\n", "  \n> ") + "  \n"
    assert comes_back(quoted)["$parts"][1] == {"$lines": ["e3#/content/text", "> ", "  ", False]}


def test_a_text_that_was_put_together_is_found_in_pieces() -> None:
    one, two = "One sentence after another. " * 8, "Something else altogether. " * 8
    said = [("e1#/content/text", f"{one}\n\n{two}")]
    block = comes_back(f"- {two}\n- {one}\n", said)
    assert block["$parts"][1::2] == [
        {"$cut": ["e1#/content/text", len(one) + 2, len(one) + 2 + len(two)]},
        {"$cut": ["e1#/content/text", 0, len(one)]},
    ]


def test_a_long_text_that_is_broken_up_is_found_by_its_lines() -> None:
    lines = [f"line {number} of an output" for number in range(200)]
    said = [("e1#/content/text", "\n".join(lines))]
    block = comes_back("\n".join([*lines[:90], "a line that is not in it", *lines[90:]]), said)
    assert sum(len(piece) for piece in block["$parts"] if isinstance(piece, str)) < 900


def test_when_the_work_is_too_much_the_text_stays() -> None:
    assert Blocks(SAID, budget=10).fold(f"x {LONG} {LONG}! {LINES}"[:40]) == f"x {LONG}"[:40]


MARGINS = st.sampled_from(["", " ", "  ", "\t", "> ", "#### ", "- "])
WORDS = st.lists(
    st.sampled_from(["", "abc", "abc d", " e", LONG, "f "]), min_size=1, max_size=7
).map("\n".join)


@given(
    WORDS,
    MARGINS,
    MARGINS,
    st.booleans(),
    st.text("ab \n>", max_size=9),
    st.lists(WORDS, max_size=3),
)
def test_whatever_stands_beside_it_comes_back(
    words: str, before: str, behind: str, bare: bool, around: str, others: list[str]
) -> None:
    said = [
        (f"e{number}#/content/text", text) for number, text in enumerate([words, *others]) if text
    ]
    comes_back(around + set_in(words, before, behind, bare) + around + words, said)


def test_words_that_are_longer_than_a_block_take_no_steps_of_it() -> None:
    said = [(f"e{number}#/content/text", f"{number} " * 2000) for number in range(10, 60)]
    text = f"{LONG}\n" * 4
    block = Blocks([*said, *SAID], budget=len(text) * 4 + 100).fold(text)
    assert block["$parts"][0] == {"$ref": "e1#/content/text"}
