"""The Vercel AI SDK: lists of UIMessages, of parts since version 5, and the stream that such a
message arrives in."""

from importlib import import_module
from typing import Any

from open_token.draft import Draft
from open_token.readers._vercel_parts import is_part, is_stream
from open_token.source import Source

TITLE = "Vercel AI SDK (UIMessage)"
PLACES: tuple[str, ...] = ()
SEEN = "messages and streams of version 6; 4 and 5 described, not seen"
CARRIES = "texts, reasoning, files, sources, data parts, metadata, calls with their outputs, errors and approvals"
LEAVES = "provider metadata, and where a step begins"
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


def read(source: Source, draft: Draft) -> None:
    """Tell the conversation; what that takes is loaded only now."""
    import_module("open_token.readers._vercel_ui").read(source, draft)
