"""The whole program on one screen: read, pass, write."""

import hashlib
import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from importlib import import_module
from typing import Any, BinaryIO, Protocol, cast

import msgspec

from open_token.builder.draft import MISSING, Draft
from open_token.canonical import CanonicalError
from open_token.commitments import Committed, disclose
from open_token.context import Context, SizeEstimator
from open_token.errors import InputError, SizeLimitError
from open_token.model import Event, Integrity, Note, Record
from open_token.pages import CUT_TO_SIZE, page_of
from open_token.passes import PASSES, Seal, seal
from open_token.passes.seal import carried_tie, commit, expected_integrity, is_as_it_was
from open_token.registry import Reader, detect_format, load_reader, require_one_conversation
from open_token.sources.source import Source
from open_token.timestamps import to_utc
from open_token.writers import FORMS, Writer, form_of, writer_for

Pass = Callable[[Record, Context], Record]
MOST = 256 << 20
"""Bytes of a document that is written in a format of others, for which it is held in memory."""


class Receipt(msgspec.Struct, frozen=True):
    """What an export was made of and what came out."""

    reader: str
    conversation_id: str
    title: str | None
    events: int
    calls: int
    missing_results: int
    bytes: int
    notes: list[Note]
    redaction: list[str]
    integrity: Integrity | None


class Witness(Protocol):
    """Who sees an export as it is written."""

    def meet(self, record: Record) -> None:
        """The facts about the whole."""
        ...

    def take(self, event: Event) -> None:
        """One event."""
        ...


def export(
    source: Source,
    out: BinaryIO,
    context: Context,
    reader: str | None = None,
    witness: Witness | None = None,
    to: str | None = None,
) -> Receipt:
    """Turn a source into Open-Token bytes, or into what `to` names; a witness sees each event as it
    is written."""
    options = context.options
    if context.screen.allowed:
        context = replace(context, source=str(source.path or source.name))
    most = options.max_bytes
    if to == CUT_TO_SIZE:
        context = replace(context, options=options.changed(max_bytes=None))
    name = reader or detect_format(source)
    require_one_conversation(source, name)
    writer = writer_for(options.mode, options.pretty)
    told = record = read(source, context, name)
    *passes, fit = PASSES
    for run in passes:
        record = run(record, context)
    if (tied := _still_tied(fit, record, writer, context)) is not None:
        record, sealed = tied, seal(tied, context, carried=True)
    else:
        committed = commit(told, context)
        record = _fitted(fit, record, writer, context, committed)
        sealed = seal(record, context, committed)
    if to is None:
        return _write(_seen(record, witness), out, writer, sealed, name)
    # Other forms show what the document would hold, so that is made first: checked and sealed, and
    # written nowhere.
    nowhere = Bounded(MOST if to in FORMS else None, _too_long(to), keep=False)
    receipt = _write(_seen(record, witness), nowhere, writer, sealed, name)
    if to not in FORMS:
        return msgspec.structs.replace(
            receipt, bytes=page_of(to).write(record, receipt.integrity, out, most)
        )
    written, losses = form_of(to).write(record, receipt.integrity, out)
    return msgspec.structs.replace(receipt, bytes=written, notes=[*receipt.notes, *losses])


class Bounded(io.BytesIO):
    """Where an export goes that must be held in memory: one that is longer ends with the error of
    whoever holds it."""

    def __init__(self, most: int | None, too_long: InputError, *, keep: bool = True) -> None:
        super().__init__()
        self._left, self._too_long, self._keep = most, too_long, keep

    def write(self, data: Any) -> int:
        """Take more, unless it is too much."""
        if self._left is not None:
            self._left -= len(data)
            if self._left < 0:
                raise self._too_long
        return super().write(data) if self._keep else len(data)


def _too_long(to: str) -> InputError:
    return InputError(
        f"this conversation is too long to be written as {to}",
        help="cut it to what fits, for example max_bytes=200000000 drop=oldest",
        code="output.long",
    )


class Witnessed(msgspec.Struct, frozen=True):
    """Events that somebody looks at as they go by."""

    events: Iterable[Event]
    take: Callable[[Event], None]

    def __iter__(self) -> Iterator[Event]:
        for event in self.events:
            self.take(event)
            yield event


def _seen(record: Record, witness: Witness | None) -> Record:
    if witness is None:
        return record
    witness.meet(record)
    return record.with_events(Witnessed(record.events, witness.take))


def read(source: Source, context: Context, reader: str) -> Record:
    """The conversation as its reader tells it, before any pass."""
    options = context.options
    draft = Draft(branches=options.branches, subagents=options.subagents)
    module = load_reader(reader)
    module.read(source, draft)
    if source.half_line is not None:
        draft.note_omission(
            "half-line",
            f"line {source.half_line}",
            "the last line was not complete and is left out",
        )
    for number in source.repaired:
        draft.note_omission(
            "lone-surrogate",
            f"line {number}",
            "text that is not valid Unicode was replaced by U+FFFD",
        )
    exported_at = context.exported_at(draft.exported_at, is_export=draft.is_export)
    day = (to_utc(exported_at) or "")[:10].replace("-", "")
    record = draft.finish(lambda: _fingerprint(source), day)
    record.exported_at = exported_at
    # One of several that is empty still holds a part of its file, which comes back only if it is
    # kept.
    is_part = options.native == "full" and source.conversation is not None
    if not draft.count and not draft.is_export and not is_part:
        raise InputError(
            "there is no conversation in this input",
            where=source.name,
            help="0 events were read; is it the right file, and the right --from?",
            code="input.no-events",
        )
    return _with_native(record, source, context, module) if options.native == "full" else record


def _fingerprint(source: Source) -> str:
    """The hash of the source; of one of several conversations in it, of both."""
    if source.conversation is None:
        return source.sha256
    return hashlib.sha256(f"{source.sha256} {source.conversation}".encode()).hexdigest()


def _with_native(record: Record, source: Source, context: Context, module: Reader) -> Record:
    """The record with what the source has beside it; an export is its own source."""
    if record.is_export:
        return record
    options, policy = context.options, context.policy
    shown = (
        options.include == "include-internal"
        and options.internal == "full"
        and not policy.forbid_internal_full
    )
    return cast(
        Record,
        import_module("open_token.native").with_native(record, source, module, conceal=not shown),
    )


def _fitted(
    fit: Pass, record: Record, writer: Writer, context: Context, committed: Committed | None
) -> Record:
    """The record within max_bytes; its tie to the source depends on what is left, so room is made
    until it fits."""
    options, room = context.options, 0
    if options.max_bytes is None:
        return fit(record, context)
    while True:
        context = replace(context, measure=_measure(writer, context, room))
        if committed is None:
            return fit(record, context)
        refusal = None
        try:
            made = fit(record, context)
        except SizeLimitError as problem:
            refusal = problem
            made = fit(
                record, replace(context, options=options.changed(max_bytes=problem.smallest))
            )
        needed = _tie(made, writer, committed)
        if refusal and needed < room:  # room that was made for more than is left
            if refusal.smallest - room + needed <= options.max_bytes:
                return made
            return fit(record, replace(context, measure=_measure(writer, context, needed)))
        if needed <= room:
            if refusal:
                raise refusal
            return made
        room = needed


def _still_tied(fit: Pass, record: Record, writer: Writer, context: Context) -> Record | None:
    """An export that is exported again and stays as it is keeps its tie to its source; None when it
    does not."""
    tie = carried_tie(record, context)
    if tie is None:
        return None
    room = len(writer.tail(record, {"source": tie}, 1)) - len(
        writer.tail(record, {"source": {}}, 1)
    )
    try:
        made = fit(record, replace(context, measure=_measure(writer, context, room)))
        return made if is_as_it_was(made, tie) else None
    except (CanonicalError, SizeLimitError):
        return None


def _tie(record: Record, writer: Writer, committed: Committed) -> int:
    """The bytes of what ties a record to its source."""
    integrity: Integrity = {"hash_alg": "sha256"}
    without = len(writer.tail(record, integrity, 1))
    integrity["source"] = disclose(committed, record.events)
    return len(writer.tail(record, integrity, 1)) - without


def _measure(writer: Writer, context: Context, room: int) -> SizeEstimator:
    def frame(record: Record, count: int) -> int:
        sealed = expected_integrity(
            record, count, context.options.integrity, is_signed=context.sign is not None
        )
        return len(writer.head(record)) + len(writer.tail(record, sealed, count)) + room

    def event(item: Event, place: int) -> int:
        return len(writer.event({**item, "seq": place}, place))

    return SizeEstimator(frame, event)


def _write(record: Record, out: BinaryIO, writer: Writer, sealed: Seal, reader: str) -> Receipt:
    total = out.write(writer.head(record))
    calls = missing = 0
    for events, lines in sealed.runs(record.events, writer.event):
        if record.check is not None:
            record.check(events, lines)
        total += out.write(lines)
        kinds = [event["type"] for event in events]
        calls += kinds.count("tool_use")
        results = [
            event["content"]
            for event, kind in zip(events, kinds, strict=True)
            if kind == "tool_result"
        ]
        missing += sum(content.get("data") == MISSING for content in results)
    integrity = sealed.integrity()
    total += out.write(writer.tail(record, integrity, sealed.count))
    redaction = record.conversation.get("redaction", {}).get("notes", [])
    notes = [*record.notes, *sealed.notes]
    name, title = record.conversation["id"], record.conversation.get("title")
    return Receipt(
        reader, name, title, sealed.count, calls, missing, total, notes, redaction, integrity
    )
