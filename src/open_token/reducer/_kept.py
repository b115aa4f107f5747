"""What an event of an Open-Token document is in a turn: a block, a call, a result, or nothing that
turns can show."""

from typing import Any, cast

import msgspec

from open_token.entries import Json
from open_token.turns import BlockType, ContentBlock, ToolCallProjection

MISSING = {"missing_result": True}
_BESIDE = (
    "tool_ui",
    "tool_bridge",
    "mode_change",
    "planning_enter",
    "planning_exit",
    "plan_status",
)
_SIGNS = ("kind", "native_call_id")


def content_of(event: Json) -> Any:
    """What an event holds: its text, or else its data."""
    content = event.get("content")
    held = content if isinstance(content, dict) else {}
    return held["text"] if isinstance(held.get("text"), str) else held.get("data")


def call_of(event: Json, tool_call_id: str) -> ToolCallProjection | None:
    """The call that a tool_use is."""
    if event.get("type") != "tool_use":
        return None
    data = content_of(event)
    held = data if isinstance(data, dict) else {"arguments": data}
    name, shown = held.get("tool_name"), held.get("display_name")
    tool = name if isinstance(name, str) and name else "tool"
    return ToolCallProjection(
        id=tool_call_id,
        tool_name=tool,
        display_name=shown if isinstance(shown, str) and shown else tool,
        arguments=_as_text(held.get("arguments", {})),
    )


def _as_text(arguments: Any) -> str:
    """Arguments that were no JSON stand as they were written."""
    if (
        isinstance(arguments, dict)
        and arguments.keys() == {"raw"}
        and isinstance(arguments["raw"], str)
    ):
        return arguments["raw"]
    return msgspec.json.encode(arguments).decode()


def result_of(event: Json) -> tuple[Any, Any] | None:
    """What a tool_result gave back, and the status of its call; a result that never came cancels
    the call."""
    if event.get("type") != "tool_result":
        return None
    output = content_of(event)
    return (None, "cancelled") if output == MISSING else (output, "done")


def block_of(event: Json) -> ContentBlock | None:
    """The block that shows a message, a fact beside the talk that turns know of, or a result whose
    call is unknown."""
    if event.get("type") == "message":
        hidden = event.get("role") == "assistant_thought"
        said = content_of(event)
        if hidden and not isinstance(said, str):
            said = ""
        return ContentBlock(type="thinking" if hidden else "text", content=said)
    if event.get("type") == "annotation":
        return _beside(content_of(event))
    if (orphan := result_of(event)) is not None:
        links = event.get("links")
        named = links.get("call_id") if isinstance(links, dict) else None
        call = named if isinstance(named, str) else None
        held = {"tool_call_id": call, "result": orphan[0], "status": orphan[1]}
        return ContentBlock(type="tool_result", content=held, tool_call_id=call)
    return None


def _beside(data: Any) -> ContentBlock | None:
    kind = data.get("kind") if isinstance(data, dict) else None
    if kind == "notice" and isinstance(data.get("text"), str):
        return ContentBlock(type="system_notification", content=data["text"])
    if kind not in _BESIDE:
        return None
    held = {name: value for name, value in data.items() if name not in _SIGNS}
    native = data.get("native_call_id")
    return ContentBlock(
        type=cast(BlockType, kind),
        content=held or None,
        tool_call_id=native if isinstance(native, str) else None,
    )
