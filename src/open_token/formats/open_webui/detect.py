"""Detection of exports of Open WebUI."""

from typing import Any

from open_token.formats.shared.export_archive import ExportLayout
from open_token.formats.shared.fields import JsonObject, get_dict
from open_token.sources.source import Source

_MAX_INSPECTED = 8


def get_chat(value: JsonObject) -> JsonObject:
    """Return the chat of a row of the export, or the value itself, where it is the chat alone."""
    return get_dict(value, "chat") or value


def _is_chat(value: JsonObject) -> bool:
    chat = get_chat(value)
    messages = get_dict(chat, "history").get("messages")
    if not isinstance(messages, dict) or "title" not in chat:
        return False
    first = list(messages.values())[:_MAX_INSPECTED]
    return not first or any(_is_message(message) for message in first)


def _is_message(message: Any) -> bool:
    return isinstance(message, dict) and "role" in message and "childrenIds" in message


LAYOUT = ExportLayout(
    globs=("chat-export-*.json",),
    sign=b'"childrenIds"',
    is_one=_is_chat,
    id_of=lambda value: value.get("id"),
)


def sniff(source: Source) -> bool:
    """Return whether the source is an export of Open WebUI."""
    return source.shape not in ("zip", "folder") and LAYOUT.sniff(source)
