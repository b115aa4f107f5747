"""Pages: a conversation for people, as one HTML file or as Markdown, made from the events that the JSON export has."""

from importlib import import_module
from typing import BinaryIO, Protocol, cast

from open_token.model import Integrity, Record

_MODULES = {"html": "open_token.pages.html", "markdown": "open_token.pages.markdown"}
KINDS = tuple(_MODULES)


class Page(Protocol):
    """What a kind of page does."""

    def write(self, record: Record, integrity: Integrity | None, out: BinaryIO) -> int:
        """Write all of it; gives the count of bytes."""
        ...


def page_of(kind: str) -> Page:
    """The page of that kind, loaded when it is asked for."""
    return cast(Page, import_module(_MODULES[kind]))
