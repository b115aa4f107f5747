"""Import of documents: an upload is parsed by a reader and written to a new session."""

import hashlib
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Struct

from open_token.context import Context
from open_token.errors import MultipleConversationsError, OpenTokenError, UsageError
from open_token.jsontools.canonical import CanonicalError, EventsHash, encode_event
from open_token.model.document import Event, Record
from open_token.model.log_events import Json, LogEntry, NewEvent
from open_token.options import ExportOptions
from open_token.pipeline import read_record
from open_token.registry import (
    detect_format,
    load_reader,
    require_one_conversation,
    select_conversation,
)
from open_token.server.config import Limits
from open_token.server.core import bundle
from open_token.server.core.jobs import Checkpoint
from open_token.server.core.services import Services
from open_token.server.errors import ApiError, bad_request
from open_token.session import SessionState
from open_token.session.document_import import import_document
from open_token.sources.source import Source

_MAX_LISTED_IDS = 50
_BATCH_ENTRIES = 512
_BATCH_BYTES = 1 << 20
_PREVIEW_LENGTH = 2000
_encode = msgspec.json.Encoder().encode
_log = logging.getLogger("open_token.server")


@dataclass
class ParsedUpload:
    """A conversation that may become a session."""

    reader: str
    record: Record
    files: list[bundle.BundleFile] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    count: int = 0
    coerced_seqs: dict[str, int] = field(default_factory=dict)
    """The positions of events with values that had to be coerced, by event id."""

    @property
    def title(self) -> str | None:
        """The title of the conversation."""
        return cast(Json, self.record.conversation).get("title")

    @property
    def models(self) -> list[str]:
        """The models of the participants, without duplicates."""
        names: dict[str, None] = {}
        for participant in self.record.participants:
            name = cast(Json, participant).get("model")
            if isinstance(name, str):
                names[name] = None
        return list(names)

    def events(self) -> Iterator[Json]:
        """Yield the events with their positions."""
        for position, event in enumerate(self.record.events, 1):
            yield {**event, "seq": position}

    def envelope(self) -> Json:
        """Return the document without its events."""
        record = self.record
        integrity: Any = record.integrity
        if integrity is None and record.coercions:
            coercions = [
                {**item, "seq": self.coerced_seqs.get(item.get("id", ""), 0)}
                for item in record.coercions
            ]
            integrity = {"coercions": coercions}
        return {
            "conversation": record.conversation,
            "participants": record.participants,
            "exported_at": record.exported_at,
            "integrity": integrity,
        }


def sanitize_filename(name: str | None) -> str:
    """Return the last component of a client's file name, reduced to safe characters."""
    last = re.split(r"[/\\]", name or "")[-1]
    safe = re.sub(r"[^\w.-]+", "-", last, flags=re.ASCII)
    # The end is kept, for the extension. A leading dot would hide the file, a hyphen make it look
    # like an option to whoever passes it to a command.
    safe = safe[-100:].lstrip(".-")
    return safe or "upload"


def parse_upload(
    path: Path,
    limits: Limits,
    now: str,
    conversation: str | None,
    reader: str | None,
    check: Checkpoint,
) -> ParsedUpload:
    """Parse a file with the named reader, or the one that recognizes it.

    Every failure becomes an ApiError with a message for the sender."""
    try:
        return _parse_file(path, limits, now, conversation, reader, check)
    except MultipleConversationsError as problem:
        ids = ", ".join(str(item.id)[:100] for item in problem.found[:_MAX_LISTED_IDS])
        omitted = len(problem.found) - _MAX_LISTED_IDS
        rest = f" and {omitted:,} more" if omitted > 0 else ""
        detail = f"{problem.what}; choose one with the field `conversation`: {ids}{rest}"
        raise bad_request(detail, problem.code) from None
    except UsageError as problem:
        raise bad_request(f"{problem.what}; {problem.help}", problem.code) from None
    except OpenTokenError as problem:
        # A position such as `line 7` is helpful, a path of this machine must not be shown.
        has_position = problem.where and "/" not in problem.where
        position = f" ({problem.where})" if has_position else ""
        raise bad_request(f"{problem.what}{position}", problem.code) from None
    except ApiError:
        raise
    except Exception as problem:
        # A bug of a reader. The log gets the type only, the message may hold content.
        _log.warning("reader failed on an upload: %s", type(problem).__name__)
        raise bad_request("this file cannot be read as a conversation", "input.reader") from None


def _parse_file(
    path: Path,
    limits: Limits,
    now: str,
    conversation: str | None,
    wanted: str | None,
    check: Checkpoint,
) -> ParsedUpload:
    opened = bundle.open_bundle(path, limits)
    source = Source(path.name, path=opened.document if opened else path)
    if wanted:
        reader = load_reader(wanted).definition.name
    else:
        reader = detect_format(source)
    if conversation:
        select_conversation(source, reader, conversation)
    require_one_conversation(source, reader)
    options = ExportOptions.of({"branches": "all", "redact": "none"})
    context = Context(options, now=now, checkpoint=check)
    parsed = ParsedUpload(reader, read_record(source, context, reader))
    if opened:
        parsed.files = opened.files
        parsed.warnings = opened.warnings
    _scan_events(parsed, check)
    return parsed


def _scan_events(parsed: ParsedUpload, check: Checkpoint) -> None:
    """Count the events, and verify the events hash if the document has one."""
    expected = cast(Json, parsed.record.integrity or {}).get("events_hash")
    has_hash = isinstance(expected, str)
    running = EventsHash() if has_hash else None
    coerced_ids = {item.get("id") for item in parsed.record.coercions}
    for event in parsed.events():
        check()
        parsed.count += 1
        if event["id"] in coerced_ids:
            parsed.coerced_seqs[event["id"]] = event["seq"]
        if running is not None:
            try:
                running.add(encode_event(cast(Event, event)))
            except CanonicalError:
                running = None
    if has_hash and (running is None or running.hexdigest() != expected):
        parsed.warnings.append("events hash mismatch: the file was modified after its export")


class Blob(Struct, frozen=True):
    """A tool result that is too large for the log."""

    data: bytes
    media_type: str
    sha256: str


@dataclass
class Batch:
    """Entries that are written in one transaction."""

    steps: list[NewEvent] = field(default_factory=list)
    blobs: list[Blob] = field(default_factory=list)
    size: int = 0

    @property
    def is_full(self) -> bool:
        return len(self.steps) >= _BATCH_ENTRIES or self.size >= _BATCH_BYTES

    def build_steps(self, _: SessionState) -> list[NewEvent]:
        """Return the steps; the state does not matter, as nobody else writes to the session."""
        return self.steps


class DocumentWriter:
    """Writes a parsed document to a new session in batches of bounded size."""

    def __init__(
        self, services: Services, owner: str, session_id: str, parsed: ParsedUpload
    ) -> None:
        self._services = services
        self._owner = owner
        self._session_id = session_id
        self._parsed = parsed
        self._max_result_bytes = services.config.limits.frame_bytes
        self._batch = Batch()

    async def write(self, title: str, *, is_chosen: bool = False) -> None:
        """Create the session, append all entries, and mark it as completed.

        A title chosen by the user is logged as a change, because the document has its own."""
        journal = self._services.journal
        session: Json = {
            "id": self._session_id,
            "intent": title,
            "imported_from": self._parsed.reader,
        }
        entries = self._build_entries(session)
        is_new = True
        # Batch by batch, so that memory stays bounded. The session is marked as completed last: a
        # crash in between leaves one that shows it is not.
        while True:
            batch = await self._services.jobs.run(
                self._owner, lambda check: self._next_batch(entries, check)
            )
            if not batch.steps:
                break
            # Blobs come before the entries that refer to them. Those of an entry that is never
            # written are swept later.
            for blob in batch.blobs:
                await self._services.store.put_blob(blob.data, blob.media_type)
            hashes = [blob.sha256 for blob in batch.blobs]
            if is_new:
                await journal.create(self._owner, session, batch.build_steps, blobs=hashes)
            else:
                await journal.write(self._owner, self._session_id, batch.build_steps, blobs=hashes)
            is_new = False
        changes: Json = {"status": "completed"}
        if is_chosen:
            changes["intent"] = title
        completed: NewEvent = ("session.changed", {"changes": changes})
        await journal.write(self._owner, self._session_id, lambda _: [completed])

    def _build_entries(self, session: Json) -> Iterator[LogEntry]:
        state = SessionState(self._session_id)
        now = self._services.clock.now()
        state.add("session.created", {"session": session}, now)
        return import_document(state, self._events(), now, **self._parsed.envelope())

    def _next_batch(self, entries: Iterator[LogEntry], check: Checkpoint) -> Batch:
        batch = Batch()
        self._batch = batch
        for entry in entries:
            check()
            batch.steps.append((entry.kind, entry.data))
            if batch.is_full:
                break
        return batch

    def _events(self) -> Iterator[Json]:
        for event in self._parsed.events():
            if event["type"] == "tool_result":
                event = self._move_result_to_blob(event)
            self._batch.size += len(_encode(event))
            yield event

    def _move_result_to_blob(self, event: Json) -> Json:
        """Replace a result that is too large for a frame by a reference to a blob."""
        content = event.get("content")
        if not isinstance(content, dict) or len(content) != 2:
            return event
        mime = content.get("mime")
        if mime == "text/plain" and "text" in content:
            data = content["text"].encode("utf-8", "replace")
        elif mime == "application/json" and "data" in content:
            data = _encode(content["data"])
        else:
            return event
        if len(data) <= self._max_result_bytes:
            return event
        reference = self._add_blob(data, mime)
        return {**event, "content": {"mime": mime, "data": reference}}

    def _add_blob(self, data: bytes, media_type: str) -> dict[str, Any]:
        sha256 = hashlib.sha256(data).hexdigest()
        self._batch.blobs.append(Blob(data, media_type, sha256))
        # A character takes up to four bytes; the last one may be cut, and is then ignored.
        preview = data[: 4 * _PREVIEW_LENGTH].decode("utf-8", "ignore")
        return {
            "blob": sha256,
            "size": len(data),
            "media_type": media_type,
            "preview": preview[:_PREVIEW_LENGTH],
        }
