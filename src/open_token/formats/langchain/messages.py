"""LangChain messages in the common form, from each of their three shapes and from chunks."""

from typing import Any

from open_token.formats.langchain.detect import get_class
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

_CLASS_ROLES = {
    "HumanMessage": "user",
    "AIMessage": "assistant",
    "SystemMessage": "system",
    "ToolMessage": "tool",
    "FunctionMessage": "tool",
    "ChatMessage": "chat",
    "RemoveMessage": "remove",
}
_TYPE_ROLES = {"human": "user", "ai": "assistant", "function": "tool", "generic": "chat"}
_USUAL_FINISH_REASONS = ("stop", "end_turn", "tool_calls", "tool_use", "STOP", "")
_STREAMED_FIELDS = frozenset(
    ("text", "thinking", "reasoning", "reasoning_content", "signature", "partial_json", "args")
)
_CALL_BLOCKS = ("input_json_delta", "tool_call_chunk", "tool_use")
_CONTENT_FIELDS = ("content", "tool_calls", "tool_call_chunks", "usage_metadata")
_COUNTS = (
    "input_tokens",
    "output_tokens",
    "reasoning_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
)


def unwrap_message(value: JsonObject) -> tuple[str, JsonObject]:
    """Return the role and the fields of a message."""
    class_name = get_class(value)
    if class_name is not None:
        role = _CLASS_ROLES.get(class_name.removesuffix("Chunk"), "chat")
        fields = value["kwargs"]
    else:
        kind = str(value.get("type"))
        role = _CLASS_ROLES.get(kind.removesuffix("Chunk")) or _TYPE_ROLES.get(kind, kind)
        fields = value["data"] if isinstance(value.get("data"), dict) else value
    if role == "chat":
        # A ChatMessage has a role of its own.
        role = str(fields.get("role") or "user").lower()
    return role, fields


def is_chunk(value: JsonObject) -> bool:
    """Return whether a value is a chunk of a message of the model."""
    return (get_class(value) or value.get("type")) == "AIMessageChunk"


def build_message(role: str, fields: JsonObject) -> Message:
    """Return the message with these fields."""
    message = Message(role, [], name=as_text(fields.get("name")))
    if role == "tool":
        message.parts = [_read_result(fields)]
        return message
    content = fields.get("content")
    if isinstance(content, str):
        message.parts = [TextPart(content)]
    else:
        message.parts = parse_parts(content, message.unknown_kinds)
    if role == "assistant":
        _add_model_fields(message, fields)
    return message


def _get_object(fields: JsonObject, name: str) -> JsonObject:
    value = fields.get(name)
    return value if isinstance(value, dict) else {}


def _add_model_fields(message: Message, fields: JsonObject) -> None:
    """Add what only a message of the model has: calls, reasoning, usage, the model's name."""
    metadata = _get_object(fields, "response_metadata")
    extra = _get_object(fields, "additional_kwargs")
    has_calls = any(isinstance(part, ToolCallPart) for part in message.parts)
    has_reasoning = any(isinstance(part, ReasoningPart) for part in message.parts)
    calls = [*parse_tool_calls(fields, set(), "tool_calls"), *_read_invalid_calls(fields)]
    if calls:
        # The content of Anthropic's models repeats the calls.
        message.parts = [part for part in message.parts if not isinstance(part, ToolCallPart)]
    elif not has_calls:
        # Before 0.1.46 calls were only among the fields of the provider.
        calls = parse_tool_calls(extra, set())
    reasoning = as_text(extra.get("reasoning_content"))
    if reasoning and not has_reasoning:
        message.parts.insert(0, ReasoningPart(reasoning))
    message.parts += calls
    message.model = as_text(get_first(metadata, "model_name", "model", "model_id"))
    message.provider = identify_provider(message.model, as_text(metadata.get("model_provider")))
    message.usage = (
        read_usage(fields.get("usage_metadata"))
        or chat_messages.parse_usage(metadata.get("token_usage"))
        or anthropic_blocks.parse_usage(metadata.get("usage"))
    )
    reason = get_first(metadata, "finish_reason", "stop_reason")
    if isinstance(reason, str) and reason not in _USUAL_FINISH_REASONS:
        message.facts["finish_reason"] = reason
    refusal = as_text(extra.get("refusal"))
    if refusal:
        message.facts["refusal"] = refusal


def _read_invalid_calls(fields: JsonObject) -> list[Part]:
    """Return calls whose arguments are not valid JSON.

    In a chunk these are only fragments, which are joined from its `tool_call_chunks`.
    """
    calls = fields.get("invalid_tool_calls")
    if not isinstance(calls, list) or fields.get("tool_call_chunks"):
        return []
    parts: list[Part] = []
    for call in calls:
        if isinstance(call, dict):
            tool = as_text(call.get("name")) or "tool"
            given = parse_arguments(call.get("args"))
            parts.append(
                ToolCallPart(as_text(call.get("id")), tool, given, pick_fields(call, "error"))
            )
    return parts


def _read_result(fields: JsonObject) -> ToolResultPart:
    facts: JsonObject = {}
    if fields.get("status") == "error":
        facts["is_error"] = True
    if fields.get("artifact") is not None:
        facts["artifact"] = fields["artifact"]
    output = unpack_output(fields.get("content"))
    return ToolResultPart(
        as_text(fields.get("tool_call_id")), output, as_text(fields.get("name")), facts or None
    )


def read_usage(value: Any) -> Usage | None:
    """Return the counts of `usage_metadata`, which include cached and reasoning tokens."""
    if not isinstance(value, dict):
        return None
    input_details = _get_object(value, "input_token_details")
    output_details = _get_object(value, "output_token_details")
    return build_usage(
        input_tokens=value.get("input_tokens"),
        output_tokens=value.get("output_tokens"),
        reasoning_tokens=output_details.get("reasoning"),
        cache_read_tokens=input_details.get("cache_read"),
        cache_write_tokens=input_details.get("cache_creation"),
    )


class ChunkJoiner:
    """Joins the chunks of one message."""

    def __init__(self) -> None:
        self._chunks: list[JsonObject] = []

    def continues(self, fields: JsonObject) -> bool:
        """Return whether a chunk belongs to the same message as those added before."""
        if not self._chunks:
            return True
        previous = self._chunks[-1]
        if previous.get("chunk_position") == "last":
            return False
        previous_id = previous.get("id")
        chunk_id = fields.get("id")
        if previous_id == chunk_id or not previous_id or not chunk_id:
            return True
        # Responses API: the first chunk has the id of the response and no content, the others have
        # the id of the run.
        is_first = len(self._chunks) == 1
        return is_first and not any(previous.get(name) for name in _CONTENT_FIELDS)

    def add(self, fields: JsonObject) -> None:
        """Add a chunk."""
        self._chunks.append(fields)

    def take_message(self) -> Message | None:
        """Return the joined message, if there is one, and start the next."""
        chunks = self._chunks
        self._chunks = []
        if not chunks:
            return None
        calls = _join_calls(chunks)
        fields: JsonObject = {
            "content": _join_content([chunk.get("content") for chunk in chunks], bool(calls)),
            "tool_calls": calls,
            "name": next((chunk["name"] for chunk in chunks if as_text(chunk.get("name"))), None),
        }
        for name in ("additional_kwargs", "response_metadata"):
            values = [chunk.get(name) for chunk in chunks]
            fields[name] = _join_objects([value for value in values if isinstance(value, dict)])
        message = build_message("assistant", fields)
        message.usage = _sum_usage(chunks) or message.usage
        return message


def _sum_usage(chunks: list[JsonObject]) -> Usage | None:
    usages = [read_usage(chunk.get("usage_metadata")) for chunk in chunks]
    sums: dict[str, int | None] = {}
    for name in _COUNTS:
        values = [usage.get(name) for usage in usages if usage]
        known = [value for value in values if type(value) is int]
        sums[name] = sum(known) if known else None
    return build_usage(**sums)


def _join_objects(fragments: list[JsonObject]) -> JsonObject:
    """Join fragments of an object: streamed texts are concatenated, of others the last counts."""
    texts: dict[str, list[str]] = {}
    joined: JsonObject = {}
    summary: list[Any] = []
    for fragment in fragments:
        for name, item in fragment.items():
            if name in _STREAMED_FIELDS and isinstance(item, str):
                texts.setdefault(name, []).append(item)
                joined.setdefault(name, "")
            elif name == "summary" and isinstance(item, list):
                summary += item
            elif item is not None and (name != "type" or name not in joined):
                joined[name] = item
    if summary:
        joined["summary"] = summary
    for name, pieces in texts.items():
        joined[name] = "".join(pieces)
    return joined


def _join_content(values: list[Any], has_calls: bool) -> Any:
    if all(isinstance(value, str | None) for value in values):
        return "".join(value or "" for value in values)
    blocks = _join_blocks(values)
    for block in blocks:
        if isinstance(block, dict) and isinstance(block.get("summary"), list):
            block["summary"] = _join_blocks([block["summary"]])
    if not has_calls:
        return blocks
    # The fragments of arguments are in `tool_call_chunks` too.
    return [block for block in blocks if not _is_call_block(block)]


def _is_call_block(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") in _CALL_BLOCKS


def _join_blocks(values: list[Any]) -> list[Any]:
    """Return the blocks of all lists; blocks with the same index are fragments of one."""
    groups: dict[Any, list[Any]] = {}
    for value in values:
        if not isinstance(value, list):
            value = [value] if value else []
        for block in value:
            index = block.get("index") if isinstance(block, dict) else None
            if isinstance(index, int | str):
                group = ("index", index)
            else:
                group = ("alone", len(groups))
            groups.setdefault(group, []).append(block)
    joined = []
    for fragments in groups.values():
        if isinstance(fragments[0], dict):
            joined.append(_join_objects(fragments))
        else:
            joined.append(fragments[0])
    return joined


def _join_calls(chunks: list[JsonObject]) -> list[JsonObject]:
    fragments: dict[Any, list[JsonObject]] = {}
    complete: list[JsonObject] = []
    for number, chunk in enumerate(chunks):
        pieces = chunk.get("tool_call_chunks")
        calls = chunk.get("tool_calls")
        if isinstance(pieces, list) and pieces:
            for piece in pieces:
                index = piece.get("index") if isinstance(piece, dict) else None
                group = index if isinstance(index, int | str) else ("chunk", number)
                fragments.setdefault(group, []).append(piece)
        elif isinstance(calls, list):
            complete += [call for call in calls if isinstance(call, dict)]
    joined = []
    for pieces in fragments.values():
        joined.append(_join_objects([piece for piece in pieces if isinstance(piece, dict)]))
    return joined + complete
