"""Detection of exports of Chatbot UI."""

from open_token.formats.shared.export_archive import ExportLayout
from open_token.formats.shared.fields import JsonObject
from open_token.sources.source import Source


def _is_conversation(value: JsonObject) -> bool:
    if not isinstance(value.get("messages"), list) or not isinstance(value.get("model"), dict):
        return False
    return "prompt" in value and "folderId" in value


LAYOUT = ExportLayout(
    globs=("*.json",),
    sign=b'"history"',
    is_one=_is_conversation,
    id_of=lambda value: value.get("id"),
    key="history",
)


def sniff(source: Source) -> bool:
    """Return whether the source is an export of Chatbot UI."""
    return source.shape not in ("zip", "folder") and LAYOUT.sniff(source)
