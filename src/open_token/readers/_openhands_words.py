"""What an event of OpenHands says: texts and images."""

from collections.abc import Iterator
from typing import Any

from open_token.media import media_url


def content(blocks: Any) -> str | list[Any]:
    """One text as it is; several texts or an image as a list of blocks."""
    if isinstance(blocks, str):
        return blocks
    if isinstance(blocks, dict):
        blocks = [blocks]
    made = (
        [part for block in blocks if block is not None for part in _parts(block)]
        if isinstance(blocks, list)
        else []
    )
    if len(made) == 1 and isinstance(made[0], dict) and made[0].get("type") == "text":
        text = made[0].get("text")
        if isinstance(text, str):
            return text
    return made or ""


def _parts(block: Any) -> Iterator[Any]:
    """A block; an image block of OpenHands may hold several images."""
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "text" and isinstance(block.get("text"), str):
        yield {"type": "text", "text": block["text"]}
    elif kind == "image" and isinstance(block.get("image_urls"), list):
        for url in block["image_urls"]:
            yield media_url(url, "image") if isinstance(url, str) else {"type": "image", "url": url}
    elif isinstance(block, str):
        yield {"type": "text", "text": block}
    else:
        yield block
