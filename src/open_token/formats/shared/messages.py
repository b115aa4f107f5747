"""Messages of any framework in one form: a role, and parts of text, reasoning, calls and results."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from open_token.formats.shared.fields import (
    JsonObject,
    as_dicts,
    as_text,
    get_first,
    parse_arguments,
    pick_fields,
)
from open_token.jsontools.media import build_media_block, build_media_url_block
from open_token.model.document import Usage

_TEXT_TYPES = frozenset(("text", "input_text", "output_text", "summary_text"))
_REASONING_TYPES = frozenset(
    "thinking redacted_thinking reasoning reasoning_content thought redacted-reasoning".split()
)
_ORDINARY_CALL_TYPES = frozenset(("tool_use", "tool_call", "function_call", "tool-call"))
_SPECIAL_CALL_TYPES = frozenset(
    "server_tool_use mcp_tool_use server_tool_call custom_tool_call".split()
)
_CALL_TYPES = _ORDINARY_CALL_TYPES | _SPECIAL_CALL_TYPES
RESULT_TYPES = frozenset(
    (
        "tool_result tool_call_response server_tool_call_response server_tool_result"
        " function_call_output tool-result"
    ).split()
)
_MEDIA_TYPES = frozenset(
    (
        "image audio video file document blob uri binary media image_url audio_url video_url"
        " document_url input_audio input_image input_file image-url audio-url video-url"
        " document-url"
    ).split()
)
_ROLE_ALIASES = {"human": "user", "ai": "assistant", "model": "assistant", "function": "tool"}
_REASONING_FIELDS = (
    "thinking",
    "reasoning",
    "reasoning_content",
    "content",
    "text",
    "reasoningText",
)


class TextPart(NamedTuple):
    """A text, or a list of blocks that are more than text."""

    content: str | list[Any]


class ReasoningPart(NamedTuple):
    """Reasoning: None if it is encrypted, empty if the source has no text of it."""

    text: str | None
    summary: bool = False


class ToolCallPart(NamedTuple):
    """A tool call."""

    id: str | None
    tool: str
    arguments: Any
    extra: JsonObject | None = None


class ToolResultPart(NamedTuple):
    """The result of a tool call."""

    id: str | None
    output: Any
    tool: str | None = None
    facts: JsonObject | None = None


Part = TextPart | ReasoningPart | ToolCallPart | ToolResultPart


@dataclass(slots=True)
class Message:
    """One message."""

    role: str
    parts: list[Part]
    name: str | None = None
    model: str | None = None
    provider: str | None = None
    ts: str | None = None
    usage: Usage | None = None
    facts: JsonObject = field(default_factory=dict)
    unknown_kinds: list[Any] = field(default_factory=list)
    """The types of blocks that are preserved verbatim because they are not known."""


def normalize_role(role: Any) -> str:
    """Return a role by its usual name; empty if it is not a string."""
    name = role.lower() if isinstance(role, str) else ""
    return _ROLE_ALIASES.get(name, name)


def parse_parts(content: Any, unknown_kinds: list[Any]) -> list[Part]:
    """Return the parts of the content of a message, in order."""
    if content is None:
        return []
    if isinstance(content, str):
        return [TextPart(content)]
    blocks = content if isinstance(content, list) else [content]
    return [parse_part(block, unknown_kinds) for block in blocks]


def parse_part(block: Any, unknown_kinds: list[Any]) -> Part:
    """Return one block of a message; a block of an unknown type is preserved verbatim."""
    if isinstance(block, str):
        return TextPart(block)
    kind = _get_type(block)
    part = _parse_known_part(block, kind) if isinstance(kind, str) else None
    if part is None:
        unknown_kinds.append(kind)
        return TextPart([block])
    return part


def _get_type(block: Any) -> Any:
    return block.get("type", block.get("kind")) if isinstance(block, dict) else None


def _parse_known_part(block: JsonObject, kind: str) -> Part | None:
    if kind in _TEXT_TYPES:
        text = get_first(block, "text", "content")
        if not isinstance(text, str):
            return None
        has_citations = block.get("citations") or block.get("annotations")
        return TextPart([block]) if has_citations else TextPart(text)
    if kind in _REASONING_TYPES:
        return _parse_reasoning(block)
    if kind in _CALL_TYPES:
        return parse_tool_call(block)
    if kind in RESULT_TYPES or kind.endswith("_tool_result"):
        return parse_tool_result(block)
    if kind in _MEDIA_TYPES:
        media_block = parse_media(block, kind)
        return TextPart([media_block]) if media_block is not None else None
    if kind == "refusal" and isinstance(block.get("refusal"), str):
        return TextPart(block["refusal"])
    return None


def _parse_reasoning(block: JsonObject) -> ReasoningPart:
    nested = block.get("reasoning_content")
    reasoning = nested if isinstance(nested, dict) else block
    for name in _REASONING_FIELDS:
        text = as_text(reasoning.get(name))
        if text:
            return ReasoningPart(text)
    summaries = [as_text(item.get("text")) for item in as_dicts(reasoning.get("summary"))]
    if any(summaries):
        return ReasoningPart("\n\n".join(filter(None, summaries)), summary=True)
    encrypted = get_first(reasoning, "data", "encrypted_content", "signature", "redactedContent")
    return ReasoningPart(None) if encrypted else ReasoningPart("")


def parse_tool_call(block: JsonObject) -> ToolCallPart:
    """Return a call, whatever the framework calls its fields."""
    function = block.get("function")
    call = function if isinstance(function, dict) else block
    kind = block.get("type")
    extra = None
    if isinstance(kind, str) and kind in _SPECIAL_CALL_TYPES:
        extra = {"native_type": kind}
    arguments = get_first(call, "input", "args", "arguments", "parameters", "server_tool_call")
    return ToolCallPart(
        as_text(get_first(block, "call_id", "id", "tool_call_id", "toolCallId")),
        as_text(get_first(call, "name", "toolName", "tool_name")) or "tool",
        parse_arguments(arguments),
        extra,
    )


def parse_tool_result(block: JsonObject) -> ToolResultPart:
    """Return a result, whatever the framework calls its fields."""
    is_error = block.get("is_error") is True or block.get("isError") is True
    if block.get("status") == "error":
        is_error = True
    output = get_first(
        block, "content", "response", "result", "output", "server_tool_call_response"
    )
    return ToolResultPart(
        as_text(get_first(block, "tool_use_id", "tool_call_id", "call_id", "toolCallId", "id")),
        unpack_output(output),
        as_text(get_first(block, "name", "toolName", "tool_name")),
        {"is_error": True} if is_error else None,
    )


def unpack_output(value: Any) -> Any:
    """Return an output: a single text as a string, media in blocks unpacked, the rest as is."""
    if value is None:
        return ""
    if not isinstance(value, list):
        return value
    blocks = [_unpack_output_block(block) for block in value]
    if len(blocks) == 1 and isinstance(blocks[0], dict) and blocks[0].keys() == {"type", "text"}:
        return blocks[0]["text"]
    return blocks


def _unpack_output_block(block: Any) -> Any:
    kind = _get_type(block)
    if not isinstance(kind, str):
        return block
    if kind in _TEXT_TYPES:
        text = get_first(block, "text", "content")
        if isinstance(text, str):
            return {"type": "text", "text": text}
    if kind in _MEDIA_TYPES:
        return parse_media(block, kind) or block
    return block


def parse_media(block: JsonObject, kind: str) -> JsonObject | None:
    """Return an image, audio or a file by its data or address; None if the block has neither."""
    nested = _find_nested_media(block, kind)
    source = nested if isinstance(nested, dict) else block
    media_kind = as_text(block.get("modality")) or _strip_media_affixes(kind)
    media_type = as_text(
        get_first(source, "mime_type", "mimeType", "media_type", "mediaType")
        or block.get("mime_type")
    )
    audio_format = source.get("format")
    if media_type is None and isinstance(audio_format, str):
        media_type = f"{media_kind}/{audio_format}"
    facts = pick_fields(source, "detail", "filename", "file_id", "title", "transcript", "provider")
    facts |= pick_fields(block, "name", "id")

    data = get_first(source, "base64", "data", "file_data")
    if not data:
        data = source.get("content") if kind in ("blob", "binary") else None
    address = get_first(source, "url", "uri", "image_url", "file_url")
    if not address:
        address = nested if isinstance(nested, str) else None
    # The AI SDK has {type: "data" or "url", value}.
    value = source.get("value")
    if isinstance(value, str):
        if source.get("type") == "data":
            data = value
        else:
            address = value

    if isinstance(data, str):
        if data.startswith("data:"):
            return build_media_url_block(data, media_kind) | facts
        return build_media_block(media_type, data, media_kind) | facts
    if isinstance(address, str):
        result = build_media_url_block(address, media_kind)
        if media_type is not None and "media_type" not in result:
            result = {**result, "media_type": media_type}
        return result | facts
    if not facts:
        return None
    result = {"type": media_kind}
    if media_type:
        result["media_type"] = media_type
    return result | facts


def _find_nested_media(block: JsonObject, kind: str) -> Any:
    return get_first(block, kind, "source", kind.replace("-", "_"))


def _strip_media_affixes(kind: str) -> str:
    return kind.removeprefix("input_").removesuffix("_url").removesuffix("-url")
