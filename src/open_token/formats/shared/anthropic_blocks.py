"""Anthropic content blocks: what they are in a message or an output, and the draft verbs that tell
them."""

from typing import Any

from open_token.builder.draft import Draft
from open_token.jsontools.media import build_media_block, build_media_url_block
from open_token.model.document import Usage, Visibility

THOUGHTS = frozenset(("thinking", "redacted_thinking"))
_CALLS = frozenset(("tool_use", "server_tool_use", "mcp_tool_use"))
_MEDIA = frozenset(("image", "document", "audio", "video", "file"))


def usage_of(usage: Any) -> Usage | None:
    """Anthropic's figures in the export's terms: the input counts cached tokens too; None where
    there are none."""
    if type(usage) is not dict:
        return None
    usage = _with_compaction(usage)
    fresh, output = _count(usage, "input_tokens"), _count(usage, "output_tokens")
    read, written = (
        _count(usage, "cache_read_input_tokens"),
        _count(usage, "cache_creation_input_tokens"),
    )
    made: Usage = {}
    if fresh is not None or read is not None or written is not None:
        made["input_tokens"] = (fresh or 0) + (read or 0) + (written or 0)
    if output is not None:
        made["output_tokens"] = output
    details = usage.get("output_tokens_details")
    if details is not None and (thinking := _count(details, "thinking_tokens")) is not None:
        made["reasoning_tokens"] = thinking
    if read is not None:
        made["cache_read_tokens"] = read
    if written is not None:
        made["cache_write_tokens"] = written
    return made or None


def _count(holder: Any, key: str) -> int | None:
    value = holder.get(key) if type(holder) is dict else None
    return value if type(value) is int and value >= 0 else None


def _with_compaction(usage: dict[str, Any]) -> dict[str, Any]:
    """When the API compacted on the way, the figures on top leave that call out; the sum of all
    calls is the truth."""
    rounds = usage.get("iterations")
    if type(rounds) is not list or len(rounds) < 2:
        return usage
    rounds = [item for item in rounds if type(item) is dict]
    if all(item.get("type") != "compaction" for item in rounds):
        return usage
    names = (
        "input_tokens",
        "output_tokens",
        "cache_read_input_tokens",
        "cache_creation_input_tokens",
    )
    return usage | {name: sum(_count(item, name) or 0 for item in rounds) for name in names}


def kind_of(block: Any) -> str | None:
    """The type of a block; None for what is no block."""
    kind = block.get("type") if type(block) is dict else None
    return kind if type(kind) is str else None


def block_of(block: Any) -> Any:
    """A block as it stands in the record: media unpacked, everything else as it is but for hints to
    the cache."""
    if type(block) is not dict:
        return block
    kind, source = block.get("type"), block.get("source")
    if type(source) is dict and type(kind) is str and kind in _MEDIA:
        rest = {
            key: value
            for key, value in block.items()
            if key not in ("type", "source", "cache_control")
        }
        return _media_of(kind, source) | rest
    if "cache_control" in block:
        return {key: value for key, value in block.items() if key != "cache_control"}
    return block


def _media_of(kind: str, source: dict[str, Any]) -> dict[str, Any]:
    data, address, media_type = source.get("data"), source.get("url"), source.get("media_type")
    if source.get("type") == "base64" and isinstance(data, str):
        return build_media_block(media_type if isinstance(media_type, str) else None, data, kind)
    if source.get("type") == "url" and isinstance(address, str):
        return build_media_url_block(address, kind)
    return {"type": kind, "source": source}


def text_of(block: Any) -> str | None:
    """The text of a block that is nothing but text."""
    if type(block) is not dict or block.get("type") != "text" or block.get("citations"):
        return None
    text = block.get("text")
    return text if isinstance(text, str) else None


def content_of(content: Any) -> str | list[Any]:
    """What a message says: a text when it is one, else its blocks."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else [content]
    if len(blocks) == 1:
        text = blocks[0] if isinstance(blocks[0], str) else text_of(blocks[0])
        if text is not None:
            return text
    return [block_of(block) for block in blocks]


def output_of(content: Any) -> Any:
    """What a tool gave back: a text when it is one, else its blocks, or the object that a server's
    tool gave."""
    if isinstance(content, str):
        return content
    if content is None or content == []:
        return ""
    return content if isinstance(content, dict) else content_of(content)


def tell_result(
    draft: Draft,
    block: dict[str, Any],
    *,
    ts: str | None,
    span: str | None,
    facts: dict[str, Any] | None = None,
) -> None:
    """The result of a call, also of one that the provider's own server ran."""
    native = block.get("tool_use_id")
    if block.get("is_error") is True:
        facts = {"is_error": True, **(facts or {})}
    native = native if isinstance(native, str) else None
    draft.add_tool_result(native, output_of(block.get("content")), ts=ts, span=span, facts=facts)


def tell_block(
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
    """One block of what a model said, in the right verb; gives the key of a call."""
    kind = kind_of(block)
    if kind in _CALLS:
        return _tell_call(draft, block, actor, ts, span, usage, group)
    if kind == "text" or kind is None:
        content = content_of([block])
        if content != "":
            draft.add_message(
                "assistant", content, actor, ts=ts, visibility=visibility, span=span, usage=usage
            )
    elif kind in THOUGHTS:
        words = block.get("thinking")
        draft.add_reasoning(
            words if isinstance(words, str) and words else None,
            actor,
            ts=ts,
            span=span,
            usage=usage,
        )
    elif kind.endswith("tool_result"):
        tell_result(draft, block, ts=ts, span=span)
    elif kind == "compaction":
        data = {"kind": "compaction", "summary": block.get("content")}
        draft.add_annotation(data, actor=actor, ts=ts, span=span, usage=usage)
    elif kind == "fallback":
        draft.add_annotation(_fallback(block), actor=actor, ts=ts, span=span, usage=usage)
    else:
        content = [block_of(block)]
        draft.add_message(
            "assistant", content, actor, ts=ts, visibility=visibility, span=span, usage=usage
        )
    return None


def _tell_call(
    draft: Draft,
    block: dict[str, Any],
    actor: str,
    ts: str | None,
    span: str | None,
    usage: Usage | None,
    group: object,
) -> str:
    native, name, arguments = block.get("id"), block.get("name"), block.get("input")
    extra = None
    if block["type"] != "tool_use":
        extra = {"native_type": block["type"]}
        if isinstance(server := block.get("server_name"), str):
            extra["server_name"] = server
    return draft.add_tool_call(
        native if isinstance(native, str) else None,
        name if isinstance(name, str) and name else "tool",
        {} if arguments is None else arguments,
        actor,
        ts=ts,
        span=span,
        usage=usage,
        group=group,
        extra=extra,
    )


def _fallback(block: dict[str, Any]) -> dict[str, Any]:
    """The provider answered with another model than the one that was asked."""
    data: dict[str, Any] = {"kind": "model_fallback"}
    for key in ("from", "to"):
        side = block.get(key)
        model = side.get("model") if isinstance(side, dict) else side
        if isinstance(model, str):
            data[key] = model
    return data
