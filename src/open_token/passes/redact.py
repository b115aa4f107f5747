"""Masks secrets, personal data or more, as the options say, wherever they stand in a conversation."""

import importlib
from collections import Counter
from dataclasses import replace
from typing import Any, cast

from open_token.context import Context
from open_token.model import Record
from open_token.passes._batches import batches, facts
from open_token.passes._detect import Detector, encoded
from open_token.passes._found import Found
from open_token.passes._keys import Keys
from open_token.passes._notes import redaction_of, stronger
from open_token.passes._rules import load_rules
from open_token.passes._strict import is_hidden
from open_token.walk import named_strings


def redact(record: Record, context: Context, engine: str = "auto") -> Record:
    """The record with marks for what its level masks, and an account of them."""
    level = stronger(context.options.redact, context.policy.min_redact)
    if level == "none" and not context.policy.never_export_private_keys:
        return record
    detector = Detector(load_rules(level, context.rule_cache), context.rule_cache, engine)
    found = search(record, detector, whole=level == "strict")
    if found:
        return cast(Record, _masking().mask(record, context, level, detector, found))
    before = record.conversation.get("redaction")
    redaction = redaction_of(before, level, context.options.strategy, Counter(), {}, [])
    return (
        record if redaction is None else replace(record, conversation={**record.conversation, "redaction": redaction})
    )


def _masking() -> Any:
    """Loaded only when there is something to mask: with all it needs it takes longer than a small export."""
    return importlib.import_module("open_token.passes._masking")


def search(record: Record, detector: Detector, *, whole: bool) -> Found:
    """Everything that is to be masked, without touching it."""
    found, keys = Found(), Keys()
    leaves: list[str] = []
    for _, open_part in facts(record):
        named_strings(open_part, keys, leaves)
    _look(leaves, detector, found)
    for batch in batches(record.events, keys, foreign=record.is_export):
        for leaf in _look(batch.leaves, detector, found):
            found.add_place(batch.place_of(leaf))
        found.is_whole = found.is_whole or (whole and any(map(is_hidden, batch.events)))
    return found


def _look(leaves: list[str], detector: Detector, found: Found) -> list[int]:
    """Take in what stands in strings; gives the numbers of those in which something does."""
    hits = detector.find(leaves) if leaves else []
    for number, findings in hits:
        raw = encoded(leaves[number])
        for item in findings:
            found.add(raw[item.start : item.end].decode("utf-8", "surrogatepass"), item.rank, item.rule)
    return [number for number, _ in hits]
