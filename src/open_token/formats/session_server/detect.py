"""Detection of session server data: logs, turns, histories with branches, streams of patches."""

from typing import Any

from open_token.formats.session_server.shapes import (
    find_turns,
    is_entry,
    is_patch,
    is_turn,
    unwrap_records,
)
from open_token.sources.source import Source

_MAX_INSPECTED = 512


def sniff(source: Source) -> bool:
    """Return whether it is a list of turns, a response with one, or a log of what was sent."""
    sample = source.sample
    turns = find_turns(sample[0]) if len(sample) == 1 else None
    if turns is not None:
        return all(is_turn(turn) or is_patch(turn) for turn in turns[:_MAX_INSPECTED])
    records = [record for envelope in sample for record in unwrap_records(envelope)]
    if not records or not all(isinstance(record, dict) for record in records):
        return False
    if all(is_entry(record) for record in records):
        return True
    if not any(is_patch(record) or is_turn(record) for record in records):
        return False
    return all(_is_server_record(record) for record in records)


def _is_server_record(record: dict[str, Any]) -> bool:
    if is_patch(record) or is_turn(record):
        return True
    return "session_id" in record or "stream_sequence" in record
