"""Writers: each turns a record into bytes in three steps (head, events, tail), so that sizes can be told in advance."""

from typing import Protocol

from open_token.model import Event, Integrity, Record
from open_token.writers.json_document import JsonDocument
from open_token.writers.ndjson import Ndjson


class Writer(Protocol):
    """What a writer does."""

    def head(self, record: Record) -> bytes:
        """Everything before the first event."""
        ...

    def event(self, event: Event, place: int) -> bytes:
        """One event at a place (from 1), with its separator."""
        ...

    def tail(self, record: Record, integrity: Integrity | None, count: int) -> bytes:
        """Everything after the last event."""
        ...


def writer_for(mode: str, pretty: bool) -> Writer:
    """The writer of that mode."""
    return JsonDocument(pretty) if mode == "json" else Ndjson()


__all__ = ["JsonDocument", "Ndjson", "Writer", "writer_for"]
