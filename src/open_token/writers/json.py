"""Writer for one JSON document, event by event."""

import orjson

from open_token.model.document import VERSION, Event, Integrity, Record


class JsonWriter:
    """Encodes one JSON object, indented or compact."""

    def __init__(self, pretty: bool) -> None:
        self._pretty = pretty

    def head(self, record: Record) -> bytes:
        """Encode the top-level keys up to the opening of `events`."""
        parts: dict[str, object] = {"open_token_version": VERSION}
        if record.exported_at:
            parts["exported_at"] = record.exported_at
        parts["conversation"] = record.conversation
        parts["participants"] = record.participants
        if self._pretty:
            return orjson.dumps(parts, option=orjson.OPT_INDENT_2)[:-2] + b',\n  "events": ['
        return orjson.dumps(parts)[:-1] + b',"events":['

    def event(self, event: Event, position: int) -> bytes:
        """Encode one element of `events`."""
        comma = b"" if position == 1 else b","
        if not self._pretty:
            return comma + orjson.dumps(event)
        return comma + b"\n    " + _indent(event, b"\n    ")

    def tail(self, record: Record, integrity: Integrity | None, count: int) -> bytes:
        """Encode the end of `events`, and the integrity object."""
        if not self._pretty:
            if not integrity:
                return b"]}\n"
            return b'],"integrity":' + orjson.dumps(integrity) + b"}\n"
        end = b"\n  ]" if count else b"]"
        if integrity:
            end += b',\n  "integrity": ' + _indent(integrity, b"\n  ")
        return end + b"\n}\n"


def _indent(value: object, line_start: bytes) -> bytes:
    encoded = orjson.dumps(value, option=orjson.OPT_INDENT_2)
    return encoded.replace(b"\n", line_start)
