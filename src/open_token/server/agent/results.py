"""Results as the model sees them: of one that lies beside the log its two ends, and pictures as
pictures."""

import asyncio
import base64
import binascii
from collections.abc import Sequence
from typing import Any

import msgspec

from open_token.server._log_file import is_reference
from open_token.server.agent.interface import Json, Media, Message, Result
from open_token.server.agent.work import Work

MOST_LETTERS = 30_000
"""Of a result that lies beside the log; clients get its preview, and the whole of it when they
ask."""
_WIDEST = 4
"""Bytes that a letter takes at most."""
MOST_PICTURES = 20 << 20
"""Bytes of pictures in one request; the newest go first."""
_LARGEST_PICTURE = 8 << 20
MOST_KEPT = 32 << 20
"""Bytes of results that are kept from one request to the next; older ones are read again."""
_DEEPEST = 4
_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")


async def shown(work: Work, messages: Sequence[Message]) -> list[Message]:
    """The messages of a history, with results as the model is to see them."""
    made: list[Message] = []
    room = MOST_PICTURES
    kept = Kept()
    for message in reversed(messages):
        if message.role == "tool":
            parts = [
                await _shown(work, part, kept) if isinstance(part, Result) else part
                for part in message.parts
            ]
            for place, part in enumerate(parts):
                if isinstance(part, Result) and part.media:
                    room -= sum(len(media.data) for media in part.media)
                    parts[place] = part if room >= 0 else msgspec.structs.replace(part, media=())
            message = Message("tool", parts)
        made.append(message)
    for name, (size, content) in work.shown.items():  # those of other loops, where there is room
        kept.add(name, size, content)
    work.shown = kept.items
    return made[::-1]


class Kept:
    """Results that the next request will want too: those first that it will show, the newest before
    the older."""

    def __init__(self) -> None:
        self.items: dict[str, tuple[int, Any]] = {}
        self._left = MOST_KEPT

    def add(self, name: str, size: int, content: Any) -> None:
        """Keep one, if there is room for it."""
        if name not in self.items and size <= self._left:
            self.items[name] = (size, content)
            self._left -= size


async def _shown(work: Work, result: Result, kept: Kept) -> Result:
    content, held = result.content, result.content
    if is_reference(held):
        name = held["blob"]
        known = kept.items.get(name) or work.shown.get(name)
        content = known[1] if known else await _read(work, held)
        kept.add(name, known[0] if known else _weight(held, content), content)
    elif not isinstance(content, dict | list):
        return result
    pictures: list[Media] = []
    told = _without_pictures(content, pictures, 0)
    return msgspec.structs.replace(result, content=told, media=tuple(pictures))


def _weight(held: Json, content: Any) -> int:
    """About how many bytes a result is: of a text that was cut what is left, of what has pictures
    in it all."""
    size = held["size"]
    return len(content) if isinstance(content, str) or not isinstance(size, int) else size


async def _read(work: Work, held: Json) -> Any:
    """What is told of a blob; the reference itself when the session has no such blob."""
    store, owner, session_id, name = work.services.store, work.owner, work.session_id, held["blob"]
    size = held["size"] if isinstance(held["size"], int) else 0
    if '"base64"' in str(held["preview"]) and size <= _LARGEST_PICTURE:
        data = await store.read_blob(owner, session_id, name)
        return held if data is None else await asyncio.to_thread(_decoded, data, held)
    most = min(
        MOST_LETTERS, work.model.context_window
    )  # a quarter of the window, at four letters a token
    if size <= most * _WIDEST:
        data = await store.read_blob(owner, session_id, name)
        return held if data is None else cut(data.decode("utf-8", "replace"), most)
    half = most // 2
    head = await store.read_blob(owner, session_id, name, 0, half * _WIDEST)
    tail = await store.read_blob(owner, session_id, name, size - half * _WIDEST, half * _WIDEST)
    if head is None or tail is None:
        return held
    first, last = head.decode("utf-8", "ignore")[:half], tail.decode("utf-8", "ignore")[-half:]
    left_out = size - len(first.encode()) - len(last.encode())
    return f"{first}\n{_note(left_out, 'bytes', size)}\n{last}"


def cut(text: str, most: int = MOST_LETTERS) -> str:
    """A text of bounded length: its middle makes way, and says so."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n{_note(len(text) - 2 * half, 'characters', len(text))}\n{text[-half:]}"


def _note(left_out: int, what: str, whole: int) -> str:
    return f"[... {left_out} of {whole} {what} are left out here; ask for less at a time to see them ...]"


def _decoded(data: bytes, held: Json) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return held


def _without_pictures(value: Any, found: list[Media], depth: int) -> Any:
    """A value without the bytes of pictures, which are put among those found."""
    if depth > _DEEPEST:
        return value
    if isinstance(value, list):
        return [_without_pictures(item, found, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get("encoding") == "base64" and value.get("media_type") in _PICTURES:
        picture = _picture(value)
        if picture is not None:
            found.append(picture)
            return {
                name: item for name, item in value.items() if name not in ("base64", "encoding")
            }
    return {name: _without_pictures(item, found, depth + 1) for name, item in value.items()}


def _picture(value: Json) -> Media | None:
    try:
        return Media(
            value["media_type"], data=base64.b64decode(value.get("base64", ""), validate=True)
        )
    except (binascii.Error, TypeError, ValueError):
        return None
