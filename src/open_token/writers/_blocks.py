"""What a message or a result holds, block by block: texts, media, and the rest as JSON in a
text."""

from collections.abc import Iterator
from typing import Any

import msgspec

from open_token.model.document import Event
from open_token.writers._runs import Body, Losses, blocks_of, first_word, text_of

AS_JSON = "a block that is neither text nor media, as JSON in a text"
"""What is noted of such a block."""


class Media(msgspec.Struct, frozen=True):
    """An image, a sound, a video or a file: its bytes, or where it is."""

    kind: str
    media_type: str | None
    base64: str | None
    address: str | None
    block: Body


def blocks(event: Event, losses: Losses) -> Iterator[str | Media]:
    """The content of an event; what is neither text nor media is noted."""
    if (text := text_of(event)) is not None:
        yield text
        return
    for block in blocks_of(event):
        if isinstance(block, str):
            yield block
        elif (
            isinstance(block, dict)
            and block.get("type") == "text"
            and isinstance(block.get("text"), str)
        ):
            if len(block) > 2:
                losses.lost("marked-text", event, "citations and other marks of a text")
            yield block["text"]
        elif isinstance(block, dict) and (found := _media(block)) is not None:
            yield found
        else:
            losses.changed("json-text", event, AS_JSON)
            yield spelled(block)


def spelled(value: Any) -> str:
    """A value as JSON."""
    return msgspec.json.encode(value).decode()


def _media(block: Body) -> Media | None:
    data, address = first_word(block, "base64"), first_word(block, "url", "path")
    if data is None and (
        address is None or block.get("type") not in ("image", "audio", "video", "file", "document")
    ):
        return None
    return Media(
        first_word(block, "type") or "file", first_word(block, "media_type"), data, address, block
    )
