"""What a share shows of a turn."""

from open_token.model.session_types import MemoryRef, TurnProjection, from_builtins
from open_token.server.core.shares import ShareTerms, redact_turn

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
    turn = redact_turn(whole(), ShareTerms())
    assert turn is not None
    assert [block.type for block in turn.blocks] == ["text"]
    assert turn.memory_refs is None
    assert turn.failure_reason == "the turn failed"
    assert not any((turn.more, turn.blocks[0].more, turn.tool_calls[0].more))


def test_the_turn_itself_stays_as_it_was() -> None:
    turn = whole()
    redact_turn(turn, ShareTerms())
    assert turn == whole()


def test_shares_do_not_show_system_turns() -> None:
    turn = whole()
    turn.role = "system"
    assert redact_turn(turn, ShareTerms(include_thinking=True)) is None
    assert redact_turn(turn, ShareTerms(include_internal=True)) is not None


def test_all_of_it_when_that_was_said() -> None:
    assert redact_turn(whole(), ShareTerms(include_internal=True, include_thinking=True)) == whole()
