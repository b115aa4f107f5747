"""The Vercel AI SDK: lists of UIMessages, of parts since version 5, and the stream that such a
message arrives in."""

from typing import Any

from open_token.formats.vercel_ui.parts import is_part, is_stream
from open_token.sources.source import Source

_ROLES = ("system", "user", "assistant", "data")
_OWN = frozenset(("toolInvocations", "experimental_attachments"))


def sniff(source: Source) -> bool:
    """Whether it is such messages: a list, lines, a chat that holds a list, or a saved stream."""
    if source.shape in ("lines", "events") and is_stream(source.sample):
        return True
    messages = listed(source)[:512]
    if not messages or not all(_is_message(message) for message in messages):
        return False
    return any("parts" in message or not _OWN.isdisjoint(message) for message in messages)


def listed(source: Source) -> list[Any]:
    """The messages that the source begins with."""
    found: list[Any] = []
    for record in source.sample:
        is_chat = isinstance(record, dict) and "role" not in record
        held = record.get("messages") if is_chat else record
        found += held if isinstance(held, list) else [record]
    return found


def _is_message(value: Any) -> bool:
    if not isinstance(value, dict) or value.get("role") not in _ROLES or "kind" in value:
        return False
    if "parts" in value:
        parts = value["parts"]
        return isinstance(parts, list) and all(is_part(part) for part in parts)
    return isinstance(value.get("content"), str) and "id" in value
