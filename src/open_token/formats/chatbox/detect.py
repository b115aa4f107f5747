"""Detection of backups of Chatbox."""

from typing import Any

from open_token.formats.shared.export_archive import ExportLayout
from open_token.formats.shared.fields import JsonObject
from open_token.sources.source import Source

_MARKS = ("__exported_items", "__exported_at", "chat-sessions-list", "chat-sessions")


def _is_session(value: JsonObject) -> bool:
    return isinstance(value.get("messages"), list) and "id" in value and "name" in value


LAYOUT = ExportLayout(
    globs=("chatbox-exported-data-*.json",),
    sign=b'"session:',
    is_one=_is_session,
    id_of=lambda value: value.get("id"),
    key="chat-sessions",
    key_prefix="session:",
)


def sniff(source: Source) -> bool:
    """Return whether the source is a backup of Chatbox."""
    if len(source.sample) != 1 or not _is_backup(source.sample[0]):
        return False
    return LAYOUT.sniff(source)


def _is_backup(value: Any) -> bool:
    return isinstance(value, dict) and any(mark in value for mark in _MARKS)
