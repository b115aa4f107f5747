"""Values of strangers as plain words: what a result or a block of a message says, without its
wrapping."""

from typing import Any

import msgspec

_WRAPPED = ("output", "result", "content", "error")
_MEDIA = (
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
_DEEPEST = 64
MEDIA = "[media]"
"""Stands for an image or a file in a message: that there was one is compared, not what it shows."""


def object_of(value: Any) -> dict[str, Any]:
    """What may hold anything, as an object; empty where it is none."""
    return value if isinstance(value, dict) else {}


def list_of(value: Any) -> list[Any]:
    """What may hold anything, as a list; empty where it is none."""
    return value if isinstance(value, list) else []


def text_of(value: Any) -> str:
    """What may hold anything, as a text; empty where it is none."""
    return value if isinstance(value, str) else ""


def is_media(value: Any) -> bool:
    """Whether a block is an image or a file."""
    told = object_of(value)
    return told.get("type") in _MEDIA or any(name in told for name in ("base64", *_MEDIA[-2:]))


def flat(value: Any, depth: int = 0) -> str:
    """The words in a value: of blocks their texts, of a wrapped value what is in it; an image says
    nothing."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list) and depth < _DEEPEST:
        return "\n".join(words for item in value if (words := flat(item, depth + 1)))
    if isinstance(value, dict) and depth < _DEEPEST:
        if isinstance(value.get("text"), str):
            return str(value["text"])
        if is_media(value):
            return ""
        for name in _WRAPPED:
            if len(value) == 1 and name in value:
                return flat(value[name], depth + 1)
    return msgspec.json.encode(value, order="sorted").decode()
