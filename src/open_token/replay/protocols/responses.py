"""OpenAI Responses API: a flat list of items, streamed as they grow and again when done."""

from collections.abc import Iterator
from typing import Any

import msgspec

from open_token.jsontools.objects import as_list, as_object, as_text
from open_token.replay.protocols.encoding import (
    encode_named_event,
    encode_openai_error,
    parse_arguments,
    parse_limit,
)
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
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 1,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 2,
}


def parse_request(body: dict[str, Any], target: str) -> ModelRequest:
    """Parse a request; developer messages are ignored."""
    content = body.get("input")
    items: list[Item] = []
    if isinstance(content, str):
        items.append(Message("user", content))
    for item in map(as_object, as_list(content)):
        items += _parse_item(item)
    text_format = as_object(as_object(body.get("text")).get("format"))
    return ModelRequest(
        protocol="responses",
        model=as_text(body.get("model")),
        stream=body.get("stream") is True,
        items=items,
        tools=list(_iter_tools(_collect_tools(body))),
        system=as_text(body.get("instructions")),
        schema=text_format.get("schema"),
        wants_json=text_format.get("type") in ("json_schema", "json_object"),
        limit=parse_limit(body.get("max_output_tokens")),
    )


def _parse_item(item: dict[str, Any]) -> Iterator[Item]:
    kind = item.get("type", "message")
    call_id = as_text(item.get("call_id"))
    name = as_text(item.get("name"))
    if kind == "message" and item.get("role") in ("user", "assistant"):
        yield from _parse_message(item)
    elif kind == "function_call":
        yield ToolCall(call_id, name, parse_arguments(item.get("arguments")))
    elif kind == "custom_tool_call":
        yield ToolCall(call_id, name, as_text(item.get("input")))
    elif kind in ("function_call_output", "custom_tool_call_output"):
        yield ToolResult(call_id, "", flatten_text(item.get("output")))


def _parse_message(item: dict[str, Any]) -> Iterator[Item]:
    is_model = item["role"] == "assistant"
    content = item.get("content")
    blocks = [content] if isinstance(content, str) else as_list(content)
    for block in blocks:
        text = MEDIA if is_media(block) else flatten_text(block)
        if text:
            yield Message("model" if is_model else "user", text)


def _collect_tools(body: dict[str, Any]) -> list[Any]:
    """Return the tools of a request; Codex may put them into items of the input."""
    tools = list(as_list(body.get("tools")))
    for item in map(as_object, as_list(body.get("input"))):
        if item.get("type") == "additional_tools":
            tools += as_list(item.get("tools"))
    return tools


def _iter_tools(tools: list[Any]) -> Iterator[Tool]:
    for tool in map(as_object, tools):
        if tool.get("type") == "namespace":
            yield from _iter_tools(as_list(tool.get("tools")))
            continue
        name = as_text(tool.get("name"))
        if name:
            is_custom = tool.get("type") == "custom"
            is_script = is_custom and "tools.exec_command" in as_text(tool.get("description"))
            yield Tool(name, as_object(tool.get("parameters")), is_custom, is_script)


def render_reply(response: ModelResponse, request: ModelRequest) -> bytes:
    """Encode a response as one value."""
    output = _build_output(response, request)
    return msgspec.json.encode(_build_response(response, request, output, "completed"))


def render_stream(response: ModelResponse, request: ModelRequest) -> bytes:
    """Encode a response as numbered events."""
    parts: list[bytes] = []
    for number, event in enumerate(_iter_events(response, request)):
        parts.append(encode_named_event({**event, "sequence_number": number}))
    return b"".join(parts)


def render_error(status: int, message: str) -> bytes:
    """Encode an error."""
    return encode_openai_error(message)


def _build_output(response: ModelResponse, request: ModelRequest) -> list[dict[str, Any]]:
    # Clients check the shape of a call against the tool they offered: a custom tool takes one text,
    # a function an object as JSON text.
    custom_tools = {tool.name for tool in request.tools if tool.is_custom}
    output: list[dict[str, Any]] = []
    for number, part in enumerate(response.parts):
        item_id = f"{response.id}_{number}"
        item: dict[str, Any]
        if isinstance(part, str):
            item = {
                "type": "message",
                "id": f"msg_{item_id}",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": part, "annotations": []}],
            }
        elif part.name in custom_tools:
            item = {
                "type": "custom_tool_call",
                "id": f"ctc_{item_id}",
                "call_id": part.id,
                "name": part.name,
                "input": part.arguments,
                "status": "completed",
            }
        else:
            item = {
                "type": "function_call",
                "id": f"fc_{item_id}",
                "call_id": part.id,
                "name": part.name,
                "arguments": msgspec.json.encode(part.arguments).decode(),
                "status": "completed",
            }
        output.append(item)
    return output


def _build_response(
    response: ModelResponse, request: ModelRequest, output: list[dict[str, Any]], status: str
) -> dict[str, Any]:
    return {
        "id": f"resp_{response.id}",
        "object": "response",
        "created_at": 0,
        "status": status,
        "model": request.model,
        "output": output,
        "usage": _USAGE if status == "completed" else None,
        "error": None,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
    }


def _iter_events(response: ModelResponse, request: ModelRequest) -> Iterator[dict[str, Any]]:
    started = _build_response(response, request, [], "in_progress")
    yield {"type": "response.created", "response": started}
    yield {"type": "response.in_progress", "response": started}
    output = _build_output(response, request)
    for index, item in enumerate(output):
        position = {"output_index": index, "item_id": item["id"]}
        if item["type"] == "message":
            yield from _iter_text_events(item, position)
        elif item["type"] == "custom_tool_call":
            yield from _iter_call_events(item, position, "custom_tool_call_input", "input")
        else:
            yield from _iter_call_events(item, position, "function_call_arguments", "arguments")
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    completed = _build_response(response, request, output, "completed")
    yield {"type": "response.completed", "response": completed}


def _iter_call_events(
    item: dict[str, Any], position: dict[str, Any], event: str, field: str
) -> Iterator[dict[str, Any]]:
    empty = {**item, field: "", "status": "in_progress"}
    index = position["output_index"]
    yield {"type": "response.output_item.added", "output_index": index, "item": empty}
    yield {"type": f"response.{event}.delta", **position, "delta": item[field]}
    yield {"type": f"response.{event}.done", **position, field: item[field]}


def _iter_text_events(item: dict[str, Any], position: dict[str, Any]) -> Iterator[dict[str, Any]]:
    part = item["content"][0]
    text = part["text"]
    empty = {**item, "content": [], "status": "in_progress"}
    index = position["output_index"]
    position = {**position, "content_index": 0}
    yield {"type": "response.output_item.added", "output_index": index, "item": empty}
    yield {"type": "response.content_part.added", **position, "part": {**part, "text": ""}}
    yield {"type": "response.output_text.delta", **position, "delta": text, "logprobs": []}
    yield {"type": "response.output_text.done", **position, "text": text, "logprobs": []}
    yield {"type": "response.content_part.done", **position, "part": part}
