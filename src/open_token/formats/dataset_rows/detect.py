"""Detection of rows of chat datasets."""

from typing import Any

from open_token.formats.shared.export_archive import ExportLayout
from open_token.formats.shared.fields import JsonObject, as_text
from open_token.formats.shared.row_shapes import is_dataset, is_row
from open_token.sources.source import Source

_ID_COLUMNS = ("traj_id", "session_id", "conversation_id", "uuid", "id", "instance_id", "prompt_id")


def _get_id(row: JsonObject) -> Any:
    for name in _ID_COLUMNS:
        value = row.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if as_text(value):
            return value
    return None


LAYOUT = ExportLayout(globs=(), sign=b"dataset", is_one=is_row, id_of=_get_id)


def sniff(source: Source) -> bool:
    """Return whether the content is of this format."""
    return source.shape in ("lines", "document", "glued") and is_dataset(source)
