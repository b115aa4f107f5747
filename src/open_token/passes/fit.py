"""Fit an export into `max_bytes`, with room for its integrity object and source commitments."""

from dataclasses import replace

from open_token.context import Context, SizeEstimator
from open_token.errors import SizeLimitError
from open_token.integrity.commitments import SourceCommitments, build_disclosure
from open_token.integrity.event_hashes import (
    estimate_integrity,
    find_disclosure,
    is_unchanged_export,
)
from open_token.jsontools.canonical import CanonicalError
from open_token.model.document import Event, Integrity, Record
from open_token.passes.truncate import truncate
from open_token.writers import Writer


def fit_to_size(
    record: Record, writer: Writer, context: Context, commitments: SourceCommitments | None
) -> Record:
    """Return the record within `max_bytes`; raise DoesNotFit if that is impossible.

    The size of the disclosure to the source depends on which events remain, and these depend on its
    size, so space is reserved for it until the result fits.
    """
    options = context.options
    if options.max_bytes is None or commitments is None:
        return truncate(record, _with_measure(context, writer, 0))
    reserved = 0
    while True:
        context = _with_measure(context, writer, reserved)
        refusal = None
        try:
            fitted = truncate(record, context)
        except SizeLimitError as problem:
            refusal = problem
            smallest_options = options.changed(max_bytes=problem.smallest)
            fitted = truncate(record, replace(context, options=smallest_options))
        needed = _measure_disclosure(fitted, writer, commitments)
        if refusal and needed < reserved:
            # The space was reserved for more events than are left.
            if refusal.smallest - reserved + needed <= options.max_bytes:
                return fitted
            return truncate(record, _with_measure(context, writer, needed))
        if needed <= reserved:
            if refusal:
                raise refusal
            return fitted
        reserved = needed


def fit_unchanged_export(record: Record, writer: Writer, context: Context) -> Record | None:
    """Return the fitted record if it is an export whose events, and so its disclosure, are unchanged."""
    disclosure = find_disclosure(record, context)
    if disclosure is None:
        return None
    with_disclosure = len(writer.tail(record, {"source": disclosure}, 1))
    without = len(writer.tail(record, {"source": {}}, 1))
    try:
        fitted = truncate(record, _with_measure(context, writer, with_disclosure - without))
        if is_unchanged_export(fitted, disclosure):
            return fitted
        return None
    except (CanonicalError, SizeLimitError):
        return None


def _measure_disclosure(record: Record, writer: Writer, commitments: SourceCommitments) -> int:
    """Return the bytes that the disclosure of the record's events takes in the written export."""
    integrity: Integrity = {"hash_alg": "sha256"}
    without = len(writer.tail(record, integrity, 1))
    integrity["source"] = build_disclosure(commitments, record.events)
    return len(writer.tail(record, integrity, 1)) - without


def _with_measure(context: Context, writer: Writer, reserved: int) -> Context:
    """Return the context with a measure of what the writer needs, plus reserved bytes."""

    def measure_frame(record: Record, count: int) -> int:
        is_signed = context.sign is not None
        integrity = estimate_integrity(
            record, count, context.options.integrity, is_signed=is_signed
        )
        return len(writer.head(record)) + len(writer.tail(record, integrity, count)) + reserved

    def measure_event(event: Event, position: int) -> int:
        return len(writer.event({**event, "seq": position}, position))

    return replace(context, measure=SizeEstimator(measure_frame, measure_event))
