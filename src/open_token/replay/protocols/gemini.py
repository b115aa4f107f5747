"""Gemini API: calls may have no ids, and a stream is one whole chunk."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from open_token.jsontools.objects import as_list, as_object, as_text
from open_token.replay.protocols.encoding import encode_event, parse_limit
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

_USAGE = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
_UPPERCASE = re.compile("[A-Z]")


def parse_request(body: dict[str, Any], target: str) -> ModelRequest:
    """Parse a request; its path has the model and whether it is a stream."""
    items: list[Item] = []
    for content in map(as_object, as_list(body.get("contents"))):
        is_model = content.get("role") == "model"
        for part in map(as_object, as_list(content.get("parts"))):
            items += _parse_part(part, is_model=is_model)
    path, _, query = target.partition("?")
    config = as_object(_get_field(body, "generationConfig"))
    schema = _get_field(config, "responseJsonSchema") or _get_field(config, "responseSchema")
    is_json_type = _get_field(config, "responseMimeType") == "application/json"
    is_stream = path.endswith(":streamGenerateContent")
    system = as_object(_get_field(body, "systemInstruction"))
    return ModelRequest(
        protocol="gemini",
        model=path.rpartition("/")[2].partition(":")[0],
        stream=is_stream,
        items=items,
        tools=list(_iter_tools(as_list(body.get("tools")))),
        system=flatten_text(system.get("parts")),
        schema=schema,
        wants_json=bool(schema) or is_json_type,
        limit=parse_limit(_get_field(config, "maxOutputTokens")),
        is_json_list=is_stream and "alt=sse" not in query,
    )


def _get_field(value: dict[str, Any], name: str) -> Any:
    """Return a field by its camelCase name or its snake_case name: the service accepts both."""
    snake_case = _UPPERCASE.sub(lambda match: f"_{match[0].lower()}", name)
    return value.get(name, value.get(snake_case))


def _parse_part(part: dict[str, Any], *, is_model: bool) -> Iterator[Item]:
    call = as_object(_get_field(part, "functionCall"))
    result = as_object(_get_field(part, "functionResponse"))
    text = as_text(part.get("text"))
    if call:
        call_id = as_text(call.get("id"))
        name = as_text(call.get("name"))
        yield ToolCall(call_id, name, call.get("args") or {})
    elif result:
        call_id = as_text(result.get("id"))
        name = as_text(result.get("name"))
        output = flatten_text(result.get("response"))
        yield ToolResult(call_id, name, output)
    elif is_media(part) and not is_model:
        yield Message("user", MEDIA)
    elif text and part.get("thought") is not True:
        yield Message("model" if is_model else "user", text)


def _iter_tools(tools: list[Any]) -> Iterator[Tool]:
    for tool in map(as_object, tools):
        functions = as_list(_get_field(tool, "functionDeclarations"))
        for function in map(as_object, functions):
            name = as_text(function.get("name"))
            schema = _get_field(function, "parametersJsonSchema")
            if not schema:
                schema = function.get("parameters")
            yield Tool(name, as_object(schema))


def render_reply(response: ModelResponse, request: ModelRequest) -> bytes:
    """Encode a response as one value."""
    return msgspec.json.encode(_build_response(response, request))


def render_stream(response: ModelResponse, request: ModelRequest) -> bytes:
    """Encode a response as a stream of one chunk."""
    if request.is_json_list:
        return msgspec.json.encode([_build_response(response, request)])
    return encode_event(_build_response(response, request))


def render_error(status: int, message: str) -> bytes:
    """Encode an error."""
    error = {"code": status, "message": message, "status": "INVALID_ARGUMENT"}
    return msgspec.json.encode({"error": error})


def _build_response(response: ModelResponse, request: ModelRequest) -> dict[str, Any]:
    content = {"role": "model", "parts": [_build_part(part) for part in response.parts]}
    return {
        "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
        "usageMetadata": _USAGE,
        "modelVersion": request.model,
        "responseId": response.id,
    }


def _build_part(part: str | ToolCall) -> dict[str, Any]:
    if isinstance(part, str):
        return {"text": part}
    return {"functionCall": {"id": part.id, "name": part.name, "args": part.arguments}}
