"""Anthropic content blocks: their content, their token counts, and how they become events."""

from collections.abc import Callable
from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.shared.fields import JsonObject, as_text
from open_token.jsontools.media import build_media_block, build_media_url_block
from open_token.model.document import Usage, Visibility

THINKING_TYPES = frozenset(("thinking", "redacted_thinking"))
CALL_TYPES = frozenset(("tool_use", "server_tool_use", "mcp_tool_use"))
_MEDIA_TYPES = frozenset(("image", "document", "audio", "video", "file"))
_COUNTS = (
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
)


def parse_usage(usage: Any) -> Usage | None:
    """Return token counts; None if there are none.

    Anthropic counts cached input tokens apart; the input of an export includes them.
    """
    if type(usage) is not dict:
        return None
    usage = _add_compaction_counts(usage)
    fresh = _get_count(usage, "input_tokens")
    output = _get_count(usage, "output_tokens")
    read = _get_count(usage, "cache_read_input_tokens")
    written = _get_count(usage, "cache_creation_input_tokens")
    result: Usage = {}
    if fresh is not None or read is not None or written is not None:
        result["input_tokens"] = (fresh or 0) + (read or 0) + (written or 0)
    if output is not None:
        result["output_tokens"] = output
    thinking = _get_count(usage.get("output_tokens_details"), "thinking_tokens")
    if thinking is not None:
        result["reasoning_tokens"] = thinking
    if read is not None:
        result["cache_read_tokens"] = read
    if written is not None:
        result["cache_write_tokens"] = written
    return result or None


def _get_count(value: Any, key: str) -> int | None:
    count = value.get(key) if type(value) is dict else None
    return count if type(count) is int and count >= 0 else None


def _add_compaction_counts(usage: JsonObject) -> JsonObject:
    """Return counts that include a compaction by the API.

    The top-level counts leave out that call; the sum over all iterations has it.
    """
    iterations = usage.get("iterations")
    if type(iterations) is not list or len(iterations) < 2:
        return usage
    iterations = [item for item in iterations if type(item) is dict]
    if all(item.get("type") != "compaction" for item in iterations):
        return usage
    totals: JsonObject = {}
    for name in _COUNTS:
        totals[name] = sum(_get_count(item, name) or 0 for item in iterations)
    return usage | totals


def get_block_type(block: Any) -> str | None:
    """Return the type of a block; None if the value is not a block."""
    kind = block.get("type") if type(block) is dict else None
    return kind if type(kind) is str else None


def unpack_block(block: Any) -> Any:
    """Return a block as it is exported: media unpacked, without cache hints."""
    if type(block) is not dict:
        return block
    kind = block.get("type")
    source = block.get("source")
    if type(source) is dict and type(kind) is str and kind in _MEDIA_TYPES:
        dropped = ("type", "source", "cache_control")
        rest = {key: value for key, value in block.items() if key not in dropped}
        return _unpack_media(kind, source) | rest
    if "cache_control" in block:
        return {key: value for key, value in block.items() if key != "cache_control"}
    return block


def _unpack_media(kind: str, source: JsonObject) -> JsonObject:
    data = source.get("data")
    url = source.get("url")
    if source.get("type") == "base64" and isinstance(data, str):
        media_type = source.get("media_type")
        return build_media_block(media_type if isinstance(media_type, str) else None, data, kind)
    if source.get("type") == "url" and isinstance(url, str):
        return build_media_url_block(url, kind)
    return {"type": kind, "source": source}


def get_plain_text(block: Any) -> str | None:
    """Return the text of a block that is nothing but text."""
    if type(block) is not dict or block.get("type") != "text" or block.get("citations"):
        return None
    text = block.get("text")
    return text if isinstance(text, str) else None


def parse_content(content: Any) -> str | list[Any]:
    """Return the content of a message: a string if it is a single text, else its blocks."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else [content]
    if len(blocks) == 1:
        text = blocks[0] if isinstance(blocks[0], str) else get_plain_text(blocks[0])
        if text is not None:
            return text
    return [unpack_block(block) for block in blocks]


def parse_output(content: Any) -> Any:
    """Return the output of a tool: a text, its blocks, or the object that a server tool returned."""
    if isinstance(content, str):
        return content
    if content is None or content == []:
        return ""
    return content if isinstance(content, dict) else parse_content(content)


def add_result_block(
    draft: Draft,
    block: JsonObject,
    *,
    ts: str | None,
    span: str | None,
    facts: JsonObject | None = None,
) -> None:
    """Add the result of a tool call, also of one that the provider ran."""
    native_id = block.get("tool_use_id")
    if not isinstance(native_id, str):
        native_id = None
    if block.get("is_error") is True:
        facts = {"is_error": True, **(facts or {})}
    output = parse_output(block.get("content"))
    draft.add_tool_result(native_id, output, ts=ts, span=span, facts=facts)


def add_block(
    draft: Draft,
    block: Any,
    actor: str,
    *,
    ts: str | None = None,
    span: str | None = None,
    usage: Usage | None = None,
    group: object = None,
    visibility: Visibility = "public",
) -> str | None:
    """Add one block of the model's output; return the key of a call."""
    kind = get_block_type(block)
    if kind in CALL_TYPES:
        return _add_call_block(draft, block, actor, ts, span, usage, group)
    if kind == "text" or kind is None:
        content = parse_content([block])
        if content != "":
            draft.add_message(
                "assistant", content, actor, ts=ts, visibility=visibility, span=span, usage=usage
            )
    elif kind in THINKING_TYPES:
        # Redacted thinking has no text, and newer models give a signature with an empty one.
        draft.add_reasoning(as_text(block.get("thinking")), actor, ts=ts, span=span, usage=usage)
    elif kind.endswith("tool_result"):
        # Tools that the provider runs have their results in the answer of the model.
        add_result_block(draft, block, ts=ts, span=span)
    elif kind == "compaction":
        # The API summarized what came before, on the way to this answer.
        data = {"kind": "compaction", "summary": block.get("content")}
        draft.add_annotation(data, actor=actor, ts=ts, span=span, usage=usage)
    elif kind == "fallback":
        data = _describe_fallback(block)
        draft.add_annotation(data, actor=actor, ts=ts, span=span, usage=usage)
    else:
        content = [unpack_block(block)]
        draft.add_message(
            "assistant", content, actor, ts=ts, visibility=visibility, span=span, usage=usage
        )
    return None


def _add_call_block(
    draft: Draft,
    block: JsonObject,
    actor: str,
    ts: str | None,
    span: str | None,
    usage: Usage | None,
    group: object,
) -> str:
    native_id = block.get("id")
    name = block.get("name")
    arguments = block.get("input")
    extra = None
    # Tools of the provider and of its MCP servers differ from those that the client runs.
    if block["type"] != "tool_use":
        extra = {"native_type": block["type"]}
        server = block.get("server_name")
        if isinstance(server, str):
            extra["server_name"] = server
    return draft.add_tool_call(
        native_id if isinstance(native_id, str) else None,
        name if isinstance(name, str) and name else "tool",
        {} if arguments is None else arguments,
        actor,
        ts=ts,
        span=span,
        usage=usage,
        group=group,
        extra=extra,
    )


def _describe_fallback(block: JsonObject) -> JsonObject:
    """Describe that another model answered than the one that was asked."""
    data: JsonObject = {"kind": "model_fallback"}
    for key in ("from", "to"):
        model = block.get(key)
        if isinstance(model, dict):
            model = model.get("model")
        if isinstance(model, str):
            data[key] = model
    return data


def add_answer(
    draft: Draft,
    blocks: list[Any],
    actor: str,
    *,
    ts: str | None = None,
    span: str | None = None,
    usage: Usage | None = None,
    group: object = None,
    visibility: Visibility = "public",
    called: Callable[[str, JsonObject], None] | None = None,
) -> None:
    """Add an answer of the model, as agents store it.

    The usage goes on the first block that is not reasoning. `called` is given the key and the
    block of each call.
    """
    # One usage counts for all blocks of an answer, so exactly one event may carry it.
    last_reasoning = None
    for block in blocks:
        count = draft.count
        is_reasoning = get_block_type(block) in THINKING_TYPES
        key = add_block(
            draft,
            block,
            actor,
            ts=ts,
            span=span,
            usage=None if is_reasoning else usage,
            group=group,
            visibility=visibility,
        )
        if is_reasoning:
            last_reasoning = f"evt_{draft.count:06d}"
        elif draft.count > count:
            usage = None
        if key is not None and called is not None:
            called(key, block)
    if usage and last_reasoning:
        draft.set_usage(last_reasoning, usage)
    elif usage:
        draft.add_annotation({"kind": "usage"}, actor=actor, ts=ts, span=span, usage=usage)
