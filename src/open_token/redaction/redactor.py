"""The redaction pass: search a record and mask what its level asks for."""

from collections import Counter
from dataclasses import replace
from typing import Any

from open_token.context import Context
from open_token.jsontools.walk import MEDIA_TYPE_KEYS, collect_named_strings
from open_token.model.document import Record
from open_token.redaction.command_output import CommandOutputSearch
from open_token.redaction.detector import Detector, build_detector
from open_token.redaction.found_values import FoundValues
from open_token.redaction.post_check import PostCheck
from open_token.redaction.report import (
    add_media_account,
    build_redaction,
    drops_media,
    has_kept_media,
    set_kept_media,
    stricter_level,
)
from open_token.redaction.split_values import SplitValueSearch
from open_token.redaction.strict_mode import is_masked_whole
from open_token.redaction.text_encoding import encode_text
from open_token.redaction.traversal import KeyTreatments, iter_batches, iter_metadata


def redact(record: Record, context: Context, engine: str = "auto") -> Record:
    """Return the record with markers for what its level masks, and an account of them."""
    return redact_with_check(record, context, engine)[0]


def redact_with_check(
    record: Record, context: Context, engine: str = "auto"
) -> tuple[Record, PostCheck | None]:
    """Redact a record; also return the check for the bytes that are written of it, if needed."""
    level = stricter_level(context.options.redact, context.policy.min_redact)
    if drops_media(context, level):
        record = _drop_media(record, context, level)
    if level == "none" and not context.policy.never_export_private_keys:
        return record, None
    detector = build_detector(level, context, engine)
    found = search_record(record, detector, whole=level == "strict")
    if found.has_media:
        record = _search_media(record, context, level, detector, found)
    if found:
        # Loaded only when needed: with its dependencies it takes longer than a small export.
        from open_token.redaction import masker

        record = masker.mask_record(record, context, level, detector, found)
        if found.has_media and found.has_whole_event:
            # Files in what was masked as a whole are not kept.
            record = recount_kept_media(record)
    else:
        before = record.conversation.get("redaction")
        redaction = build_redaction(before, level, context.options.strategy, Counter(), {}, [])
        if redaction is None:
            return record, None
        record = replace(record, conversation={**record.conversation, "redaction": redaction})
    post_check = PostCheck(detector, found)
    post_check.check_metadata([searched for _, searched in iter_metadata(record)])
    return record, post_check


def _drop_media(record: Record, context: Context, level: str) -> Record:
    """Return the record without images and files, and with an account of them."""
    from open_token.redaction.media import create_removal, drop_media

    removal = create_removal(context, record.conversation.get("id", ""))
    record = drop_media(record, removal)
    return add_media_account(record, context, level, removal.counts, removal.distinct)


def _search_media(
    record: Record, context: Context, level: str, detector: Detector, found: FoundValues
) -> Record:
    """Return the record without files in which something is to be masked; count unread ones."""
    from open_token.redaction.media import count_media, create_removal, drop_media, read_file_text

    def is_removed(block: dict[str, Any]) -> bool:
        text = read_file_text(block)
        return bool(text) and bool(_search_strings([text or ""], detector, found))

    removal = create_removal(context, record.conversation.get("id", ""), is_removed)
    cleaned = drop_media(record, removal)
    if cleaned is not record:
        # The batches that were kept have the files.
        found.batches = None
    kept = count_media(cleaned.events)
    return add_media_account(cleaned, context, level, removal.counts, removal.distinct, kept)


def recount_kept_media(record: Record) -> Record:
    """Return the record with the images and files that it still holds as kept in its account."""
    if not has_kept_media(record):
        return record
    from open_token.redaction.media import count_media

    return set_kept_media(record, count_media(record.events))


def search_record(record: Record, detector: Detector, *, whole: bool) -> FoundValues:
    """Find everything that is to be masked, without changing the record.

    With `whole`, note whether any event is to be masked as a whole (level `strict`).
    """
    found = FoundValues()
    keys = KeyTreatments(detector.is_odd_key)
    texts: list[str] = []
    for _, searched in iter_metadata(record):
        collect_named_strings(searched, keys, texts)
    _search_strings(texts, detector, found)
    split_values = SplitValueSearch(detector, keys, found)
    outputs = CommandOutputSearch(detector, found)
    for batch in iter_batches(record.events, keys, foreign=record.is_export):
        for number in _search_strings(batch.strings, detector, found):
            found.add_position(batch.find_position(number))
        split_values.search_events(batch.events, batch.first)
        outputs.search_events(batch.events)
        found.keep_batch(batch)
        if whole and any(map(is_masked_whole, batch.events)):
            found.has_whole_event = True
    # Every key that was met is known by now.
    found.has_media = "base64" in keys or ("data" in keys and not MEDIA_TYPE_KEYS.isdisjoint(keys))
    return found


def _search_strings(texts: list[str], detector: Detector, found: FoundValues) -> list[int]:
    """Add the values in some strings; return the numbers of those that have any."""
    hits = detector.find(texts) if texts else []
    for number, findings in hits:
        raw = encode_text(texts[number])
        for finding in findings:
            found.add(finding.get_value(raw), finding.rank, finding.rule)
            for value, rank, rule in finding.within:
                found.add(value, rank, rule)
    return [number for number, _ in hits]
