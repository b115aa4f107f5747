"""Writes one JSON document, event by event."""

import orjson

from open_token.model.document import VERSION, Event, Integrity, Record


class JsonDocument:
    """One JSON object, indented or compact."""

    def __init__(self, pretty: bool) -> None:
        self._pretty = pretty

    def head(self, record: Record) -> bytes:
        """The top-level keys up to the opening of `events`."""
        parts: dict[str, object] = {"open_token_version": VERSION}
        if record.exported_at:
            parts["exported_at"] = record.exported_at
        parts["conversation"] = record.conversation
        parts["participants"] = record.participants
        if self._pretty:
            return orjson.dumps(parts, option=orjson.OPT_INDENT_2)[:-2] + b',\n  "events": ['
        return orjson.dumps(parts)[:-1] + b',"events":['

    def event(self, event: Event, place: int) -> bytes:
        """One element of `events`."""
        comma = b"" if place == 1 else b","
        if not self._pretty:
            return comma + orjson.dumps(event)
        return (
            comma
            + b"\n    "
            + orjson.dumps(event, option=orjson.OPT_INDENT_2).replace(b"\n", b"\n    ")
        )

    def tail(self, record: Record, integrity: Integrity | None, count: int) -> bytes:
        """The end of `events`, and the integrity object."""
        if not self._pretty:
            return (
                b"]" + (b',"integrity":' + orjson.dumps(integrity) if integrity else b"") + b"}\n"
            )
        end = b"\n  ]" if count else b"]"
        if integrity:
            end += b',\n  "integrity": ' + orjson.dumps(
                integrity, option=orjson.OPT_INDENT_2
            ).replace(b"\n", b"\n  ")
        return end + b"\n}\n"
