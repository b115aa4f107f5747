"""Who speaks in a line of talk, and what its messages cost."""

import pytest

from open_token.agents.claude_code.records import Message, TokenCounts
from open_token.agents.claude_code.thread import Thread, usage_from
from open_token.builder.draft import Draft


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        (None, None),
        (TokenCounts(), None),
        (TokenCounts(3, 10, 100, 7), (113, 7, None, 100, 10)),
        (TokenCounts(3, output_tokens=7), (3, 7, None, None, None)),
        (TokenCounts(3, 0, 0, 7, {"thinking_tokens": 5}), (3, 7, 5, 0, 0)),
        (TokenCounts(3, 0, 0, 7, None, [{"type": "message"}]), (3, 7, None, 0, 0)),
        (TokenCounts("3", -1, 0.5, True), None),
    ],
)
def test_usage(counts: TokenCounts | None, expected: tuple[int | None, ...] | None) -> None:
    names = (
        "input_tokens",
        "output_tokens",
        "reasoning_tokens",
        "cache_read_tokens",
        "cache_write_tokens",
    )
    usage = usage_from(counts)
    assert (usage and tuple(usage.get(name) for name in names)) == expected


def test_a_thread_remembers_its_accounts_for_a_while() -> None:
    thread = Thread(Draft(), set())
    first = thread.account(Message("m", usage=TokenCounts(1, 1, 1, 1)))
    assert thread.account(Message("m", usage=TokenCounts(1, 1, 1, 1))) is first
    for number in range(300):
        thread.account(Message(f"n{number}"))
    assert len(thread.accounts) == 256
    assert thread.account(Message("m", usage=TokenCounts(1, 1, 1, 1))).usage is None


def test_the_person_is_a_participant_only_when_there_is_one() -> None:
    draft = Draft()
    thread = Thread(draft, set())
    assert draft.participants == []
    assert thread.asker() == thread.asker()
    assert [p["kind"] for p in draft.participants] == ["human"]
