"""OpenAI Chat Completions API."""

from collections.abc import Iterator
from typing import Any

import msgspec

from open_token.jsontools.objects import as_list, as_object, as_text
from open_token.replay.protocols.encoding import (
    encode_event,
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

_USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}


def parse_request(body: dict[str, Any], target: str) -> ModelRequest:
    """Parse a request."""
    items: list[Item] = []
    system: list[str] = []
    for message in map(as_object, as_list(body.get("messages"))):
        if message.get("role") in ("system", "developer"):
            system.append(flatten_text(message.get("content")))
        items += _parse_message(message)
    response_format = as_object(body.get("response_format"))
    return ModelRequest(
        protocol="chat",
        model=as_text(body.get("model")),
        stream=body.get("stream") is True,
        items=items,
        tools=[_parse_tool(as_object(tool)) for tool in as_list(body.get("tools"))],
        system="\n".join(system),
        schema=as_object(response_format.get("json_schema")).get("schema"),
        wants_json=response_format.get("type") in ("json_schema", "json_object"),
        limit=parse_limit(body.get("max_completion_tokens", body.get("max_tokens"))),
        with_usage=as_object(body.get("stream_options")).get("include_usage") is True,
    )


def _parse_message(message: dict[str, Any]) -> Iterator[Item]:
    role = message.get("role")
    content = message.get("content")
    if role == "tool":
        call_id = as_text(message.get("tool_call_id"))
        yield ToolResult(call_id, as_text(message.get("name")), flatten_text(content))
        return
    if role not in ("user", "assistant"):
        return
    for block in [content] if isinstance(content, str) else as_list(content):
        text = MEDIA if is_media(block) else flatten_text(block)
        if text:
            yield Message("model" if role == "assistant" else "user", text)
    for call in map(as_object, as_list(message.get("tool_calls"))):
        function = as_object(call.get("function"))
        arguments = parse_arguments(function.get("arguments"))
        yield ToolCall(as_text(call.get("id")), as_text(function.get("name")), arguments)


def _parse_tool(tool: dict[str, Any]) -> Tool:
    function = as_object(tool.get("function"))
    return Tool(as_text(function.get("name")), as_object(function.get("parameters")))


def render_reply(response: ModelResponse, request: ModelRequest) -> bytes:
    """Encode a response as one completion."""
    message: dict[str, Any] = {"role": "assistant", "content": response.text or None}
    if response.calls:
        message["tool_calls"] = [_build_call(call) for call in response.calls]
    choice = {
        "index": 0,
        "message": message,
        "finish_reason": _get_finish_reason(response),
        "logprobs": None,
    }
    head = _build_head(response, request, "chat.completion")
    return msgspec.json.encode({**head, "choices": [choice], "usage": _USAGE})


def render_stream(response: ModelResponse, request: ModelRequest) -> bytes:
    """Encode a response as chunks and the end marker."""
    head = _build_head(response, request, "chat.completion.chunk")
    events = [encode_event({**head, **chunk}) for chunk in _iter_chunks(response, request)]
    return b"".join(events) + b"data: [DONE]\n\n"


def render_error(status: int, message: str) -> bytes:
    """Encode an error."""
    return encode_openai_error(message)


def _build_head(response: ModelResponse, request: ModelRequest, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{response.id}", "object": kind, "created": 0, "model": request.model}


def _build_call(call: ToolCall) -> dict[str, Any]:
    arguments = msgspec.json.encode(call.arguments).decode()
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}


def _get_finish_reason(response: ModelResponse) -> str:
    return "tool_calls" if response.calls else "stop"


def _iter_chunks(response: ModelResponse, request: ModelRequest) -> Iterator[dict[str, Any]]:
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": response.text}]
    for index, call in enumerate(response.calls):
        indexed_call = {"index": index, **_build_call(call)}
        deltas.append({"tool_calls": [indexed_call]})
    for delta in deltas:
        yield {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    finish_reason = _get_finish_reason(response)
    yield {"choices": [{"index": 0, "delta": {}, "finish_reason": finish_reason}]}
    if request.with_usage:
        yield {"choices": [], "usage": _USAGE}
