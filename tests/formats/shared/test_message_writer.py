"""Results without ids find their calls by tool and order, and stay quick when thousands wait."""

from typing import cast

from open_token.builder.draft import Draft
from open_token.formats.shared.message_writer import CallMatcher


class Open:
    """As much of a draft as finding calls needs: which are open, and how often that was asked."""

    def __init__(self) -> None:
        self.closed: set[str] = set()
        self.asked = 0

    def is_call_open(self, key: str) -> bool:
        self.asked += 1
        return key.startswith("k") and key not in self.closed


def calls(*tools: str) -> tuple[CallMatcher, Open]:
    draft = Open()
    made = CallMatcher(cast(Draft, draft))
    for number, tool in enumerate(tools):
        made.add_call(f"k{number}", None, tool)
    return made, draft


def test_the_oldest_of_the_tool_is_answered_first() -> None:
    made, draft = calls("a", "b", "a")
    assert made.find_key(None, "a") == "k0"
    draft.closed.add("k0")
    assert [made.find_key(None, "a"), made.find_key(None, "b"), made.find_key(None, None)] == [
        "k2",
        "k1",
        "k1",
    ]


def test_results_right_behind_their_calls_answer_the_latest() -> None:
    made, draft = calls("a", "b", "a")
    assert made.find_key(None, "a", latest=True) == "k2"
    draft.closed.add("k2")
    assert [made.find_key(None, "a", latest=True), made.find_key(None, None, latest=True)] == [
        "k0",
        "k1",
    ]


def test_an_unknown_result_keeps_its_own_id() -> None:
    made, _ = calls("a")
    assert made.find_key("x", "other") == "x"
    assert made.find_key("k0", "other") == "k0"


def test_each_waiting_call_is_asked_for_a_few_times_only() -> None:
    count = 2000
    made, draft = calls(*(f"tool{number}" for number in range(count)))
    for number in reversed(range(count)):
        assert made.find_key(None, f"tool{number}") == f"k{number}"
        draft.closed.add(f"k{number}")
    assert draft.asked < 10 * count
