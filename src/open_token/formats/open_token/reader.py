"""Reads Open-Token exports, JSON and all three NDJSON line shapes, so that every pass can run again
on an export."""

import contextlib
from collections.abc import Iterator
from typing import Any

from open_token.builder.draft import Draft
from open_token.errors import InputError
from open_token.formats.open_token.frame import HELP, adopt, frame_of
from open_token.jsontools.canonical import CanonicalError, EventsHash, encode_event
from open_token.model.document import EVENT_TYPES, VERSION
from open_token.sources.source import Source


def read(source: Source, draft: Draft) -> None:
    """Take over the conversation, its participants and every event as they are."""
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
    frame_of(first, draft)
    if first.get("type") == "header":
        adopt(_compared(_stream(source, draft), draft), draft, source.name)
    else:
        adopt(_compared(_document(first, source), draft), draft, source.name)


def _compared(events: Iterator[tuple[str, Any]], draft: Draft) -> Iterator[tuple[str, Any]]:
    """The events; after the last one it is told when they do not have the hash that the export
    names."""
    seen = EventsHash()
    for place, event in events:
        yield place, event
        with contextlib.suppress(CanonicalError):
            seen.add(encode_event(event))
    integrity = draft.integrity or {}
    if (
        integrity.get("hash_alg") == "sha256"
        and integrity.get("events_hash", "") != seen.hexdigest()
    ):
        detail = (
            "the events do not have the hash that the export names; `open-token verify` tells more"
        )
        draft.note_omission("changed-export", "integrity.events_hash", detail)


def _document(first: dict[str, Any], source: Source) -> Iterator[tuple[str, Any]]:
    events = first.get("events", [])
    if not isinstance(events, list):
        raise InputError(
            "events is not an array", where=source.name, help=HELP, code="input.export"
        )
    for number, event in enumerate(events):
        yield f"events[{number}]", event


def _stream(source: Source, draft: Draft) -> Iterator[tuple[str, Any]]:
    complete = False
    for number, line in source.records():
        kind = line.get("type") if isinstance(line, dict) else None
        if kind == "footer":
            complete = True
            frame_of(line, draft, "footer.")
        elif kind == "event":
            yield str(number), _event_of_line(line)
        elif kind in EVENT_TYPES:
            yield str(number), line
        elif kind != "header":
            draft.note_omission(
                "skipped-record", f"line {number}", "a line that is no header, event or footer"
            )
    if not complete:
        draft.note_omission(
            "incomplete-stream",
            "the end",
            "the stream has no footer: it broke off or is still being written",
        )


def _event_of_line(line: dict[str, Any]) -> Any:
    """The event of a flat or a nested line."""
    if "event_type" not in line and "event" in line:
        return line["event"]
    event = {name: value for name, value in line.items() if name not in ("type", "event_type")}
    event["type"] = line.get("event_type")
    return event
