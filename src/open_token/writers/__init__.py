"""Writers: turn a record into bytes.

The document formats (json, ndjson) write event by event, so that sizes are known in advance;
exchange formats (ATIF, OpenTelemetry) and pages for people are written as a whole.
"""

from typing import BinaryIO, Protocol

from open_token.model.document import Event, Integrity, Record
from open_token.model.omissions import Note
from open_token.writers.json import JsonWriter
from open_token.writers.ndjson import NdjsonWriter

EXCHANGE_FORMATS = ("atif", "otel")
PAGE_FORMATS = ("html", "markdown", "brief")
SIZED_PAGE_FORMAT = "brief"
"""The page format whose own size max_bytes limits, instead of the size of the document."""


class Writer(Protocol):
    """Encodes a document in three parts."""

    def head(self, record: Record) -> bytes:
        """Encode everything before the first event."""
        ...

    def event(self, event: Event, position: int) -> bytes:
        """Encode one event (positions start at 1), with its separator."""
        ...

    def tail(self, record: Record, integrity: Integrity | None, count: int) -> bytes:
        """Encode everything after the last event."""
        ...


class ExchangeWriter(Protocol):
    """The interface of a module for an exchange format."""

    def write(
        self, record: Record, integrity: Integrity | None, out: BinaryIO
    ) -> tuple[int, list[Note]]:
        """Write the record; return the byte count and notes on what the format cannot hold."""
        ...


class PageWriter(Protocol):
    """The interface of a module for a page format."""

    def write(
        self,
        record: Record,
        integrity: Integrity | None,
        out: BinaryIO,
        max_bytes: int | None = None,
    ) -> int:
        """Write the page, within `max_bytes` where the format supports it; return the byte count."""
        ...


def create_writer(mode: str, pretty: bool) -> Writer:
    """Return the writer of a document mode, json or ndjson."""
    if mode == "json":
        return JsonWriter(pretty)
    return NdjsonWriter()


def load_exchange_writer(name: str) -> ExchangeWriter:
    """Import the writer of an exchange format."""
    if name == "atif":
        from open_token.writers import atif

        return atif
    from open_token.writers import otel

    return otel


def load_page_writer(name: str) -> PageWriter:
    """Import the writer of a page format."""
    if name == "html":
        from open_token.writers import html

        return html
    if name == "markdown":
        from open_token.writers import markdown

        return markdown
    from open_token.writers import brief

    return brief
