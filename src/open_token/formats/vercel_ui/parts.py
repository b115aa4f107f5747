"""The parts of a UIMessage and the chunks of its stream, told apart by their type."""

from typing import Any

KINDS = frozenset(
    "text reasoning step-start file source source-url source-document tool-invocation dynamic-tool custom".split()
)
FAMILIES = ("tool-", "data-")
CHUNKS = frozenset(
    "start start-step finish-step finish abort error message-metadata text-start text-delta text-end reasoning-start"
    " reasoning-delta reasoning-end tool-input-start tool-input-delta tool-input-available tool-input-error"
    " tool-approval-request tool-output-available tool-output-error tool-output-denied source-url source-document"
    " file".split()
)


def is_part(part: Any) -> bool:
    """Whether a value is a part of a UIMessage; OpenCode and Gemini have parts too, of other
    kinds."""
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(kind, str) or "sessionID" in part or "messageID" in part:
        return False
    return kind in KINDS or kind.startswith(FAMILIES)


def is_tool(part: Any) -> bool:
    """Whether a part is a call of a tool."""
    kind = part.get("type") if isinstance(part, dict) else None
    return isinstance(kind, str) and (kind.startswith("tool-") or kind == "dynamic-tool")


def is_chunk(value: Any) -> bool:
    """Whether a value is a chunk of a UI message stream."""
    kind = value.get("type") if isinstance(value, dict) else None
    return isinstance(kind, str) and (kind in CHUNKS or kind.startswith("data-"))


def is_stream(records: list[Any]) -> bool:
    """Whether records are such a stream: it begins with a start, and every answer with a step or a
    part."""
    if len(records) < 2 or not all(is_chunk(record) for record in records):
        return False
    kinds = [record["type"] for record in records]
    return kinds[0] in ("start", "start-step") and any(
        kind.endswith("-start") or kind == "start-step" for kind in kinds
    )
