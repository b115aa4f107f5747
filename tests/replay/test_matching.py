"""Differences between a request and a recorded step."""

import pytest

from open_token.replay.equivalence import Equivalence
from open_token.replay.matching import find_difference, follows_step
from open_token.replay.recording import Call, Result, Step
from open_token.replay.requests import Item, Message, ModelRequest, Tool, ToolCall, ToolResult

LOOK, READ = Call("1", "ls", {"path": "."}), Call("2", "cat", {"path": "a"})
FIRST = Step(1, 1, "", ["Go"], [], [], ["I look.", LOOK, READ])
SECOND = Step(2, 5, "", [], [], [Result(LOOK, "a\nb"), Result(READ, "words")], ["Done."], FIRST)
MADE = [ToolCall("1", "ls", {"path": "."}), ToolCall("2", "cat", {"path": "a"})]
GOT = [ToolResult("1", "", "a\nb"), ToolResult("2", "", "words")]
TOOLS = [Tool("ls", {}), Tool("cat", {})]


def asked(*items: Item) -> ModelRequest:
    return ModelRequest(
        "chat", "m", False, [Message("user", "Go"), Message("model", "I look."), *items], TOOLS
    )


@pytest.mark.parametrize(
    "items",
    [
        [*MADE, *GOT],
        [*MADE, *GOT[::-1]],
        [MADE[0], GOT[0], MADE[1], GOT[1]],
        [*MADE, *GOT, Message("user", "<system-reminder>x</system-reminder>")],
        [
            ToolCall("", "ls", {"path": "."}),
            ToolCall("", "cat", {"path": "a"}),
            ToolResult("", "ls", "a\nb"),
            ToolResult("", "cat", "words"),
        ],
        [
            ToolCall("7", "ls", {"path": "."}),
            ToolCall("8", "cat", {"path": "a"}),
            ToolResult("7", "", "a\nb"),
            ToolResult("8", "", "words"),
        ],
    ],
)
def test_the_same(items: list[Item]) -> None:
    assert find_difference(SECOND, asked(*items), Equivalence()) is None
    assert follows_step(SECOND, asked(*MADE, *GOT))


@pytest.mark.parametrize(
    ("items", "where", "given"),
    [
        ([*MADE, GOT[0], ToolResult("2", "", "other")], "the result of cat", "other"),
        ([*MADE, GOT[0]], "the result of cat", ""),
        ([*MADE, Message("user", "Stop")], "the result of ls", ""),
        (
            [MADE[0], ToolCall("2", "cat", {"path": "b"}), *GOT],
            "the arguments of cat",
            '{"path":"b"}',
        ),
        ([MADE[0], ToolCall("2", "dog", {"path": "a"}), *GOT], "the call of cat", "dog"),
        ([*MADE, *GOT, Message("model", "Hm."), Message("user", "Go")], "the result of ls", ""),
    ],
)
def test_where_it_differs(items: list[Item], where: str, given: str) -> None:
    found = find_difference(SECOND, asked(*items), Equivalence())
    assert found is not None
    assert (found.where, found.given) == (where, given)


def test_a_result_where_none_was() -> None:
    found = find_difference(
        FIRST, ModelRequest("chat", "m", False, [*MADE, *GOT, Message("user", "Go")]), Equivalence()
    )
    assert found is not None
    assert found.where == "a result that was not recorded"


def test_a_result_that_the_record_lacks_may_be_anything() -> None:
    step = Step(2, 5, "", [], [], [Result(LOOK, "", is_known=False)], ["Done."])
    assert find_difference(step, asked(*MADE, *GOT), Equivalence()) is None


def test_exactly_the_answer_before() -> None:
    other = ModelRequest(
        "chat", "m", False, [Message("user", "Go"), Message("model", "I lok."), *MADE, *GOT], TOOLS
    )
    assert find_difference(SECOND, other, Equivalence()) is None
    found = find_difference(SECOND, other, Equivalence(exact=True))
    assert found is not None
    assert found.where == "the previous answer"
