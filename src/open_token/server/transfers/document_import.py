"""Uploads that are parsed by a reader, with what is checked in untrusted ones."""

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from open_token.context import Context
from open_token.errors import MultipleConversationsError, OpenTokenError, UsageError
from open_token.jsontools.canonical import CanonicalError, EventsHash, encode_event
from open_token.model.document import Event, Record
from open_token.model.log_events import Json
from open_token.options import ExportOptions
from open_token.pipeline import read_record
from open_token.registry import (
    detect_format,
    load_reader,
    require_one_conversation,
    select_conversation,
)
from open_token.server.config import Limits
from open_token.server.errors import ApiError, bad_request
from open_token.server.transfers import bundle
from open_token.server.transfers.jobs import Checkpoint
from open_token.sources.source import Source

_MAX_LISTED_IDS = 50
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
    except (ApiError, MemoryError):
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
