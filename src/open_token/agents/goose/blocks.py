"""Blocks of Goose messages and outputs in the export's terms; the outputs are those of the Model
Context Protocol."""

from typing import Any

import msgspec

from open_token.formats.shared.fields import JsonObject, get_dict, get_text
from open_token.jsontools.media import build_media_block, build_media_url_block
from open_token.jsontools.timestamps import from_epoch, to_utc
from open_token.model.document import Usage

_decode = msgspec.json.Decoder().decode
_MILLISECONDS = 10_000_000_000
"""A later moment than this in seconds is one in milliseconds: some writers used them."""
_COUNTS = {
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cacheReadTokens": "cache_read_tokens",
    "cacheWriteTokens": "cache_write_tokens",
}


def moment(value: Any) -> str | None:
    """A time as Goose writes it: seconds, or milliseconds, or a text; SQLite's own has no zone and
    is in UTC."""
    if isinstance(value, str):
        return to_utc(value) or to_utc(f"{value}Z")
    if type(value) is not int:
        return None
    return from_epoch(value, 0.001 if abs(value) > _MILLISECONDS else 1.0)


def parsed(text: Any) -> Any:
    """The value of a JSON text; None when it is none."""
    try:
        return _decode(text) if isinstance(text, str | bytes) else None
    except (ValueError, RecursionError):
        return None


def block_of(block: Any) -> Any:
    """A block as it stands in the record: media unpacked, old names of kinds in the new form."""
    if type(block) is not dict:
        return block
    block = _unwrapped(block)
    kind, data = block.get("type"), block.get("data")
    rest = {key: value for key, value in block.items() if key not in ("type", "data", "mimeType")}
    if kind in ("image", "audio", "document") and isinstance(data, str):
        known = "file" if kind == "document" else str(kind)
        return build_media_block(get_text(block, "mimeType"), data, known) | rest
    resource = get_dict(block, "resource")
    if kind == "resource" and isinstance(resource.get("blob"), str):
        return build_media_block(get_text(resource, "mimeType"), resource["blob"], "file") | {
            "uri": resource.get("uri")
        }
    if kind == "image" and isinstance(block.get("url"), str):
        return build_media_url_block(block["url"], "image") | {
            key: value for key, value in rest.items() if key != "url"
        }
    return block


def _unwrapped(block: JsonObject) -> JsonObject:
    """Before 1.0 the kind was the only key: {"Text": {...}}, {"Image": {...}}."""
    if len(block) == 1:
        name, inside = next(iter(block.items()))
        if name in ("Text", "Image", "Resource") and type(inside) is dict:
            return {"type": name.lower(), **inside}
    if "type" not in block and isinstance(block.get("text"), str):
        return {"type": "text", **block}
    return block


def said(blocks: list[Any]) -> str | list[Any]:
    """One text as it is, anything else as a list of blocks."""
    made = [block_of(block) for block in blocks]
    if len(made) == 1 and type(made[0]) is dict and made[0].get("type") == "text":
        text = made[0].get("text")
        if isinstance(text, str) and not made[0].keys() - {"type", "text"}:
            return text
    return made


def output_of(result: Any) -> tuple[Any, JsonObject, bool]:
    """What a tool gave back, the facts beside it, and whether there is a copy in another form that
    is left out."""
    if type(result) is not dict:
        return said(_listed(result)) if isinstance(result, list) else _old_output(result), {}, False
    if result.get("status") == "error" or ("error" in result and "value" not in result):
        error = result.get("error")
        return error if isinstance(error, str) else [error], {"is_error": True}, False
    value = result.get("value")
    facts: JsonObject = {}
    copied = False
    if type(value) is dict:
        if value.get("isError") is True or value.get("is_error") is True:
            facts["is_error"] = True
        copied = bool(value.get("structuredContent") or value.get("_meta"))
        value = value.get("content", value)
    return said(_listed(value)), facts, copied


def _listed(value: Any) -> list[Any]:
    if value is None or value == []:
        return [{"type": "text", "text": ""}]
    return value if isinstance(value, list) else [value]


def _old_output(text: Any) -> Any:
    """Before 1.0 an output was a JSON text of its blocks."""
    blocks = parsed(text)
    return said(blocks) if isinstance(blocks, list) and blocks else "" if text is None else text


def usage_of(usage: Any) -> Usage | None:
    """The counts of one request; the input counts cached tokens already."""
    if type(usage) is not dict:
        return None
    made: Any = {
        told: usage[name]
        for name, told in _COUNTS.items()
        if type(usage.get(name)) is int and usage[name] >= 0
    }
    return made if any(made.values()) else None
