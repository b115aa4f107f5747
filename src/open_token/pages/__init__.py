"""Pages: a conversation for people, as one HTML file, as Markdown or in short, made from the events
of the export."""

from importlib import import_module
from typing import BinaryIO, Protocol, cast

from open_token.model.document import Integrity, Record

_MODULES = {
    "html": "open_token.pages.html",
    "markdown": "open_token.pages.markdown",
    "brief": "open_token.pages.brief",
}
KINDS = tuple(_MODULES)
CUT_TO_SIZE = "brief"
"""The kind of which max_bytes is the size, and not that of the document."""


class Page(Protocol):
    """What a kind of page does."""

    def write(
        self, record: Record, integrity: Integrity | None, out: BinaryIO, most: int | None = None
    ) -> int:
        """Write it, within so many bytes where it is cut to size; gives the count of bytes."""
        ...


def page_of(kind: str) -> Page:
    """The page of that kind, loaded when it is asked for."""
    return cast(Page, import_module(_MODULES[kind]))
