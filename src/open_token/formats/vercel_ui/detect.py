"""Detection of UIMessages and of recorded UI message streams by the types of parts and chunks."""

from typing import Any

from open_token.sources.source import Source

_ROLES = ("system", "user", "assistant", "data")
_DISTINCTIVE_FIELDS = frozenset(("toolInvocations", "experimental_attachments"))
_PART_TYPES = frozenset(
    (
        "text",
        "reasoning",
        "step-start",
        "file",
        "source",
        "source-url",
        "source-document",
        "tool-invocation",
        "dynamic-tool",
        "custom",
    )
)
_CHUNK_TYPES = frozenset(
    (
        "start",
        "start-step",
        "finish-step",
        "finish",
        "abort",
        "error",
        "message-metadata",
        "text-start",
        "text-delta",
        "text-end",
        "reasoning-start",
        "reasoning-delta",
        "reasoning-end",
        "tool-input-start",
        "tool-input-delta",
        "tool-input-available",
        "tool-input-error",
        "tool-approval-request",
        "tool-output-available",
        "tool-output-error",
        "tool-output-denied",
        "source-url",
        "source-document",
        "file",
    )
)


def sniff(source: Source) -> bool:
    """Return whether the source holds UIMessages: a list, lines, a chat, or a recorded stream."""
    if is_stream(source):
        return True
    messages = _get_first_messages(source)[:512]
    if not messages or not all(_is_message(message) for message in messages):
        return False
    return any(_is_distinctive(message) for message in messages)


def _get_first_messages(source: Source) -> list[Any]:
    messages: list[Any] = []
    for record in source.sample:
        is_chat = isinstance(record, dict) and "role" not in record
        value = record.get("messages") if is_chat else record
        messages += value if isinstance(value, list) else [record]
    return messages


def _is_message(value: Any) -> bool:
    if not isinstance(value, dict) or value.get("role") not in _ROLES or "kind" in value:
        return False
    if "parts" in value:
        parts = value["parts"]
        return isinstance(parts, list) and all(_is_part(part) for part in parts)
    return isinstance(value.get("content"), str) and "id" in value


def _is_distinctive(message: dict[str, Any]) -> bool:
    return "parts" in message or not _DISTINCTIVE_FIELDS.isdisjoint(message)


def get_type(value: Any) -> str | None:
    """Return the type of a part or a chunk."""
    kind = value.get("type") if isinstance(value, dict) else None
    return kind if isinstance(kind, str) else None


def _is_part(part: Any) -> bool:
    kind = get_type(part)
    # OpenCode has parts of the same types, with these ids.
    if kind is None or "sessionID" in part or "messageID" in part:
        return False
    return kind in _PART_TYPES or kind.startswith(("tool-", "data-"))


def is_tool(part: Any) -> bool:
    """Return whether a part is a tool call."""
    kind = get_type(part)
    return kind is not None and (kind.startswith("tool-") or kind == "dynamic-tool")


def is_chunk(value: Any) -> bool:
    """Return whether a value is a chunk of a UI message stream."""
    kind = get_type(value)
    return kind is not None and (kind in _CHUNK_TYPES or kind.startswith("data-"))


def is_stream(source: Source) -> bool:
    """Return whether the source is a recorded stream, which begins with a start."""
    records = source.sample
    if source.shape not in ("lines", "events") or len(records) < 2:
        return False
    if not all(is_chunk(record) for record in records):
        return False
    kinds = [record["type"] for record in records]
    if kinds[0] not in ("start", "start-step"):
        return False
    return any(kind.endswith("-start") or kind == "start-step" for kind in kinds)
