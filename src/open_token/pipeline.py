"""The export pipeline: read a source, run the passes, hash and write."""

import hashlib
import hmac
import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, BinaryIO, Protocol

import msgspec

from open_token.builder.draft import MISSING_RESULT, Draft
from open_token.context import Context
from open_token.errors import InputError
from open_token.formats.shared.notes import note_file_faults
from open_token.integrity.event_hashes import EventHasher, build_hasher, commit_to_source
from open_token.jsontools.timestamps import to_utc
from open_token.model.document import Event, Integrity, Record
from open_token.model.omissions import Note
from open_token.model.titles import MAX_PROMPTS, choose_title, iter_prompts
from open_token.native.compression import (
    ExpansionLimit,
    PostCheck,
    compress_native,
    expand_event,
    expand_native,
)
from open_token.passes import redact_with_check, select
from open_token.passes.fit import fit_to_size, fit_unchanged_export
from open_token.redaction.redactor import recount_kept_media
from open_token.registry import Reader, detect_format, load_reader, require_one_conversation
from open_token.sources.source import Source
from open_token.writers import (
    EXCHANGE_FORMATS,
    SIZED_PAGE_FORMAT,
    Writer,
    create_writer,
    load_exchange_writer,
    load_page_writer,
)

# Formats of other tools are built in memory.
MAX_BUFFERED = 256 << 20

# Readers whose events may hold native data that an earlier export compressed.
_EXPANDING_READERS = ("open_token", "session_server")


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


class Observer(Protocol):
    """Sees an export as it is written."""

    def meet(self, record: Record) -> None:
        """Take the facts about the whole."""
        ...

    @property
    def take(self) -> Callable[[Event], None] | None:
        """What takes each event; None if the facts about the whole are enough."""
        ...


def export(
    source: Source,
    out: BinaryIO,
    context: Context,
    reader: str | None = None,
    observer: Observer | None = None,
    to: str | None = None,
) -> Receipt:
    """Write a source as an Open-Token export, or in the format that `to` names.

    Without `reader` the format is detected. Raises InputError for a source that cannot be read,
    holds no conversation, or more than one.
    """
    max_bytes = context.options.max_bytes
    context = _adapt_context(context, source, to)
    options = context.options
    reader = reader or detect_format(source)
    require_one_conversation(source, reader)
    writer = create_writer(options.mode, options.pretty)

    original = read_record(source, context, reader)
    record = select(original, context)
    record, post_check = redact_with_check(record, context)
    if options.native == "full" or reader in _EXPANDING_READERS:
        record = compress_native(record, post_check)
    record, hasher = _fit(record, original, writer, context)
    record = _observe(record, observer)

    if to is None:
        return _write(record, out, writer, hasher, reader, post_check, context)
    # Other formats show what the export would hold, so it is checked and hashed, but not stored.
    receipt = _write(record, _open_discard(to), writer, hasher, reader, post_check, context)
    return _convert(record, receipt, out, to, max_bytes)


def _adapt_context(context: Context, source: Source, to: str | None) -> Context:
    if context.screen.allowed:
        # Allow-list entries may name the path of a source.
        context = replace(context, source=str(source.path or source.name))
    if to == SIZED_PAGE_FORMAT:
        # This writer applies `max_bytes` itself, to the page and not to the events.
        context = replace(context, options=context.options.changed(max_bytes=None))
    return context


def _fit(
    record: Record, original: Record, writer: Writer, context: Context
) -> tuple[Record, EventHasher]:
    """Return the record cut to `max_bytes`, and the hasher of its events.

    An export that no pass has changed keeps its hashes and commitments.
    """
    unchanged = fit_unchanged_export(record, writer, context)
    if unchanged is not None:
        return unchanged, build_hasher(unchanged, context, keep_disclosure=True)
    commitments = commit_to_source(compress_native(original), context)
    fitted = fit_to_size(record, writer, context, commitments)
    if fitted is not record:
        fitted = recount_kept_media(fitted)
    return fitted, build_hasher(fitted, context, commitments)


def _open_discard(to: str) -> "BoundedBuffer":
    """Return an output that stores nothing, and refuses what is too long for the format."""
    most = MAX_BUFFERED if to in EXCHANGE_FORMATS else None
    return BoundedBuffer(most, _too_long(to), keep=False)


def _convert(
    record: Record, receipt: Receipt, out: BinaryIO, to: str, max_bytes: int | None
) -> Receipt:
    """Write a finished record in another format; its losses are added to the notes."""
    if to in EXCHANGE_FORMATS:
        written, losses = load_exchange_writer(to).write(record, receipt.integrity, out)
        notes = [*receipt.notes, *losses]
        return msgspec.structs.replace(receipt, bytes=written, notes=notes)
    written = load_page_writer(to).write(record, receipt.integrity, out, max_bytes)
    return msgspec.structs.replace(receipt, bytes=written)


def read_record(source: Source, context: Context, reader: str, *, expand: bool = True) -> Record:
    """Return the conversation as its reader parses it, before any pass.

    With `expand`, native data that an earlier export compressed is plain, so that passes see it.
    """
    options = context.options
    draft = Draft(branches=options.branches, subagents=options.subagents)
    draft.checkpoint = context.checkpoint
    module = load_reader(reader)
    module.read(source, draft)
    note_file_faults(source, "", draft)
    record = _finish_draft(draft, source, context)
    record.reader = reader
    record.estimate_cost = context.estimate_cost
    _require_events(draft, source, context)
    if expand and reader in _EXPANDING_READERS:
        record = expand_native(record, ExpansionLimit.for_size(source.size))
    # An export is its own source.
    if options.native == "full" and not record.is_export:
        record = _embed_source(record, source, context, module)
    return record


def _finish_draft(draft: Draft, source: Source, context: Context) -> Record:
    exported_at = context.exported_at(draft.exported_at, is_export=draft.is_export)
    day = (to_utc(exported_at) or "")[:10].replace("-", "")
    record = draft.finish(lambda: _compute_fingerprint(source, draft, context), day)
    record.exported_at = exported_at
    return record


def _require_events(draft: Draft, source: Source, context: Context) -> None:
    """Raise InputError for a source without a single event."""
    if draft.count or draft.is_export:
        return
    if context.options.native == "full" and source.conversation is not None:
        # An empty conversation among several holds a part of its file, which must be restorable.
        return
    raise InputError(
        "there is no conversation in this input",
        where=source.name,
        help="0 events were read; is it the right file, and the right --from?",
        code="input.no-events",
    )


def _compute_fingerprint(source: Source, draft: Draft, context: Context) -> str:
    """Return what identifies the source, and the conversation if it is one of several.

    The id of a redacted export shows a part of it, from which nobody may confirm a guess of what is
    masked: it is keyed, or made from what is never masked.
    """
    name = draft.fingerprint or source.sha256
    if source.conversation is not None and not draft.fingerprint:
        name = hashlib.sha256(f"{name} {source.conversation}".encode()).hexdigest()
    if context.options.redact == "none" and context.policy.min_redact == "none":
        return name
    if context.key is not None:
        return hmac.digest(context.key, b"open-token/id/v1|" + name.encode(), "sha256").hex()
    outline = hashlib.sha256()
    for event in draft.spool:
        facts = (event["type"], event.get("role"), event.get("ts"), event["actor_id"])
        outline.update(msgspec.json.encode((facts, len(msgspec.json.encode(event["content"])))))
    return outline.hexdigest()


def _embed_source(record: Record, source: Source, context: Context, module: Reader) -> Record:
    from open_token.native.embed import embed_source
    from open_token.native.encoding import Withheld

    options = context.options
    shows_reasoning = (
        options.include == "include-internal"
        and options.internal == "full"
        and not context.policy.forbid_internal_full
    )
    withheld = Withheld(reasoning=not shows_reasoning, compressed=options.redact != "none")
    return embed_source(record, source, module, withheld=withheld)


class BoundedBuffer(io.BytesIO):
    """A buffer that raises the given error once more than `most` bytes are written."""

    def __init__(self, most: int | None, too_long: InputError, *, keep: bool = True) -> None:
        super().__init__()
        self._left = most
        self._too_long = too_long
        self._keep = keep

    def write(self, data: Any) -> int:
        """Count the bytes, and store them if they are to be kept."""
        if self._left is not None:
            self._left -= len(data)
            if self._left < 0:
                raise self._too_long
        if self._keep:
            return super().write(data)
        return len(data)


def _too_long(to: str) -> InputError:
    return InputError(
        f"this conversation is too long to be written as {to}",
        help="cut it to what fits, for example max_bytes=200000000 drop=oldest",
        code="output.long",
    )


class _ObservedEvents(msgspec.Struct, frozen=True):
    events: Iterable[Event]
    take: Callable[[Event], None]

    def __iter__(self) -> Iterator[Event]:
        for event in self.events:
            self.take(expand_event(event))
            yield event


def _observe(record: Record, observer: Observer | None) -> Record:
    """Let the observer, if any, see the record and each event as it is written."""
    if observer is None:
        return record
    observer.meet(record)
    if observer.take is None:
        return record
    return record.with_events(_ObservedEvents(record.events, observer.take))


def _write(
    record: Record,
    out: BinaryIO,
    writer: Writer,
    hasher: EventHasher,
    reader: str,
    post_check: PostCheck | None,
    context: Context,
) -> Receipt:
    """Write the record in one walk that also hashes, checks and counts its events."""
    total = out.write(writer.head(record))
    calls = 0
    missing = 0
    prompts: list[str] = []
    for events, lines in hasher.runs(record.events, writer.event):
        if context.checkpoint is not None:
            context.checkpoint()
        if post_check is not None:
            post_check(events, lines)
        total += out.write(lines)
        # One comprehension a run: a call for every event would cost more than the counting.
        kinds = [event["type"] for event in events]
        calls += kinds.count("tool_use")
        results = [event["content"] for event in events if event["type"] == "tool_result"]
        missing += sum(content.get("data") == MISSING_RESULT for content in results)
        if len(prompts) < MAX_PROMPTS:
            prompts += iter_prompts(events)
    integrity = hasher.integrity()
    total += out.write(writer.tail(record, integrity, hasher.count))
    return Receipt(
        reader=reader,
        conversation_id=record.conversation["id"],
        title=choose_title(record.conversation.get("title"), prompts, "") or None,
        events=hasher.count,
        calls=calls,
        missing_results=missing,
        bytes=total,
        notes=[*record.notes, *hasher.notes],
        redaction=record.conversation.get("redaction", {}).get("notes", []),
        integrity=integrity,
    )
