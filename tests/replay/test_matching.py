"""Where a request differs from what a recorded answer was an answer to."""

import pytest

from open_token.replay.asked import Asked, Got, Item, Made, Said, Tool
from open_token.replay.matching import difference, follows
from open_token.replay.recording import Call, Result, Step
from open_token.replay.sameness import Sameness

LOOK, READ = Call("1", "ls", {"path": "."}), Call("2", "cat", {"path": "a"})
FIRST = Step(1, 1, "", ["Go"], [], [], ["I look.", LOOK, READ])
SECOND = Step(2, 5, "", [], [], [Result(LOOK, "a\nb"), Result(READ, "words")], ["Done."], FIRST)
MADE = [Made("1", "ls", {"path": "."}), Made("2", "cat", {"path": "a"})]
GOT = [Got("1", "", "a\nb"), Got("2", "", "words")]
TOOLS = [Tool("ls", {}), Tool("cat", {})]


def asked(*items: Item) -> Asked:
    return Asked("chat", "m", False, [Said("user", "Go"), Said("model", "I look."), *items], TOOLS)


@pytest.mark.parametrize(
    "items",
    [
        [*MADE, *GOT],
        [*MADE, *GOT[::-1]],
        [MADE[0], GOT[0], MADE[1], GOT[1]],
        [*MADE, *GOT, Said("user", "<system-reminder>x</system-reminder>")],
        [
            Made("", "ls", {"path": "."}),
            Made("", "cat", {"path": "a"}),
            Got("", "ls", "a\nb"),
            Got("", "cat", "words"),
        ],
        [
            Made("7", "ls", {"path": "."}),
            Made("8", "cat", {"path": "a"}),
            Got("7", "", "a\nb"),
            Got("8", "", "words"),
        ],
    ],
)
def test_the_same(items: list[Item]) -> None:
    assert difference(SECOND, asked(*items), Sameness()) is None
    assert follows(SECOND, asked(*MADE, *GOT))


@pytest.mark.parametrize(
    ("items", "where", "given"),
    [
        ([*MADE, GOT[0], Got("2", "", "other")], "the result of cat", "other"),
        ([*MADE, GOT[0]], "the result of cat", ""),
        ([*MADE, Said("user", "Stop")], "the result of ls", ""),
        ([MADE[0], Made("2", "cat", {"path": "b"}), *GOT], "the arguments of cat", '{"path":"b"}'),
        ([MADE[0], Made("2", "dog", {"path": "a"}), *GOT], "the call of cat", "dog"),
        ([*MADE, *GOT, Said("model", "Hm."), Said("user", "Go")], "the result of ls", ""),
    ],
)
def test_where_it_differs(items: list[Item], where: str, given: str) -> None:
    found = difference(SECOND, asked(*items), Sameness())
    assert found is not None
    assert (found.where, found.given) == (where, given)


def test_a_result_where_none_was() -> None:
    found = difference(
        FIRST, Asked("chat", "m", False, [*MADE, *GOT, Said("user", "Go")]), Sameness()
    )
    assert found is not None
    assert found.where == "a result that was not recorded"


def test_a_result_that_the_record_lacks_may_be_anything() -> None:
    step = Step(2, 5, "", [], [], [Result(LOOK, "", is_known=False)], ["Done."])
    assert difference(step, asked(*MADE, *GOT), Sameness()) is None


def test_exactly_the_answer_before() -> None:
    other = Asked(
        "chat", "m", False, [Said("user", "Go"), Said("model", "I lok."), *MADE, *GOT], TOOLS
    )
    assert difference(SECOND, other, Sameness()) is None
    found = difference(SECOND, other, Sameness(exact=True))
    assert found is not None
    assert found.where == "the answer before"
