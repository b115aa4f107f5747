"""A message of LangChain in the one form, whichever of its three shapes it was written in, and
chunks joined."""

from typing import Any

from open_token.formats.langchain.shapes import class_of
from open_token.formats.shared import anthropic_blocks, chat_messages
from open_token.formats.shared.message_dicts import calls_of
from open_token.formats.shared.messages import (
    Body,
    Call,
    Part,
    Result,
    Said,
    Text,
    Thought,
    first,
    output_of,
    parts_of,
)
from open_token.formats.shared.model_message import counts
from open_token.formats.shared.providers import provider_of
from open_token.formats.shared.responses_content import arguments, kept, word
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


def opened(value: Body) -> tuple[str, Body]:
    """The role and the fields of a message."""
    name = class_of(value)
    if name is not None:
        role, fields = _CLASSES.get(name.removesuffix("Chunk"), "chat"), value["kwargs"]
    else:
        kind = str(value.get("type"))
        role = _CLASSES.get(kind.removesuffix("Chunk")) or _TYPES.get(kind, kind)
        fields = value["data"] if isinstance(value.get("data"), dict) else value
    return (str(fields.get("role") or "user").lower() if role == "chat" else role), fields


def is_chunk(value: Body) -> bool:
    """Whether it is a piece of a message of the model."""
    return (class_of(value) or value.get("type")) == "AIMessageChunk"


def message_of(role: str, fields: Body) -> Said:
    """The message that these fields make."""
    made = Said(role, [], name=word(fields.get("name")))
    if role == "tool":
        made.parts = [_result(fields)]
        return made
    content = fields.get("content")
    made.parts = [Text(content)] if isinstance(content, str) else parts_of(content, made.odd)
    if role == "assistant":
        _complete(made, fields)
    return made


def _complete(made: Said, fields: Body) -> None:
    """What only a message of the model has: calls, reasoning beside the content, usage, the model's
    name."""
    about, beside = fields.get("response_metadata"), fields.get("additional_kwargs")
    about = about if isinstance(about, dict) else {}
    beside = beside if isinstance(beside, dict) else {}
    inner = made.parts
    listed = [*calls_of(fields, set(), "tool_calls"), *_invalid(fields)]
    if listed:
        made.parts = [part for part in inner if not isinstance(part, Call)]
    if (plain := word(beside.get("reasoning_content"))) and not any(
        isinstance(part, Thought) for part in inner
    ):
        made.parts.insert(0, Thought(plain))
    made.parts += listed or _legacy(beside, inner)
    made.model = word(first(about, "model_name", "model", "model_id"))
    made.provider = provider_of(made.model, word(about.get("model_provider")))
    made.usage = usage_of(fields.get("usage_metadata")) or _usage_in(about)
    made.facts = _facts(about, beside)


def _legacy(beside: Body, inner: list[Part]) -> list[Part]:
    """Before 0.1.46 the calls stood only among the provider's own fields."""
    return calls_of(beside, set()) if not any(isinstance(part, Call) for part in inner) else []


def _invalid(fields: Body) -> list[Part]:
    """Calls whose arguments were no JSON; those of a chunk are only halves, which its
    tool_call_chunks join."""
    given = fields.get("invalid_tool_calls")
    if not isinstance(given, list) or fields.get("tool_call_chunks"):
        return []
    calls = [call for call in given if isinstance(call, dict)]
    return [
        Call(
            word(call.get("id")),
            word(call.get("name")) or "tool",
            arguments(call.get("args")),
            kept(call, "error"),
        )
        for call in calls
    ]


def _result(fields: Body) -> Result:
    facts: Body = {"is_error": True} if fields.get("status") == "error" else {}
    if fields.get("artifact") is not None:
        facts["artifact"] = fields["artifact"]
    output = output_of(fields.get("content"))
    return Result(word(fields.get("tool_call_id")), output, word(fields.get("name")), facts or None)


def _facts(about: Body, beside: Body) -> Body:
    facts: Body = {}
    reason = first(about, "finish_reason", "stop_reason")
    if isinstance(reason, str) and reason not in _USUAL_ENDS:
        facts["finish_reason"] = reason
    if refusal := word(beside.get("refusal")):
        facts["refusal"] = refusal
    return facts


def usage_of(value: Any) -> Usage | None:
    """The counts of `usage_metadata`, which include cached and reasoning tokens."""
    if not isinstance(value, dict):
        return None
    inputs, outputs = value.get("input_token_details"), value.get("output_token_details")
    inputs, outputs = (part if isinstance(part, dict) else {} for part in (inputs, outputs))
    return counts(
        input_tokens=value.get("input_tokens"),
        output_tokens=value.get("output_tokens"),
        reasoning_tokens=outputs.get("reasoning"),
        cache_read_tokens=inputs.get("cache_read"),
        cache_write_tokens=inputs.get("cache_creation"),
    )


def _usage_in(about: Body) -> Usage | None:
    return chat_messages.usage(about.get("token_usage")) or anthropic_blocks.usage_of(
        about.get("usage")
    )
