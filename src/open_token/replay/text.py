"""Text of untrusted JSON values: what a result or a block of a message says."""

from typing import Any

import msgspec

from open_token.jsontools.objects import as_object

MEDIA = "[media]"
"""Stands for an image or a file in a message: its presence is compared, not its content."""
_WRAPPERS = ("output", "result", "content", "error")
_MEDIA_TYPES = (
    "image",
    "image_url",
    "input_image",
    "document",
    "file",
    "input_file",
    "audio",
    "inlineData",
    "inline_data",
)
_MEDIA_KEYS = ("base64", "inlineData", "inline_data")
_MAX_DEPTH = 64


def is_media(value: Any) -> bool:
    """Return whether a block is an image or a file."""
    block = as_object(value)
    return block.get("type") in _MEDIA_TYPES or any(key in block for key in _MEDIA_KEYS)


def flatten_text(value: Any, depth: int = 0) -> str:
    """Return the text of a value: of its text blocks, or inside a wrapper object, else its JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list) and depth < _MAX_DEPTH:
        texts = [flatten_text(item, depth + 1) for item in value]
        return "\n".join(text for text in texts if text)
    if isinstance(value, dict) and depth < _MAX_DEPTH:
        if isinstance(value.get("text"), str):
            return str(value["text"])
        if is_media(value):
            return ""
        if len(value) == 1:
            name = next(iter(value))
            if name in _WRAPPERS:
                return flatten_text(value[name], depth + 1)
    return msgspec.json.encode(value, order="sorted").decode()
