"""Why an agent stopped before it was done, in words for the user."""

from typing import Any

from open_token.model.log_events import NewEvent

CUT_OFF = ("length", "content_filter")
"""The reasons of a model whose answer is incomplete."""
LIMITS = ("max_turns", "budget")
"""The limits that end a run before the agent is done."""
_NOTICES = {
    "length": "The answer is incomplete: the model reached its limit of output.",
    "content_filter": "The answer is incomplete: a content filter of the provider stopped it.",
    "max_turns": "The agent stopped: it reached the limit of model calls for one message.",
    "budget": "The agent stopped: the budget of this session is used up.",
}


def describe(reason: str | None) -> str | None:
    """Return the message for the user about an early end; None if none is needed."""
    return _NOTICES.get(reason or "")


def find_cut(reason: Any) -> str | None:
    """Return the reason of an answer that is incomplete; None if it is whole."""
    return reason if reason in CUT_OFF else None


def build_limit_turn(turn_id: str, reason: str) -> list[NewEvent]:
    """Return a turn of the system that says which limit ended a run."""
    turn = {
        "turn_id": turn_id,
        "role": "system",
        "status": "completed",
        "finish_reason": reason,
        "blocks": [{"type": "system_notification", "content": _NOTICES[reason]}],
    }
    return [("turn.opened", {"turn": turn}), ("turn.ended", {"turn_id": turn_id})]
