"""Writer for newline-delimited JSON: a header, one flat line per event, a footer."""

import orjson

from open_token.model.document import VERSION, Event, Integrity, Record

_LINE = orjson.OPT_APPEND_NEWLINE


class NdjsonWriter:
    """Encodes one record per line; the type of an event is in `event_type`."""

    def head(self, record: Record) -> bytes:
        """Encode the header line, which includes the conversation and its participants."""
        parts: dict[str, object] = {"type": "header", "open_token_version": VERSION}
        if record.exported_at:
            parts["exported_at"] = record.exported_at
        parts["conversation"] = record.conversation
        parts["participants"] = record.participants
        return orjson.dumps(parts, option=_LINE)

    def event(self, event: Event, position: int) -> bytes:
        """Encode one event line."""
        line: dict[str, object] = {"type": "event", "event_type": event["type"], **event}
        line["type"] = "event"
        return orjson.dumps(line, None, _LINE)

    def stream_tail(self, record: Record, integrity: Integrity | None) -> bytes:
        """Encode the footer of a stream whose header was written before everything was known."""
        parts: dict[str, object] = {"type": "footer", "conversation": record.conversation}
        parts["participants"] = record.participants
        if integrity:
            parts["integrity"] = integrity
        return orjson.dumps(parts, option=_LINE)

    def tail(self, record: Record, integrity: Integrity | None, count: int) -> bytes:
        """Encode the footer line: without it a stream is incomplete."""
        parts: dict[str, object] = {"type": "footer"}
        if integrity:
            parts["integrity"] = integrity
        return orjson.dumps(parts, option=_LINE)
