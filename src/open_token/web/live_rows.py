"""What an agent of the session server said and did, as the rows of a page."""

from typing import Any, Literal

import msgspec

from open_token.formats.shared.messages import unpack_output
from open_token.writers.html.items import render_item
from open_token.writers.overview import build_overview
from open_token.writers.timeline import Item


class Part(msgspec.Struct):
    """A text, a thought, or a tool call that has ended."""

    kind: Literal["say", "thought", "call"]
    text: str = ""
    tool: str = ""
    arguments: str = ""
    """JSON, as the model wrote it."""
    result: Any = None
    status: str = ""


def render_part(part: Part) -> str:
    """Render a part as a page does."""
    return render_item(_build_item(part), build_overview(()), set()).html


def _build_item(part: Part) -> Item:
    if part.kind != "call":
        return Item(part.kind, {"type": "message", "content": _build_content(part.text)})
    data = {"tool_name": part.tool, "arguments": _parse_arguments(part.arguments)}
    item = Item("call", {"type": "tool_use", "content": _build_content(data)})
    if part.status in ("done", "error"):
        content = _build_content(unpack_output(part.result))
        item.result = {"type": "tool_result", "content": content}
    if part.status == "error":
        item.facts = {"is_error": True}
    return item


def _build_content(value: Any) -> Any:
    if isinstance(value, str):
        return {"mime": "text/plain", "text": value}
    return {"mime": "application/json", "data": value}


def _parse_arguments(arguments: str) -> Any:
    try:
        return msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return arguments
