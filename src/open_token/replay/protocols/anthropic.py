"""Anthropic Messages API."""

from collections.abc import Iterator
from typing import Any

import msgspec

from open_token.jsontools.objects import as_list, as_object, as_text
from open_token.replay.protocols.encoding import encode_named_event, parse_limit
from open_token.replay.requests import (
    Item,
    Message,
    ModelRequest,
    ModelResponse,
    Tool,
    ToolCall,
    ToolResult,
)
from open_token.replay.text import MEDIA, flatten_text, is_media

_USAGE = {
    "input_tokens": 1,
    "output_tokens": 1,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
}


def parse_request(body: dict[str, Any], target: str) -> ModelRequest:
    """Parse a request. System entries among the messages are ignored: the agent adds them."""
    items: list[Item] = []
    for message in map(as_object, as_list(body.get("messages"))):
        role = message.get("role")
        if role not in ("user", "assistant"):
            continue
        content = message.get("content")
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        for block in as_list(content):
            items += _parse_block(as_object(block), is_model=role == "assistant")
    output_config = as_object(body.get("output_config"))
    output_format = as_object(output_config.get("format") or body.get("output_format"))
    return ModelRequest(
        protocol="anthropic",
        model=as_text(body.get("model")),
        stream=body.get("stream") is True,
        items=items,
        tools=[_parse_tool(as_object(tool)) for tool in as_list(body.get("tools"))],
        system=flatten_text(body.get("system")),
        schema=output_format.get("schema"),
        wants_json=bool(output_format),
        limit=parse_limit(body.get("max_tokens")),
    )


def _parse_block(block: dict[str, Any], *, is_model: bool) -> Iterator[Item]:
    kind = block.get("type")
    text = as_text(block.get("text"))
    if kind == "text" and text:
        yield Message("model" if is_model else "user", text)
    elif kind == "tool_use" and is_model:
        call_id = as_text(block.get("id"))
        name = as_text(block.get("name"))
        yield ToolCall(call_id, name, block.get("input"))
    elif is_media(block) and not is_model:
        yield Message("user", MEDIA)
    elif kind == "tool_result":
        call_id = as_text(block.get("tool_use_id"))
        output = flatten_text(block.get("content"))
        yield ToolResult(call_id, "", output)


def _parse_tool(tool: dict[str, Any]) -> Tool:
    return Tool(as_text(tool.get("name")), as_object(tool.get("input_schema")))


def render_reply(response: ModelResponse, request: ModelRequest) -> bytes:
    """Encode a response as one message."""
    blocks = [_build_block(part) for part in response.parts]
    return msgspec.json.encode(
        _build_message(response, request, blocks, _get_stop_reason(response))
    )


def render_stream(response: ModelResponse, request: ModelRequest) -> bytes:
    """Encode a response as named events."""
    return b"".join(encode_named_event(event) for event in _iter_events(response, request))


def render_error(status: int, message: str) -> bytes:
    """Encode an error."""
    error = {"type": "invalid_request_error", "message": message}
    return msgspec.json.encode({"type": "error", "error": error})


def _build_block(part: str | ToolCall) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    return {"type": "tool_use", "id": part.id, "name": part.name, "input": part.arguments}


def _build_message(
    response: ModelResponse,
    request: ModelRequest,
    content: list[dict[str, Any]],
    stop_reason: str | None,
) -> dict[str, Any]:
    return {
        "id": f"msg_{response.id}",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": _USAGE,
    }


def _get_stop_reason(response: ModelResponse) -> str:
    if response.calls:
        return "tool_use"
    return "end_turn"


def _iter_events(response: ModelResponse, request: ModelRequest) -> Iterator[dict[str, Any]]:
    yield {"type": "message_start", "message": _build_message(response, request, [], None)}
    for index, part in enumerate(response.parts):
        empty: dict[str, Any]
        if isinstance(part, str):
            empty = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": part}
        else:
            empty = {**_build_block(part), "input": {}}
            arguments = msgspec.json.encode(part.arguments).decode()
            delta = {"type": "input_json_delta", "partial_json": arguments}
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    end = {"stop_reason": _get_stop_reason(response), "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": 1}}
    yield {"type": "message_stop"}
