"""Represent an event of an Open-Token document in a turn: as a block, a tool call or a result."""

from typing import Any, cast

import msgspec

from open_token.jsontools.objects import get_content
from open_token.model.log_events import Json
from open_token.model.session_types import BlockType, ContentBlock, ToolCallProjection

MISSING_RESULT = {"missing_result": True}
_ANNOTATION_BLOCKS = (
    "tool_ui",
    "tool_bridge",
    "mode_change",
    "planning_enter",
    "planning_exit",
    "plan_status",
)
_ANNOTATION_KEYS = ("kind", "native_call_id")


def to_tool_call(event: Json, tool_call_id: str) -> ToolCallProjection | None:
    """Return the call that a `tool_use` event represents; None for other events."""
    if event.get("type") != "tool_use":
        return None
    data = get_content(event)
    if not isinstance(data, dict):
        data = {"arguments": data}
    tool_name = data.get("tool_name")
    if not isinstance(tool_name, str) or not tool_name:
        tool_name = "tool"
    display_name = data.get("display_name")
    if not isinstance(display_name, str) or not display_name:
        display_name = tool_name
    return ToolCallProjection(
        id=tool_call_id,
        tool_name=tool_name,
        display_name=display_name,
        arguments=_encode_arguments(data.get("arguments", {})),
    )


def _encode_arguments(arguments: Any) -> str:
    # Arguments that were not valid JSON are exported as {"raw": text}.
    if isinstance(arguments, dict) and arguments.keys() == {"raw"}:
        raw = arguments["raw"]
        if isinstance(raw, str):
            return raw
    return msgspec.json.encode(arguments).decode()


def to_tool_result(event: Json) -> tuple[Any, Any] | None:
    """Return the output of a `tool_result` event and the status of its call.

    A result that is missing from the source means that the call was cancelled.
    """
    if event.get("type") != "tool_result":
        return None
    output = get_content(event)
    if output == MISSING_RESULT:
        return None, "cancelled"
    return output, "done"


def to_block(event: Json) -> ContentBlock | None:
    """Return the block that shows a message, a known annotation, or a result without a call."""
    event_type = event.get("type")
    if event_type == "message":
        return _to_message_block(event)
    if event_type == "annotation":
        return _to_annotation_block(get_content(event))
    result = to_tool_result(event)
    if result is None:
        return None
    links = event.get("links")
    call_id = links.get("call_id") if isinstance(links, dict) else None
    if not isinstance(call_id, str):
        call_id = None
    output, status = result
    content = {"tool_call_id": call_id, "result": output, "status": status}
    return ContentBlock(type="tool_result", content=content, tool_call_id=call_id)


def describe_part(part: Any) -> str:
    """Return the text of a part of a message, or what stands for an image or a file."""
    if isinstance(part, str):
        return part
    kind = part.get("type") if isinstance(part, dict) else None
    if kind == "text" and isinstance(part.get("text"), str):
        return str(part["text"])
    if kind == "image_url":
        return "[image]"
    if kind != "file":
        return f"[{kind}]" if isinstance(kind, str) else "[data]"
    file = part.get("file", part)
    if isinstance(file, str):
        return f"[file: {file}]"
    names = []
    if isinstance(file, dict):
        names = [file.get(key) for key in ("path", "name", "filename")]
    name = next((name for name in names if isinstance(name, str)), "without a name")
    return f"[file: {name}]"


def _to_message_block(event: Json) -> ContentBlock:
    content = get_content(event)
    if event.get("role") != "assistant_thought":
        if isinstance(content, str):
            return ContentBlock(type="text", content=content)
        parts = content if isinstance(content, list) else [content]
        text = "\n".join(describe_part(part) for part in parts)
        return ContentBlock(type="text", content=text, more={"parts": parts})
    return ContentBlock(type="thinking", content=content if isinstance(content, str) else "")


def _to_annotation_block(data: Any) -> ContentBlock | None:
    if not isinstance(data, dict):
        return None
    kind = data.get("kind")
    if kind == "notice" and isinstance(data.get("text"), str):
        return ContentBlock(type="system_notification", content=data["text"])
    if kind not in _ANNOTATION_BLOCKS:
        return None
    content = {name: value for name, value in data.items() if name not in _ANNOTATION_KEYS}
    call_id = data.get("native_call_id")
    return ContentBlock(
        type=cast(BlockType, kind),
        content=content or None,
        tool_call_id=call_id if isinstance(call_id, str) else None,
    )
