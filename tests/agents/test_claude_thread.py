"""The speakers of a thread, and the usage of its messages."""

import pytest

from open_token.agents.claude_code.records import Message, TokenCounts
from open_token.agents.claude_code.thread import Thread, to_usage
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
    usage = to_usage(counts)
    assert (usage and tuple(usage.get(name) for name in names)) == expected


def test_a_thread_remembers_the_usage_of_its_latest_messages() -> None:
    thread = Thread(Draft(), set())
    first = thread.get_usage(Message("m", usage=TokenCounts(1, 1, 1, 1)))
    assert thread.get_usage(Message("m", usage=TokenCounts(1, 1, 1, 1))) is first
    for number in range(300):
        thread.get_usage(Message(f"n{number}"))
    assert len(thread.message_usages) == 256
    assert thread.get_usage(Message("m", usage=TokenCounts(1, 1, 1, 1))).usage is None


def test_the_person_is_a_participant_only_when_there_is_one() -> None:
    draft = Draft()
    thread = Thread(draft, set())
    assert draft.participants == []
    assert thread.get_prompter() == thread.get_prompter()
    assert [p["kind"] for p in draft.participants] == ["human"]
