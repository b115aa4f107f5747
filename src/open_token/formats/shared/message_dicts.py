"""Messages as dictionaries, in the shapes that traces and frameworks share."""

from typing import Any

from open_token.formats.shared.fields import (
    JsonObject,
    as_dicts,
    as_text,
    get_first,
    get_text,
    parse_arguments,
    parse_json_text,
)
from open_token.formats.shared.messages import (
    RESULT_TYPES,
    Message,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    normalize_role,
    parse_parts,
    parse_tool_call,
    unpack_output,
)

_REASONING_FIELDS = ("reasoning_content", "reasoning", "thinking")


def parse_message(value: Any) -> Message | None:
    """Return a message with a role, as OpenAI, Anthropic, AG-UI or OpenTelemetry write it."""
    if isinstance(value, str):
        return Message("user", [TextPart(value)])
    role = normalize_role(value.get("role")) if isinstance(value, dict) else ""
    if not role:
        return None
    message = Message(role, [], name=as_text(value.get("name")), model=as_text(value.get("model")))
    content = value.get("parts")
    if not isinstance(content, list):
        content = value.get("content")
    if role == "tool":
        message.parts = _parse_results(value, content, message.unknown_kinds)
        return message
    message.parts = _parse_reasoning(value) + parse_parts(content, message.unknown_kinds)
    refusal = as_text(value.get("refusal"))
    if refusal:
        message.parts.append(TextPart(refusal))
    audio = value.get("audio")
    if isinstance(audio, dict):
        message.parts += parse_parts([{"type": "audio", **audio}], message.unknown_kinds)
    known = {part.id for part in message.parts if isinstance(part, ToolCallPart) and part.id}
    message.parts += parse_tool_calls(value, known)
    return message


def _parse_reasoning(message: JsonObject) -> list[Part]:
    for name in _REASONING_FIELDS:
        text = as_text(message.get(name))
        if text:
            return [ReasoningPart(text)]
    return []


def parse_tool_calls(message: JsonObject, known: set[str], name: str | None = None) -> list[Part]:
    """Return the calls next to the content, without those that the content has, too.

    They are looked up in the field `name`, or under all usual names.
    """
    value = message.get(name) if name else get_first(message, "tool_calls", "toolCalls")
    calls = [parse_tool_call(call) for call in as_dicts(value)]
    function_call = None if name else message.get("function_call")
    if isinstance(function_call, dict):
        tool = as_text(function_call.get("name")) or "tool"
        arguments = parse_arguments(function_call.get("arguments"))
        calls.append(ToolCallPart(None, tool, arguments))
    return [call for call in calls if call.id not in known]


def _parse_results(message: JsonObject, content: Any, unknown_kinds: list[Any]) -> list[Part]:
    """Return the results in a message of a tool; OpenTelemetry wraps each output in a part."""
    native_id = as_text(get_first(message, "tool_call_id", "toolCallId", "id"))
    tool = as_text(message.get("name"))
    if _are_results(content):
        results = parse_parts(content, unknown_kinds)
        return [
            part._replace(id=part.id or native_id, tool=part.tool or tool)
            for part in results
            if isinstance(part, ToolResultPart)
        ]
    facts: JsonObject | None = None
    error = message.get("error")
    if error:
        facts = {"is_error": True}
        if isinstance(error, str):
            facts["error"] = error
    return [ToolResultPart(native_id, unpack_output(content), tool, facts)]


def _are_results(content: Any) -> bool:
    if not isinstance(content, list) or not content:
        return False
    return all(get_text(block, "type") in RESULT_TYPES for block in content)


def parse_messages(value: Any, unknown: list[Any]) -> list[Message]:
    """Return all messages of a list, also of a list in a list; others are added to `unknown`."""
    value = parse_json_text(value)
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], list):
        value = value[0]
    messages = []
    for item in value if isinstance(value, list) else [value]:
        message = parse_message(item)
        if message is not None:
            messages.append(message)
        elif item is not None:
            unknown.append(item)
    return messages
