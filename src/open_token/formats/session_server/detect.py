"""A session server's own data: its log, the turns of a session, its history with all branches,
streams of patches."""

from typing import Any

from open_token.formats.session_server.shapes import (
    is_entry,
    is_patch,
    is_turn,
    turns_in,
    unwrapped,
)
from open_token.sources.source import Source


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
