"""Values inside Responses items: texts, media blocks and token counts."""

from typing import Any

from open_token.formats.shared.fields import JsonObject, as_text, pick_fields
from open_token.formats.shared.token_usage import build_usage
from open_token.jsontools.media import build_media_block, build_media_url_block
from open_token.model.document import Usage

_TEXT_TYPES = ("input_text", "output_text", "text", "summary_text", "reasoning_text")
_IMAGE_TYPES = ("input_image", "computer_screenshot", "image")


def parse_usage(value: Any) -> Usage | None:
    """Return token counts of the API (with nested details) or of Codex (flat).

    The sums include cached and reasoning tokens.
    """
    if not isinstance(value, dict):
        return None
    input_details = value.get("input_tokens_details")
    output_details = value.get("output_tokens_details")
    return build_usage(
        input_tokens=value.get("input_tokens"),
        output_tokens=value.get("output_tokens"),
        reasoning_tokens=value.get(
            "reasoning_output_tokens", _get_detail(output_details, "reasoning_tokens")
        ),
        cache_read_tokens=value.get(
            "cached_input_tokens", _get_detail(input_details, "cached_tokens")
        ),
        cache_write_tokens=value.get(
            "cache_write_input_tokens", _get_detail(input_details, "cache_write_tokens")
        ),
    )


def _get_detail(details: Any, name: str) -> Any:
    return details.get(name) if isinstance(details, dict) else None


def parse_content(value: Any) -> str | list[Any]:
    """Return the content of a message or an output: a single text, or a list of blocks."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    blocks = value if isinstance(value, list) else [value]
    if not isinstance(value, list | dict):
        return blocks
    if len(blocks) == 1 and isinstance(blocks[0], dict) and blocks[0].get("type") in _TEXT_TYPES:
        text = blocks[0].get("text")
        if isinstance(text, str):
            return text
    return [_parse_block(block) for block in blocks]


def _parse_block(block: Any) -> Any:
    if isinstance(block, str):
        return {"type": "text", "text": block}
    if not isinstance(block, dict):
        return block
    kind = block.get("type")
    if kind in _TEXT_TYPES and isinstance(block.get("text"), str):
        return {"type": "text", "text": block["text"]}
    if kind == "refusal":
        return {"type": "refusal", "refusal": block.get("refusal")}
    if kind == "encrypted_content":
        return {"type": "encrypted_content", "encrypted": True}
    return _parse_media(kind, block) or block


def _parse_media(kind: Any, block: JsonObject) -> JsonObject | None:
    """Return an image, audio or a file; None if the block is none of these or has no data."""
    if kind in _IMAGE_TYPES and isinstance(block.get("image_url"), str):
        return build_media_url_block(block["image_url"], "image") | pick_fields(
            block, "detail", "file_id"
        )
    if kind == "image" and isinstance(block.get("data"), str):
        return build_media_block(as_text(block.get("mimeType")), block["data"], "image")
    if kind == "input_file" and isinstance(block.get("file_data"), str):
        return build_media_url_block(block["file_data"], "file") | pick_fields(
            block, "filename", "file_id"
        )
    if kind == "input_audio":
        audio = block.get("input_audio", block)
        if isinstance(audio, dict) and isinstance(audio.get("data"), str):
            audio_format = as_text(audio.get("format"))
            media_type = f"audio/{audio_format}" if audio_format else None
            return build_media_block(media_type, audio["data"], "audio")
    return None
