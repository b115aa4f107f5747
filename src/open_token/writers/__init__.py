"""Writers: each turns a record into bytes, event by event so that sizes can be told in advance, or
whole for others."""

from importlib import import_module
from typing import BinaryIO, Protocol, cast

from open_token.model.document import Event, Integrity, Note, Record
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


class Form(Protocol):
    """What the module of a format of others defines."""

    def write(
        self, record: Record, integrity: Integrity | None, out: BinaryIO
    ) -> tuple[int, list[Note]]:
        """Write all of it; gives the count of bytes, and what has no place in that format."""
        ...


FORMS = ("atif", "otel")
"""Formats of others, which their tools take."""


def form_of(name: str) -> Form:
    """The format of that name, loaded when it is asked for."""
    return cast(Form, import_module(f"open_token.writers.{name}"))


__all__ = ["FORMS", "Form", "JsonDocument", "Ndjson", "Writer", "form_of", "writer_for"]
