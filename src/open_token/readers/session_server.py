"""A session server's own data: its log, the turns of a session, its history with all branches,
streams of patches."""

from importlib import import_module
from typing import Any

from open_token.draft import Draft
from open_token.model import Found
from open_token.readers._session_shapes import is_entry, is_patch, is_turn, turns_in, unwrapped
from open_token.source import Source

TITLE = "Session server (turns, history, patches)"
PLACES: tuple[str, ...] = ()
SEEN = "described, not seen"
CARRIES = "turns with texts, thoughts, calls, results, cards, plans, answers, compactions, subagents, branches, usage"
LEAVES = "what the server tells clients beside the turns: files that changed, tasks, sessions that were renamed"


def sniff(source: Source) -> bool:
    """Whether it is a list of turns, an answer that holds one, or a log of what was sent to
    clients."""
    sample = source.sample
    if len(sample) == 1 and (found := turns_in(sample[0])) is not None:
        return all(is_turn(turn) or is_patch(turn) for turn in found[:512])
    told = [inner for record in sample for inner in unwrapped(record)]
    if not told or not all(isinstance(inner, dict) for inner in told):
        return False
    if all(is_entry(inner) for inner in told):
        return True
    return any(is_patch(inner) or is_turn(inner) for inner in told) and all(
        _is_ours(inner) for inner in told
    )


def _is_ours(record: dict[str, Any]) -> bool:
    return (
        is_patch(record) or is_turn(record) or "session_id" in record or "stream_sequence" in record
    )


def conversations(source: Source) -> list[Found]:
    """The sessions of a log; anything else is one."""
    found: list[Found] = import_module("open_token.readers._session_log").sessions(source)
    return found


def belongs(source: Source, at: str, value: Any) -> str | None:
    """The session of a record."""
    owner: str | None = import_module("open_token.readers._session_log").session_of(value)
    return owner


def read(source: Source, draft: Draft) -> None:
    """Tell the conversation; what that takes is loaded only now."""
    import_module("open_token.readers._session_log").read(source, draft)
