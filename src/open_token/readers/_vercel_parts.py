"""The parts of a UIMessage, told apart by their type."""

from typing import Any

KINDS = frozenset(
    "text reasoning step-start file source source-url source-document tool-invocation dynamic-tool custom".split()
)
FAMILIES = ("tool-", "data-")


def is_part(part: Any) -> bool:
    """Whether a value is a part of a UIMessage; OpenCode and Gemini have parts too, of other kinds."""
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(kind, str) or "sessionID" in part or "messageID" in part:
        return False
    return kind in KINDS or kind.startswith(FAMILIES)


def is_tool(part: Any) -> bool:
    """Whether a part is a call of a tool."""
    kind = part.get("type") if isinstance(part, dict) else None
    return isinstance(kind, str) and (kind.startswith("tool-") or kind == "dynamic-tool")
