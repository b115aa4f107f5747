"""Detection of DeepSeek data exports."""

from typing import Any

from open_token.formats.shared.export_archive import ExportLayout
from open_token.formats.shared.fields import JsonObject
from open_token.sources.source import Source


def _is_conversation(value: JsonObject) -> bool:
    if not isinstance(value.get("mapping"), dict) or "inserted_at" not in value:
        return False
    return all(_is_node(node) for node in list(value["mapping"].values())[:8])


def _is_node(node: Any) -> bool:
    return isinstance(node, dict) and "parent" in node and "message" in node


LAYOUT = ExportLayout(
    globs=("conversations.json",),
    sign=b'"inserted_at"',
    is_one=_is_conversation,
    id_of=lambda value: value.get("id"),
)


def sniff(source: Source) -> bool:
    """Return whether the source is a DeepSeek export."""
    return LAYOUT.sniff(source)
