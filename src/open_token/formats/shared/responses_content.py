"""Values inside Responses items: texts and media blocks, arguments, token counts."""

import re
from typing import Any, cast

import msgspec

from open_token.jsontools.media import build_media_block, build_media_url_block
from open_token.model.document import Usage

IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_.]{0,47}")
_TEXTS = ("input_text", "output_text", "text", "summary_text", "reasoning_text")
_decode = msgspec.json.Decoder().decode


def usage(value: Any) -> Usage | None:
    """Token counts of the API (details inside) or of Codex (flat); the sums include cached and
    reasoning tokens."""
    if not isinstance(value, dict):
        return None
    inputs, outputs = value.get("input_tokens_details"), value.get("output_tokens_details")
    counts = {
        "input_tokens": value.get("input_tokens"),
        "output_tokens": value.get("output_tokens"),
        "reasoning_tokens": value.get(
            "reasoning_output_tokens", _inside(outputs, "reasoning_tokens")
        ),
        "cache_read_tokens": value.get("cached_input_tokens", _inside(inputs, "cached_tokens")),
        "cache_write_tokens": value.get(
            "cache_write_input_tokens", _inside(inputs, "cache_write_tokens")
        ),
    }
    made = {name: count for name, count in counts.items() if type(count) is int and count >= 0}
    return cast(Usage, made) if made else None


def _inside(details: Any, name: str) -> Any:
    return details.get(name) if isinstance(details, dict) else None


def name_of(kind: Any) -> str:
    """A kind as a note may show it: only when it is a short identifier, so that no content slips
    in."""
    return kind if isinstance(kind, str) and IDENTIFIER.fullmatch(kind) else "without a known type"


def arguments(text: Any) -> Any:
    """The arguments of a call, parsed when they are JSON in a text; else as they are."""
    if not isinstance(text, str):
        return {} if text is None else text
    try:
        value = _decode(text.encode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict | list) else text


def content(value: Any) -> str | list[Any]:
    """What a message or an output holds: one text as it is, anything else as a list of blocks."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        value = [value]
    if not isinstance(value, list):
        return "" if value is None else [value]
    if len(value) == 1 and isinstance(value[0], dict) and value[0].get("type") in _TEXTS:
        text = value[0].get("text")
        if isinstance(text, str):
            return text
    return [_block(block) for block in value]


def _block(block: Any) -> Any:
    if isinstance(block, str):
        return {"type": "text", "text": block}
    if not isinstance(block, dict):
        return block
    kind = block.get("type")
    if kind in _TEXTS and isinstance(block.get("text"), str):
        return {"type": "text", "text": block["text"]}
    if kind == "refusal":
        return {"type": "refusal", "refusal": block.get("refusal")}
    if kind == "encrypted_content":
        return {"type": "encrypted_content", "encrypted": True}
    return _media_block(kind, block) or block


def _media_block(kind: Any, block: dict[str, Any]) -> dict[str, Any] | None:
    """An image, a sound or a file; None when the block is none of these or does not say what it
    holds."""
    if kind in ("input_image", "computer_screenshot", "image") and isinstance(
        block.get("image_url"), str
    ):
        return build_media_url_block(block["image_url"], "image") | kept(block, "detail", "file_id")
    if kind == "image" and isinstance(block.get("data"), str):
        return build_media_block(word(block.get("mimeType")), block["data"], "image")
    if kind == "input_file" and isinstance(block.get("file_data"), str):
        return build_media_url_block(block["file_data"], "file") | kept(
            block, "filename", "file_id"
        )
    if kind == "input_audio":
        sound = block.get("input_audio", block)
        if isinstance(sound, dict) and isinstance(sound.get("data"), str):
            form = word(sound.get("format"))
            return build_media_block(f"audio/{form}" if form else None, sound["data"], "audio")
    return None


def kept(block: dict[str, Any], *names: str) -> dict[str, Any]:
    """These fields, those that say something."""
    return {name: block[name] for name in names if block.get(name) is not None}


def word(value: Any) -> str | None:
    """A text that is not empty; else None."""
    return value if isinstance(value, str) and value else None
