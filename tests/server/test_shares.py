"""What of a turn a stranger sees."""

from open_token.model.session_types import MemoryRef, TurnProjection, from_builtins
from open_token.server.shares import Terms, shown

TURN = {
    "id": "e",
    "turn_id": "t",
    "sequence": 0,
    "failure_reason": "the provider said: somebody's words",
    "odd": 1,
    "blocks": [
        {"type": "thinking", "content": "hm", "odd": 1},
        {"type": "text", "content": "yes", "odd": 1},
        {"type": "tool_bridge", "content": {"action": "open"}},
    ],
    "tool_calls": [{"id": "c", "tool_name": "Bash", "odd": 1}],
}


def whole() -> TurnProjection:
    turn = from_builtins(TURN, TurnProjection)
    turn.memory_refs = [MemoryRef(id=1)]
    return turn


def test_only_what_was_said() -> None:
    turn = shown(whole(), Terms())
    assert turn is not None
    assert [block.type for block in turn.blocks] == ["text"]
    assert turn.memory_refs is None
    assert turn.failure_reason == "the turn failed"
    assert not any((turn.more, turn.blocks[0].more, turn.tool_calls[0].more))


def test_the_turn_itself_stays_as_it_was() -> None:
    turn = whole()
    shown(turn, Terms())
    assert turn == whole()


def test_system_turns_are_not_for_strangers() -> None:
    turn = whole()
    turn.role = "system"
    assert shown(turn, Terms(include_thinking=True)) is None
    assert shown(turn, Terms(include_internal=True)) is not None


def test_all_of_it_when_that_was_said() -> None:
    assert shown(whole(), Terms(include_internal=True, include_thinking=True)) == whole()
