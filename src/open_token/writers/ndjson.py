"""Writes newline-delimited JSON: a header, one flat line per event, a footer."""

import orjson

from open_token.model.document import VERSION, Event, Integrity, Record

_LINE = orjson.OPT_APPEND_NEWLINE


class Ndjson:
    """One record a line; an event's own type stands under event_type."""

    def head(self, record: Record) -> bytes:
        """The header line, which also carries the conversation and its participants."""
        parts: dict[str, object] = {"type": "header", "open_token_version": VERSION}
        if record.exported_at:
            parts["exported_at"] = record.exported_at
        parts["conversation"] = record.conversation
        parts["participants"] = record.participants
        return orjson.dumps(parts, option=orjson.OPT_APPEND_NEWLINE)

    def event(self, event: Event, place: int) -> bytes:
        """One event line."""
        line: dict[str, object] = {"type": "event", "event_type": event["type"], **event}
        line["type"] = "event"
        return orjson.dumps(line, None, _LINE)

    def late_tail(self, record: Record, integrity: Integrity | None) -> bytes:
        """The footer of a stream whose header was written before all was known."""
        parts: dict[str, object] = {"type": "footer", "conversation": record.conversation}
        parts["participants"] = record.participants
        if integrity:
            parts["integrity"] = integrity
        return orjson.dumps(parts, option=orjson.OPT_APPEND_NEWLINE)

    def tail(self, record: Record, integrity: Integrity | None, count: int) -> bytes:
        """The footer line: without it a stream is incomplete."""
        parts: dict[str, object] = {"type": "footer"}
        if integrity:
            parts["integrity"] = integrity
        return orjson.dumps(parts, option=orjson.OPT_APPEND_NEWLINE)
