"""Reading a whole session into memory as an Open-Token document."""

from typing import cast

import msgspec

from open_token.context import Context
from open_token.errors import InputError
from open_token.model.document import Export
from open_token.pipeline import BoundedBuffer, Receipt, export
from open_token.sources.source import Source


def read_document(
    source: Source, reader: str, context: Context, max_bytes: int, too_large: InputError
) -> tuple[Export, Receipt]:
    """Convert a source in memory; raise `too_large` for a document of more than `max_bytes`."""
    out = BoundedBuffer(max_bytes, too_large)
    receipt = export(source, out, context, reader)
    return cast(Export, msgspec.json.decode(out.getvalue())), receipt
