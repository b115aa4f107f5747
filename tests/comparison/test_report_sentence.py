"""The summary sentence."""

import pytest

import open_token
from helpers.random_runs import Batch, build_document, build_message, call, calls

USER, LOOK, DONE = (
    build_message("user", "Fix it."),
    build_message("assistant", "I look."),
    build_message("assistant", "Done."),
)
MAKE, MADE = calls(call("Bash", "bad", command="make")), calls(call("Bash", "good", command="make"))
FAILED = calls(call("Bash", "bad", failed=True, command="make"))
START = "Same start for 1 step, then they diverge at step 2"
READ, BLINK = calls(call("Read", file_path="a")), calls(call("lighthouse"))


@pytest.mark.parametrize(
    ("one", "other", "result"),
    [
        ([USER], [USER], "Same: 1 step, equal except for ids, times and counts."),
        ([USER, MAKE, READ], [USER, MADE, READ],
         f"{START}: the same call had a different result. They are in step again at step 3."),
        ([USER, MAKE], [USER, FAILED],
         f"{START}: the same call failed in only one of them. They stay apart."),
        ([USER, MAKE], [USER, BLINK],
         f"{START}: the model did something else. They stay apart."),
        ([USER, MAKE, READ], [USER],
         f"{START} of A: one does something that the other does not. B ends there."),
        ([USER], [USER, MAKE],
         f"{START} of B: one does something that the other does not. A ends there."),
        ([build_message("user", "Hi.")], [USER], "They diverge at step 1: the input differs. They stay apart."),
        ([USER, LOOK, MAKE, READ], [USER, MAKE, BLINK],
         "Same start for 3 steps, 1 of them worded differently, then they diverge at step 4 of A and 3 of B: "
         "the model did something else. They stay apart."),
        ([USER, LOOK, MAKE, DONE], [USER, build_message("assistant", "Let me see."), MAKE, build_message("assistant", "There.")],
         "Same actions; only message text of the model differs: 2 texts differ, the first at step 2."),
        ([USER, calls(MAKE[0], READ[0])], [USER, calls(READ[0], MAKE[0])],
         "Same: 3 steps, equal except for ids, times and counts, and except for the order of parallel calls."),
    ],
)  # fmt: skip
def test_sentence(one: list[Batch], other: list[Batch], result: str) -> None:
    assert open_token.diff(build_document(one), build_document(other, shift=3)).sentence == result


def test_order_alone_at_level_exact() -> None:
    one, other = (
        build_document([calls(*made)]) for made in ((MAKE[0], READ[0]), (READ[0], MAKE[0]))
    )
    result = open_token.diff(one, other, level="exact").sentence
    assert result == "Same: all 1 step, but parallel calls are in a different order."
