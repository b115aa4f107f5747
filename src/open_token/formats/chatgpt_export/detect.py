"""Detection of ChatGPT data exports."""

from typing import Any

from open_token.formats.shared.export_archive import ExportLayout
from open_token.sources.source import Source


def _is_conversation(value: dict[str, Any]) -> bool:
    mapping = value.get("mapping")
    if not isinstance(mapping, dict) or "inserted_at" in value:
        # Exports of DeepSeek have the same tree and call the time of a conversation differently.
        return False
    if not mapping:
        return "current_node" in value
    nodes = [node for node in mapping.values() if isinstance(node, dict)]
    return any(_is_node(node) for node in nodes[:64])


def _is_node(node: dict[str, Any]) -> bool:
    return "message" in node and ("parent" in node or "children" in node)


LAYOUT = ExportLayout(
    globs=("conversations.json", "conversations-*.json"),
    sign=b'"mapping"',
    foreign_sign=b'"inserted_at"',
    is_one=_is_conversation,
    id_of=lambda value: value.get("conversation_id") or value.get("id"),
)


def sniff(source: Source) -> bool:
    """Return whether the source is a ChatGPT export."""
    return LAYOUT.sniff(source)
