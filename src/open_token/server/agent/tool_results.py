"""Tool results as the model sees them: both ends of a long blob, and images as images."""

import asyncio
import base64
import binascii
from collections.abc import Sequence
from typing import Any

import msgspec

from open_token.server.agent.model_interface import Json, Media, Message, Part, Result
from open_token.server.agent.run_context import RunContext
from open_token.server.core.session_log import is_blob_reference

MAX_CHARACTERS = 30_000
"""Of a result that is a blob; clients get its preview, and all of it on request."""
_MAX_CHARACTER_BYTES = 4
"""The bytes of a character in UTF-8."""
MAX_IMAGE_BYTES = 20 << 20
"""Bytes of images in one request; the newest take precedence."""
_MAX_IMAGE_BLOB = 8 << 20
MAX_CACHED_BYTES = 32 << 20
"""Bytes of results that are cached from one request to the next."""
_MAX_DEPTH = 4
_IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")


async def expand_results(context: RunContext, messages: Sequence[Message]) -> list[Message]:
    """Return the messages of a history with results as the model has to see them."""
    expanded: list[Message] = []
    image_bytes = 0
    cache = ResultCache()
    # From the newest to the oldest: the newest results get the room.
    for message in reversed(messages):
        if message.role != "tool":
            expanded.append(message)
            continue
        parts: list[Part] = []
        for part in message.parts:
            if isinstance(part, Result):
                part = await _expand_result(context, part, cache)
                image_bytes += sum(len(media.data) for media in part.media)
                if part.media and image_bytes > MAX_IMAGE_BYTES:
                    part = msgspec.structs.replace(part, media=())
            parts.append(part)
        expanded.append(Message("tool", parts))
    # Results of other loops stay cached if there is room.
    for sha256, (size, content) in context.shown.items():
        cache.add(sha256, size, content)
    context.shown = cache.items
    expanded.reverse()
    return expanded


class ResultCache:
    """Blob results that the next request will need again; those added first take precedence."""

    def __init__(self) -> None:
        self.items: dict[str, tuple[int, Any]] = {}
        self._remaining = MAX_CACHED_BYTES

    def add(self, sha256: str, size: int, content: Any) -> None:
        """Cache a result if there is room for it."""
        if sha256 not in self.items and size <= self._remaining:
            self.items[sha256] = (size, content)
            self._remaining -= size


async def _expand_result(context: RunContext, result: Result, cache: ResultCache) -> Result:
    content = result.content
    if is_blob_reference(content):
        content = await _load_blob(context, content, cache)
    elif not isinstance(content, dict | list):
        return result
    images: list[Media] = []
    content = _extract_images(content, images, 0)
    return msgspec.structs.replace(result, content=content, media=tuple(images))


async def _load_blob(context: RunContext, reference: Json, cache: ResultCache) -> Any:
    sha256 = reference["blob"]
    cached = cache.items.get(sha256) or context.shown.get(sha256)
    if cached:
        size, content = cached
    else:
        content = await _read_blob(context, reference)
        size = _get_size(reference, content)
    cache.add(sha256, size, content)
    return content


def _get_size(reference: Json, content: Any) -> int:
    """Return the size of a cached result: that of a text after cutting, or that of the blob."""
    size = reference["size"]
    if isinstance(content, str) or not isinstance(size, int):
        return len(content)
    return size


async def _read_blob(context: RunContext, reference: Json) -> Any:
    """Return the content of a blob; the reference itself if the session has no such blob."""
    store = context.services.store
    owner = context.owner
    session_id = context.session_id
    sha256 = reference["blob"]
    size = reference["size"] if isinstance(reference["size"], int) else 0
    if '"base64"' in str(reference["preview"]) and size <= _MAX_IMAGE_BLOB:
        data = await store.read_blob(owner, session_id, sha256)
        if data is None:
            return reference
        return await asyncio.to_thread(_decode_json, data, reference)
    # At four characters a token, this is at most a quarter of the context window.
    max_characters = min(MAX_CHARACTERS, context.context_window)
    if size <= max_characters * _MAX_CHARACTER_BYTES:
        data = await store.read_blob(owner, session_id, sha256)
        if data is None:
            return reference
        return truncate_middle(data.decode("utf-8", "replace"), max_characters)
    half = max_characters // 2
    half_bytes = half * _MAX_CHARACTER_BYTES
    head = await store.read_blob(owner, session_id, sha256, 0, half_bytes)
    tail = await store.read_blob(owner, session_id, sha256, size - half_bytes, half_bytes)
    if head is None or tail is None:
        return reference
    first = head.decode("utf-8", "ignore")[:half]
    last = tail.decode("utf-8", "ignore")[-half:]
    omitted = size - len(first.encode()) - len(last.encode())
    return f"{first}\n{_build_note(omitted, 'bytes', size)}\n{last}"


def truncate_middle(text: str, max_characters: int = MAX_CHARACTERS) -> str:
    """Shorten a text by replacing its middle with a note."""
    if len(text) <= max_characters:
        return text
    half = max_characters // 2
    note = _build_note(len(text) - 2 * half, "characters", len(text))
    return f"{text[:half]}\n{note}\n{text[-half:]}"


def _build_note(omitted: int, unit: str, total: int) -> str:
    return f"[... {omitted} of {total} {unit} omitted; ask for less at a time to see them ...]"


def _decode_json(data: bytes, reference: Json) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return reference


def _extract_images(value: Any, images: list[Media], depth: int) -> Any:
    """Return a value without the bytes of images, which are added to the list."""
    if depth > _MAX_DEPTH:
        return value
    if isinstance(value, list):
        return [_extract_images(item, images, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get("encoding") == "base64" and value.get("media_type") in _IMAGE_TYPES:
        image = _decode_image(value)
        if image is not None:
            images.append(image)
            removed = ("base64", "encoding")
            return {name: item for name, item in value.items() if name not in removed}
    return {name: _extract_images(item, images, depth + 1) for name, item in value.items()}


def _decode_image(value: Json) -> Media | None:
    try:
        data = base64.b64decode(value.get("base64", ""), validate=True)
    except (binascii.Error, TypeError, ValueError):
        return None
    return Media(value["media_type"], data=data)
