"""Detection of Claude.ai data exports."""

from typing import Any

from open_token.formats.shared.export_archive import ExportLayout
from open_token.sources.source import Source


def _is_conversation(value: dict[str, Any]) -> bool:
    return isinstance(value.get("chat_messages"), list)


LAYOUT = ExportLayout(
    globs=("conversations.json", "conversations-*.json"),
    sign=b'"chat_messages"',
    is_one=_is_conversation,
    id_of=lambda value: value.get("uuid"),
    key="conversations",
)


def sniff(source: Source) -> bool:
    """Return whether the source is a Claude.ai export."""
    return LAYOUT.sniff(source)
