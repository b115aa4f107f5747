"""The one sentence."""

import pytest

import open_token
from runs import Batch, call, calls, document, said

USER, LOOK, DONE = said("user", "Fix it."), said("assistant", "I look."), said("assistant", "Done.")
MAKE, MADE = calls(call("Bash", "bad", command="make")), calls(call("Bash", "good", command="make"))
FAILED = calls(call("Bash", "bad", failed=True, command="make"))
START = "Same start for 1 step, then they part at step 2"
READ, BLINK = calls(call("Read", file_path="a")), calls(call("lighthouse"))


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        ([USER], [USER], "Same: 1 step, equal but for ids, times and counts."),
        ([USER, MAKE, READ], [USER, MADE, READ],
         f"{START}: the same call had another result. They meet again at step 3."),
        ([USER, MAKE], [USER, FAILED],
         f"{START}: the same call failed in one of them only. They do not meet again."),
        ([USER, MAKE], [USER, BLINK],
         f"{START}: the model did something else. They do not meet again."),
        ([USER, MAKE, READ], [USER],
         f"{START} of A: one of them does what the other does not. B ends there."),
        ([USER], [USER, MAKE],
         f"{START} of B: one of them does what the other does not. A ends there."),
        ([said("user", "Hi.")], [USER], "They part at step 1: the input differs. They do not meet again."),
        ([USER, LOOK, MAKE, READ], [USER, MAKE, BLINK],
         "Same start for 3 steps, 1 of them in other words, then they part at step 4 of A and 3 of B: "
         "the model did something else. They do not meet again."),
        ([USER, LOOK, MAKE, DONE], [USER, said("assistant", "Let me see."), MAKE, said("assistant", "There.")],
         "The same was done; only words of the model differ: 2 texts differ, the first at step 2."),
        ([USER, calls(MAKE[0], READ[0])], [USER, calls(READ[0], MAKE[0])],
         "Same: 3 steps, equal but for ids, times and counts, and but for the order of calls made side by side."),
    ],
)  # fmt: skip
def test_what_somebody_wants_to_hear_first(one: list[Batch], other: list[Batch], told: str) -> None:
    assert open_token.diff(document(one), document(other, shift=3)).sentence == told


def test_order_alone_at_level_exact() -> None:
    one, other = (document([calls(*made)]) for made in ((MAKE[0], READ[0]), (READ[0], MAKE[0])))
    told = open_token.diff(one, other, level="exact").sentence
    assert told == "Same: all 1 step, but calls made side by side stand in another order."
