"""Reader of Open-Token exports, so that every pass can run again on an export.

It reads JSON and all three line shapes of NDJSON.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

from open_token.builder.draft import Draft
from open_token.errors import InputError
from open_token.formats.open_token.frame import HELP, add_events, read_frame
from open_token.formats.shared.fields import JsonObject
from open_token.jsontools.canonical import CanonicalError, EventsHash, encode_event
from open_token.model.document import EVENT_TYPES, VERSION
from open_token.sources.source import Source


def read(source: Source, draft: Draft) -> None:
    """Add the conversation, its participants and every event as they are."""
    draft.is_export = True
    first = source.sample[0] if source.sample else None
    if not isinstance(first, dict) or "open_token_version" not in first:
        raise InputError(
            "this is not an Open-Token export", where=source.name, help="leave --from out"
        )
    if first["open_token_version"] != VERSION:
        raise InputError(
            "this export has a version that this program does not know",
            where=source.name,
            help="export it with a newer open-token",
        )
    read_frame(first, draft)
    if first.get("type") == "header":
        events = _read_stream(source, draft)
    else:
        events = _read_document(first, source)
    add_events(_check_hash(events, draft), draft, source.name)
    if source.first_fault is not None:
        # An export is whole or it is none: its hash covers every event.
        raise source.first_fault


def _check_hash(events: Iterator[tuple[str, Any]], draft: Draft) -> Iterator[tuple[str, Any]]:
    """Yield the events; after the last one, note whether they differ from the hash."""
    computed = EventsHash()
    for place, event in events:
        yield place, event
        with contextlib.suppress(CanonicalError):
            computed.add(encode_event(event))
    integrity = draft.integrity or {}
    if integrity.get("hash_alg") != "sha256":
        return
    if integrity.get("events_hash", "") != computed.hexdigest():
        draft.note_omission(
            "changed-export",
            "integrity.events_hash",
            "the events do not have the hash that the export names; `open-token verify` tells more",
        )


def _read_document(document: JsonObject, source: Source) -> Iterator[tuple[str, Any]]:
    events = document.get("events", [])
    if not isinstance(events, list):
        raise InputError(
            "events is not an array", where=source.name, help=HELP, code="input.export"
        )
    for number, event in enumerate(events):
        yield f"events[{number}]", event


def _read_stream(source: Source, draft: Draft) -> Iterator[tuple[str, Any]]:
    is_complete = False
    for number, line in source.records():
        kind = line.get("type") if isinstance(line, dict) else None
        if kind == "footer":
            is_complete = True
            read_frame(line, draft, "footer.")
        elif kind == "event":
            yield str(number), _parse_event_line(line)
        elif kind in EVENT_TYPES:
            yield str(number), line
        elif kind != "header":
            draft.note_omission(
                "skipped-record", f"line {number}", "a line that is no header, event or footer"
            )
    if not is_complete:
        draft.note_omission(
            "incomplete-stream",
            "the end",
            "the stream has no footer: it broke off or is still being written",
        )


def _parse_event_line(line: JsonObject) -> Any:
    """Return the event of a flat or a nested line."""
    if "event_type" not in line and "event" in line:
        return line["event"]
    event = {name: value for name, value in line.items() if name not in ("type", "event_type")}
    event["type"] = line.get("event_type")
    return event
