"""Convert the blocks of Goose messages, and of tool results, which are those of MCP."""

from typing import Any

import msgspec

from open_token.formats.shared.fields import JsonObject, get_dict, get_text
from open_token.jsontools.media import build_media_block, build_media_url_block
from open_token.jsontools.timestamps import from_epoch, to_utc
from open_token.model.document import Usage

_decode = msgspec.json.Decoder().decode
_MAX_SECONDS = 10_000_000_000
"""Larger times are in milliseconds, which some versions wrote."""
_USAGE_FIELDS = {
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cacheReadTokens": "cache_read_tokens",
    "cacheWriteTokens": "cache_write_tokens",
}


def parse_time(value: Any) -> str | None:
    """Return a timestamp from seconds, milliseconds or text."""
    if isinstance(value, str):
        # SQLite writes times in UTC without a time zone.
        return to_utc(value) or to_utc(f"{value}Z")
    if type(value) is not int:
        return None
    return from_epoch(value, 0.001 if abs(value) > _MAX_SECONDS else 1.0)


def decode_json(text: Any) -> Any:
    """Return the value of a JSON text; None if it is not valid."""
    if not isinstance(text, str | bytes):
        return None
    try:
        return _decode(text)
    except (ValueError, RecursionError):
        return None


def convert_block(block: Any) -> Any:
    """Return a block with its media unpacked, and in the form of current versions."""
    if type(block) is not dict:
        return block
    block = _convert_old_block(block)
    kind = block.get("type")
    data = block.get("data")
    if kind in ("image", "audio", "document") and isinstance(data, str):
        media_kind = "file" if kind == "document" else kind
        converted = build_media_block(get_text(block, "mimeType"), data, media_kind)
        return converted | _drop_fields(block, "type", "data", "mimeType")
    if kind == "image" and isinstance(block.get("url"), str):
        converted = build_media_url_block(block["url"], "image")
        return converted | _drop_fields(block, "type", "data", "mimeType", "url")
    resource = get_dict(block, "resource")
    if kind == "resource" and isinstance(resource.get("blob"), str):
        converted = build_media_block(get_text(resource, "mimeType"), resource["blob"], "file")
        return converted | {"uri": resource.get("uri")}
    return block


def _drop_fields(block: JsonObject, *names: str) -> JsonObject:
    return {name: value for name, value in block.items() if name not in names}


def _convert_old_block(block: JsonObject) -> JsonObject:
    # Before 1.0 the kind was the only key: {"Text": {...}}, {"Image": {...}}.
    if len(block) == 1:
        name, fields = next(iter(block.items()))
        if name in ("Text", "Image", "Resource") and type(fields) is dict:
            return {"type": name.lower(), **fields}
    if "type" not in block and isinstance(block.get("text"), str):
        return {"type": "text", **block}
    return block


def convert_content(blocks: list[Any]) -> str | list[Any]:
    """Return a single text as a string, other content as a list of blocks."""
    converted = [convert_block(block) for block in blocks]
    if len(converted) == 1:
        block = converted[0]
        if type(block) is dict and block.keys() == {"type", "text"} and block["type"] == "text":
            text = block["text"]
            if isinstance(text, str):
                return text
    return converted


def convert_result(result: Any) -> tuple[Any, JsonObject, bool]:
    """Return the output of a tool, facts about it, and whether a second form was left out."""
    if isinstance(result, list):
        return convert_content(_to_list(result)), {}, False
    if type(result) is not dict:
        return _convert_old_result(result), {}, False
    # Results are {"status": ..., "value": ...} or {"status": ..., "error": ...}.
    if result.get("status") == "error" or ("error" in result and "value" not in result):
        error = result.get("error")
        return error if isinstance(error, str) else [error], {"is_error": True}, False
    value = result.get("value")
    if type(value) is not dict:
        return convert_content(_to_list(value)), {}, False
    facts: JsonObject = {}
    if value.get("isError") is True or value.get("is_error") is True:
        facts["is_error"] = True
    has_copy = bool(value.get("structuredContent") or value.get("_meta"))
    return convert_content(_to_list(value.get("content", value))), facts, has_copy


def _to_list(value: Any) -> list[Any]:
    if value is None or value == []:
        return [{"type": "text", "text": ""}]
    return value if isinstance(value, list) else [value]


def _convert_old_result(text: Any) -> Any:
    # Before 1.0 a result was a JSON text of its blocks.
    blocks = decode_json(text)
    if isinstance(blocks, list) and blocks:
        return convert_content(blocks)
    return "" if text is None else text


def parse_usage(usage: Any) -> Usage | None:
    """Return the token counts of one request; the input includes cached tokens."""
    if type(usage) is not dict:
        return None
    counts: Any = {}
    for name, field in _USAGE_FIELDS.items():
        count = usage.get(name)
        if type(count) is int and count >= 0:
            counts[field] = count
    return counts if any(counts.values()) else None
