"""Masks secrets, personal data or more, as the options say, wherever they stand in a
conversation."""

import importlib
from collections import Counter
from dataclasses import replace
from typing import Any, cast

from open_token.context import Context
from open_token.jsontools.walk import collect_named_strings
from open_token.model import Record
from open_token.passes._batches import batches, facts
from open_token.passes._detect import Detector
from open_token.passes._found import Found
from open_token.passes._guard import Guard
from open_token.passes._keys import Keys
from open_token.passes._letters import encoded
from open_token.passes._notes import redaction_of, stronger
from open_token.passes._pieces import Pieces
from open_token.passes._screen import detector_for
from open_token.passes._strict import is_hidden


def redact(record: Record, context: Context, engine: str = "auto") -> Record:
    """The record with marks for what its level masks, and an account of them."""
    return redact_with_check(record, context, engine)[0]


def redact_with_check(
    record: Record, context: Context, engine: str = "auto"
) -> tuple[Record, Guard | None]:
    """Redact a record; also return the check for the bytes that are written of it, if needed."""
    level = stronger(context.options.redact, context.policy.min_redact)
    if level == "none" and not context.policy.never_export_private_keys:
        return record, None
    detector = detector_for(level, context, engine)
    found = search(record, detector, whole=level == "strict")
    if found:
        record = cast(Record, _masking().mask(record, context, level, detector, found))
    else:
        before = record.conversation.get("redaction")
        redaction = redaction_of(before, level, context.options.strategy, Counter(), {}, [])
        if redaction is None:
            return record, None
        record = replace(record, conversation={**record.conversation, "redaction": redaction})
    guard = Guard(detector, found)
    guard.look_at([part for _, part in facts(record)])
    return record, guard


def _masking() -> Any:
    """Loaded only when there is something to mask: with all it needs it takes longer than a small
    export."""
    return importlib.import_module("open_token.passes._masking")


def search(record: Record, detector: Detector, *, whole: bool) -> Found:
    """Everything that is to be masked, without touching it."""
    found, keys = Found(), Keys(detector.is_odd_key)
    leaves: list[str] = []
    for _, open_part in facts(record):
        collect_named_strings(open_part, keys, leaves)
    _look(leaves, detector, found)
    pieces = Pieces(detector, keys, found)
    for batch in batches(record.events, keys, foreign=record.is_export):
        for leaf in _look(batch.leaves, detector, found):
            found.add_place(batch.place_of(leaf))
        pieces.look(batch.events, batch.first)
        found.keep(batch)
        found.is_whole = found.is_whole or (whole and any(map(is_hidden, batch.events)))
    return found


def _look(leaves: list[str], detector: Detector, found: Found) -> list[int]:
    """Take in what stands in strings; gives the numbers of those in which something does."""
    hits = detector.find(leaves) if leaves else []
    for number, findings in hits:
        raw = encoded(leaves[number])
        for item in findings:
            found.add(
                item.plain or raw[item.start : item.end].decode("utf-8", "surrogatepass"),
                item.rank,
                item.rule,
            )
            for value, rank, rule in item.within:
                found.add(value, rank, rule)
    return [number for number, _ in hits]
