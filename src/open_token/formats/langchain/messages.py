"""A message of LangChain in the one form, whichever of its three shapes it was written in, and
chunks joined."""

from typing import Any

from open_token.formats.langchain.shapes import class_of
from open_token.formats.shared import anthropic_blocks, chat_messages
from open_token.formats.shared.fields import (
    JsonObject,
    as_text,
    get_first,
    parse_arguments,
    pick_fields,
)
from open_token.formats.shared.message_dicts import parse_tool_calls
from open_token.formats.shared.messages import (
    Message,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    parse_parts,
    unpack_output,
)
from open_token.formats.shared.providers import identify_provider
from open_token.formats.shared.token_usage import build_usage
from open_token.model.document import Usage

_CLASSES = {
    "HumanMessage": "user",
    "AIMessage": "assistant",
    "SystemMessage": "system",
    "ToolMessage": "tool",
    "FunctionMessage": "tool",
    "ChatMessage": "chat",
    "RemoveMessage": "remove",
}
_TYPES = {"human": "user", "ai": "assistant", "function": "tool", "generic": "chat"}
_USUAL_ENDS = ("stop", "end_turn", "tool_calls", "tool_use", "STOP", "")


def opened(value: JsonObject) -> tuple[str, JsonObject]:
    """The role and the fields of a message."""
    name = class_of(value)
    if name is not None:
        role, fields = _CLASSES.get(name.removesuffix("Chunk"), "chat"), value["kwargs"]
    else:
        kind = str(value.get("type"))
        role = _CLASSES.get(kind.removesuffix("Chunk")) or _TYPES.get(kind, kind)
        fields = value["data"] if isinstance(value.get("data"), dict) else value
    return (str(fields.get("role") or "user").lower() if role == "chat" else role), fields


def is_chunk(value: JsonObject) -> bool:
    """Whether it is a piece of a message of the model."""
    return (class_of(value) or value.get("type")) == "AIMessageChunk"


def message_of(role: str, fields: JsonObject) -> Message:
    """The message that these fields make."""
    made = Message(role, [], name=as_text(fields.get("name")))
    if role == "tool":
        made.parts = [_result(fields)]
        return made
    content = fields.get("content")
    made.parts = (
        [TextPart(content)]
        if isinstance(content, str)
        else parse_parts(content, made.unknown_kinds)
    )
    if role == "assistant":
        _complete(made, fields)
    return made


def _complete(made: Message, fields: JsonObject) -> None:
    """What only a message of the model has: calls, reasoning beside the content, usage, the model's
    name."""
    about, beside = fields.get("response_metadata"), fields.get("additional_kwargs")
    about = about if isinstance(about, dict) else {}
    beside = beside if isinstance(beside, dict) else {}
    inner = made.parts
    listed = [*parse_tool_calls(fields, set(), "tool_calls"), *_invalid(fields)]
    if listed:
        made.parts = [part for part in inner if not isinstance(part, ToolCallPart)]
    if (plain := as_text(beside.get("reasoning_content"))) and not any(
        isinstance(part, ReasoningPart) for part in inner
    ):
        made.parts.insert(0, ReasoningPart(plain))
    made.parts += listed or _legacy(beside, inner)
    made.model = as_text(get_first(about, "model_name", "model", "model_id"))
    made.provider = identify_provider(made.model, as_text(about.get("model_provider")))
    made.usage = usage_of(fields.get("usage_metadata")) or _usage_in(about)
    made.facts = _facts(about, beside)


def _legacy(beside: JsonObject, inner: list[Part]) -> list[Part]:
    """Before 0.1.46 the calls stood only among the provider's own fields."""
    return (
        parse_tool_calls(beside, set())
        if not any(isinstance(part, ToolCallPart) for part in inner)
        else []
    )


def _invalid(fields: JsonObject) -> list[Part]:
    """Calls whose arguments were no JSON; those of a chunk are only halves, which its
    tool_call_chunks join."""
    given = fields.get("invalid_tool_calls")
    if not isinstance(given, list) or fields.get("tool_call_chunks"):
        return []
    calls = [call for call in given if isinstance(call, dict)]
    return [
        ToolCallPart(
            as_text(call.get("id")),
            as_text(call.get("name")) or "tool",
            parse_arguments(call.get("args")),
            pick_fields(call, "error"),
        )
        for call in calls
    ]


def _result(fields: JsonObject) -> ToolResultPart:
    facts: JsonObject = {"is_error": True} if fields.get("status") == "error" else {}
    if fields.get("artifact") is not None:
        facts["artifact"] = fields["artifact"]
    output = unpack_output(fields.get("content"))
    return ToolResultPart(
        as_text(fields.get("tool_call_id")), output, as_text(fields.get("name")), facts or None
    )


def _facts(about: JsonObject, beside: JsonObject) -> JsonObject:
    facts: JsonObject = {}
    reason = get_first(about, "finish_reason", "stop_reason")
    if isinstance(reason, str) and reason not in _USUAL_ENDS:
        facts["finish_reason"] = reason
    if refusal := as_text(beside.get("refusal")):
        facts["refusal"] = refusal
    return facts


def usage_of(value: Any) -> Usage | None:
    """The counts of `usage_metadata`, which include cached and reasoning tokens."""
    if not isinstance(value, dict):
        return None
    inputs, outputs = value.get("input_token_details"), value.get("output_token_details")
    inputs, outputs = (part if isinstance(part, dict) else {} for part in (inputs, outputs))
    return build_usage(
        input_tokens=value.get("input_tokens"),
        output_tokens=value.get("output_tokens"),
        reasoning_tokens=outputs.get("reasoning"),
        cache_read_tokens=inputs.get("cache_read"),
        cache_write_tokens=inputs.get("cache_creation"),
    )


def _usage_in(about: JsonObject) -> Usage | None:
    return chat_messages.parse_usage(about.get("token_usage")) or anthropic_blocks.parse_usage(
        about.get("usage")
    )
