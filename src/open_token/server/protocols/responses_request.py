"""Requests of the OpenAI Responses API, translated into messages of a session."""

import base64
import binascii
from typing import Any

import msgspec
from msgspec import Struct, field

from open_token.model.log_events import Json
from open_token.server.errors import ApiError, bad_request, not_found

ASK_TOOL = "AskUserQuestion"
"""A client that lists a function of this name is asked questions by calls of it."""
_PREFIX = "resp_"
_ROLES = ("user", "assistant", "system", "developer")
_WITHOUT_EFFECT = frozenset(
    {
        "include",
        "metadata",
        "parallel_tool_calls",
        "prompt_cache_key",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",
        "stream_options",
        "truncation",
        "user",
    }
)
"""Fields that are accepted from every client: they are echoed or concern OpenAI's own service."""


class ResponseRequest(Struct, frozen=True, kw_only=True):
    """A request for a response."""

    input: str | list[Json] = ""
    model: str | None = None
    instructions: str | None = None
    previous_response_id: str | None = None
    conversation: str | Json | None = None
    stream: bool = False
    background: bool = False
    tools: list[Json] = field(default_factory=list)
    tool_choice: str | Json = "auto"
    text: Json | None = None
    reasoning: Json | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_output_tokens: int | None = None
    metadata: dict[str, str] | None = None

    @property
    def asks(self) -> bool:
        """Whether the agent may ask the user."""
        return any(tool.get("name") == ASK_TOOL for tool in self.tools)


class ResponseId(Struct, frozen=True):
    """What the id of a response names: a message of a session."""

    session_id: str
    client_message_id: str

    def encode(self) -> str:
        """Return the id as clients see it."""
        data = f"{self.session_id}/{self.client_message_id}".encode()
        return _PREFIX + base64.urlsafe_b64encode(data).decode().rstrip("=")


def decode_response_id(text: str) -> ResponseId:
    """Parse the id of a response; raises a 404 for anything else."""
    data = text.removeprefix(_PREFIX)
    try:
        if not text.startswith(_PREFIX):
            raise ValueError
        decoded = base64.b64decode(data + "=" * (-len(data) % 4), altchars=b"-_", validate=True)
        session_id, separator, message_id = decoded.decode().partition("/")
    except (ValueError, binascii.Error):
        raise not_found("response") from None
    if not separator or not session_id or not message_id:
        raise not_found("response")
    return ResponseId(session_id, message_id)


def parse_request(body: Any) -> ResponseRequest:
    """Parse and check the body of a request; a field that cannot have effect is refused."""
    if not isinstance(body, dict):
        raise bad_request("request body is not a JSON object", "invalid")
    fields = {name: value for name, value in body.items() if value is not None}
    known = set(ResponseRequest.__struct_fields__) | _WITHOUT_EFFECT
    unknown = sorted(fields.keys() - known)
    if unknown:
        raise ApiError(400, f"unsupported parameter: {unknown[0][:60]}", "unsupported_parameter")
    try:
        request = msgspec.convert(fields, ResponseRequest)
    except msgspec.ValidationError as fault:
        raise ApiError(400, f"invalid request: {_describe_fault(fault)}", "invalid") from None
    if request.top_p not in (None, 1):
        raise ApiError(400, "unsupported parameter: top_p", "unsupported_parameter")
    if request.stream and request.background:
        raise ApiError(400, "stream and background cannot be combined", "unsupported_parameter")
    if request.previous_response_id and request.conversation:
        raise ApiError(400, "previous_response_id and conversation cannot be combined", "invalid")
    for tool in request.tools:
        if tool.get("type") != "function" or not isinstance(tool.get("name"), str):
            raise ApiError(
                400,
                "tools: only functions of the client; the server has its own tools",
                "unsupported_parameter",
            )
    return request


def _describe_fault(fault: msgspec.ValidationError) -> str:
    what, _, path = str(fault).rpartition(" - at ")
    return f"{what} at {path}" if what else path


def build_message(request: ResponseRequest) -> Json:
    """Return the fields of `chat:send` for a request, without the session."""
    parts: list[Json] = []
    instructions = [request.instructions] if request.instructions else []
    results: list[Json] = []
    items = _list_items(request)
    start = _count_history(items)
    for position, item in enumerate(items):
        kind = item.get("type", "message")
        if kind == "function_call_output":
            results.append(item)
        elif kind != "message":
            raise ApiError(
                400,
                f"input: items of type {str(kind)[:40]} are not accepted; the server has the "
                "history, continue with previous_response_id",
                "unsupported_input",
            )
        elif item.get("role") in ("system", "developer"):
            instructions += [part["text"] for part in _convert_content(item)]
        elif position >= start:
            parts += _convert_content(item)
    message: Json = {"headless": not request.asks}
    if request.model:
        message["model"] = request.model
    if parts:
        is_text = len(parts) == 1 and parts[0]["type"] == "text"
        message["message"] = parts[0]["text"] if is_text else parts
    _add_results(message, results)
    settings = _build_settings(request, instructions)
    if settings:
        message["settings"] = settings
    schema = _find_schema(request)
    if schema is not None:
        message["output_schema"] = schema
    return message


def build_history(request: ResponseRequest) -> list[tuple[str, str]]:
    """Return role and text of the messages up to the last one of the assistant.

    They are the beginning of a new conversation; a session that continues has its own."""
    items = _list_items(request)
    start = _count_history(items)
    if start and (request.previous_response_id or request.conversation):
        raise ApiError(
            400,
            "input: a conversation that continues has its history on the server; send only what "
            "is new",
            "unsupported_input",
        )
    if start and start == len(items):
        raise ApiError(400, "input: it ends with a message of the assistant", "unsupported_input")
    history = []
    for item in items[:start]:
        if item.get("role") not in ("user", "assistant"):
            continue
        parts = _convert_content(item)
        if any(part["type"] != "text" for part in parts):
            raise ApiError(
                400,
                "input: images and files are accepted behind the last message of the assistant",
                "unsupported_input",
            )
        history.append((item["role"], "\n\n".join(part["text"] for part in parts)))
    return history


def _list_items(request: ResponseRequest) -> list[Json]:
    if isinstance(request.input, str):
        return [{"role": "user", "content": request.input}]
    for item in request.input:
        is_message = item.get("type", "message") == "message"
        if is_message and item.get("role") not in _ROLES:
            raise ApiError(400, f"input: role must be one of {', '.join(_ROLES)}", "invalid")
    return request.input


def _count_history(items: list[Json]) -> int:
    """Return the number of items up to the last message of the assistant."""
    count = 0
    for position, item in enumerate(items, 1):
        if item.get("type", "message") == "message" and item.get("role") == "assistant":
            count = position
    return count


def _convert_content(item: Json) -> list[Json]:
    content = item.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise ApiError(400, "input: content must be text or a list of parts", "invalid")
    return [_convert_part(part) for part in content]


def _convert_part(part: Any) -> Json:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind in ("input_text", "output_text", "text") and isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    if kind == "input_image" and isinstance(part.get("image_url"), str):
        image = {"url": part["image_url"]}
        if part.get("detail"):
            image["detail"] = part["detail"]
        return {"type": "image_url", "image_url": image}
    if kind == "input_file" and isinstance(part.get("file_data"), str):
        name = part.get("filename") or ""
        return {"type": "file", "name": name, "data": part["file_data"]}
    if kind in ("input_file", "input_image"):
        raise ApiError(
            400,
            f"input: {kind} must have {'file_data' if kind == 'input_file' else 'image_url'}; the "
            "server has no files by id and fetches no documents",
            "unsupported_input",
        )
    raise ApiError(400, "input: a part must be input_text, input_image or input_file", "invalid")


def _add_results(message: Json, results: list[Json]) -> None:
    """Add the outputs of function calls: results of client tools, or the answer to a question."""
    converted = []
    for item in results:
        call_id = item.get("call_id")
        output = item.get("output")
        if not isinstance(call_id, str) or not isinstance(output, str | list):
            raise ApiError(400, "input: a function_call_output needs call_id and output", "invalid")
        converted.append({"tool_call_id": call_id, "result": output})
    if converted:
        message["tool_results"] = converted


def _build_settings(request: ResponseRequest, instructions: list[str]) -> Json:
    settings: Json = {}
    if instructions:
        settings["instructions"] = "\n\n".join(instructions)
    if request.temperature is not None:
        settings["temperature"] = request.temperature
    if request.max_output_tokens is not None:
        settings["max_output_tokens"] = request.max_output_tokens
    effort = (request.reasoning or {}).get("effort")
    if effort == "none":
        settings["thinking"] = False
    elif effort is not None:
        settings["effort"] = effort
    if request.tool_choice == "none":
        settings["tools"] = []
        return settings
    tools = [
        {
            "name": tool["name"],
            "description": tool.get("description") or "",
            "parameters": tool.get("parameters") or {"type": "object", "properties": {}},
        }
        for tool in request.tools
        if tool["name"] != ASK_TOOL
    ]
    if tools:
        settings["client_tools"] = tools
    return settings


def _find_schema(request: ResponseRequest) -> Json | None:
    form = (request.text or {}).get("format") or {}
    kind = form.get("type", "text")
    if kind == "text":
        return None
    if kind == "json_object":
        return {"type": "object"}
    if kind == "json_schema" and isinstance(form.get("schema"), dict):
        schema: Json = form["schema"]
        return schema
    raise ApiError(400, "text.format must be text, json_object or json_schema", "invalid")
