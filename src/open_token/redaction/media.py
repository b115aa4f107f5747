"""Images and other files: dropped, searched if they are text, or kept and counted.

They stand in blocks of the format, in source values as each provider writes them (native data), and
as base64 in text and tool output.
"""

import binascii
import hashlib
import re
from array import array
from collections import Counter
from collections.abc import Callable, Container, Iterable
from typing import Any, cast

from open_token.context import Context
from open_token.jsontools.walk import estimate_memory, is_binary_file
from open_token.model.document import Event, Record
from open_token.redaction.decoders.packed import decode_file
from open_token.redaction.lazy_patterns import lazy_compile
from open_token.redaction.marker_factory import MarkerFactory, MarkerNumbering, build_factory
from open_token.redaction.text_encoding import decode_padded

_SPOOL_SIZE = 8 << 20
_MIN_LENGTH = 64
_MIME_KEYS = ("media_type", "mime_type", "mimeType", "mediaType", "mime")
# What a placeholder of a block leaves out: the bytes, and what identifies them.
_BYTE_KEYS = frozenset(("base64", "encoding", "sha256"))
# A slash may be escaped, and lines may be wrapped, in text as well as in JSON inside a string.
_RUN = r"(?:[A-Za-z0-9+_-]+|\\?/)+={0,2}"
_BASE64 = rf"{_RUN}(?:(?:\\[rn]|\s){{1,4}}[A-Za-z0-9+/_-]{{40,}}={{0,2}})*"
# The first bytes of PNG, JPEG, GIF, RIFF (WebP, WAV), TIFF, PDF, zip (office files), MP3, Ogg, MP4.
_MAGIC = (
    r"iVBORw0KGgo|\\?/9j\\?/|R0lGOD|UklGR|SUkqA|TU0AK|JVBERi0|UEsDB|SUQz|T2dnUw"
    r"|AAAA[A-Za-z0-9+/]{2}Z0eX"
)
_MEDIA_TEXT = lazy_compile(
    rf"data:(?P<mime>[\w.+-]{{1,80}}/[\w.+-]{{1,80}})(?:;[\w.=-]{{1,60}}){{0,4}};base64,{_BASE64}"
    rf"|(?<![A-Za-z0-9+/_=-])(?P<magic>{_MAGIC}){_BASE64}"
)
# One of these is in every match: to look for them first is five times as fast.
_MEDIA_SIGNS = lazy_compile(
    r";base64,|iVBORw0KGgo|/9j|R0lGOD|UklGR|SUkqA|TU0AK|JVBERi0|UEsDB|SUQz|T2dnUw|Z0eX"
)
_WHOLE_BASE64 = lazy_compile(r"[A-Za-z0-9+/_-]{64}[A-Za-z0-9+/_\r\n-]*={0,2}\s*")
_IMAGE_MAGIC = ("iVBOR", "/9j/", "\\/9j", "R0lGO", "SUkqA", "TU0AK")


class MediaRemoval:
    """Replace images and files by placeholders, and count them."""

    def __init__(
        self, factory: MarkerFactory, is_removed: Callable[[dict[str, Any]], bool] | None = None
    ) -> None:
        """With `is_removed`, only blocks for which it holds are replaced."""
        self._factory = factory
        self._is_removed = is_removed
        self._digests: dict[str, set[bytes]] = {}
        self.counts: Counter[str] = Counter()
        """How many were removed, by the type in their marker."""

    @property
    def distinct(self) -> dict[str, int]:
        """How many of them are different, by type."""
        return {name: len(digests) for name, digests in self._digests.items()}

    def clean_event(self, event: Event) -> Event:
        """Return the event without images and files; an event without any is returned as it is."""
        content: Any = event.get("content")
        # The members of a content, not the content: its MIME type says nothing about base64.
        cleaned = self._clean_members(content) if type(content) is dict else self._clean(content)
        return event if cleaned is content else cast(Event, {**event, "content": cleaned})

    def _clean(self, value: Any) -> Any:
        kind = type(value)
        if kind is str:
            return self._clean_text(value)
        if kind is dict:
            return self._clean_object(value)
        if kind is list:
            items = [self._clean(item) for item in value]
            is_same = all(new is old for new, old in zip(items, value, strict=True))
            return value if is_same else items
        return value

    def _clean_object(self, value: dict[str, Any]) -> Any:
        if is_media_block(value) and (self._is_removed is None or self._is_removed(value)):
            marker = self._build_marker(_find_mime(value), value["base64"])
            kept = {key: item for key, item in value.items() if key not in _BYTE_KEYS}
            return {**self._clean_members(kept), "redacted": marker}
        mime = _find_mime(value)
        data = value.get("data") if self._is_removed is None else None
        if mime and type(data) is str and _WHOLE_BASE64.fullmatch(data):
            return self._clean_members({**value, "data": self._build_marker(mime, data)})
        return self._clean_members(value)

    def _clean_members(self, value: dict[str, Any]) -> dict[str, Any]:
        changed = None
        for key, item in value.items():
            new = self._clean(item)
            if new is not item:
                if changed is None:
                    changed = dict(value)
                changed[key] = new
        return value if changed is None else changed

    def _clean_text(self, text: str) -> str:
        if len(text) < _MIN_LENGTH or self._is_removed is not None:
            return text
        if not _MEDIA_SIGNS.search(text):
            return text
        cleaned = _MEDIA_TEXT.sub(self._replace_match, text)
        return text if cleaned == text else cleaned

    def _replace_match(self, match: re.Match[str]) -> str:
        found = match[0]
        mime = match["mime"] or ""
        if not mime:
            # A short run that begins like a file is a word or an id.
            if len(found) < _MIN_LENGTH:
                return found
            if found.startswith(_IMAGE_MAGIC):
                mime = "image/"
        return self._build_marker(mime, found)

    def _build_marker(self, mime: str, data: str) -> str:
        type_name = "image" if mime.startswith("image/") else "file"
        digest = hashlib.sha256(data.encode("utf-8", "surrogatepass")).digest()
        self.counts[type_name] += 1
        self._digests.setdefault(type_name, set()).add(digest)
        # The digest stands for the bytes: a factory remembers the values that it has seen.
        return self._factory.build_marker(type_name, digest.hex())


def is_media_block(value: dict[str, Any]) -> bool:
    """Return whether an object is a block of the format for an image or a file.

    An empty one hides nothing, so that it is neither counted nor dropped.
    """
    data = value.get("base64")
    return (
        type(data) is str
        and data != ""
        and value.get("encoding") == "base64"
        and ("compression" not in value)
    )


def _find_mime(value: dict[str, Any]) -> str:
    for key in _MIME_KEYS:
        mime = value.get(key)
        if type(mime) is str and "/" in mime:
            return mime
    return ""


def create_removal(
    context: Context,
    conversation_id: str,
    is_removed: Callable[[dict[str, Any]], bool] | None = None,
) -> MediaRemoval:
    """Return a removal whose markers are those of the conversation."""
    return MediaRemoval(build_factory(context, conversation_id, MarkerNumbering()), is_removed)


def read_file_text(block: dict[str, Any]) -> str | None:
    """Return the text of a file: plain text, or what zip and PDF hold; None if none can be read.

    Data that is no base64 is text itself.
    """
    data = block["base64"]
    try:
        raw = binascii.a2b_base64(data)
    except (binascii.Error, ValueError):
        return cast(str, data)
    text = decode_file(raw)
    return None if text is None else decode_padded(text)


def drop_media(
    record: Record, removal: MediaRemoval, event_ids: Container[str] | None = None
) -> Record:
    """Return the record without images and files: of all events, or of those with these ids."""
    from open_token.redaction.masker import MaskedEvents
    from open_token.storage.spool import Spool

    changed = MaskedEvents(record.events, array("Q"), Spool(_SPOOL_SIZE))
    for position, event in enumerate(record.events):
        if event_ids is not None and event["id"] not in event_ids:
            continue
        cleaned = removal.clean_event(event)
        if cleaned is not event:
            changed.positions.append(position)
            changed.masked.append(cleaned, estimate_memory(cleaned.get("content")))
    return record.with_events(changed) if changed.positions else record


def count_media(events: Iterable[Event]) -> int:
    """Return how many images and files the events hold in which nothing can be searched."""
    count = 0

    def visit(value: Any) -> None:
        nonlocal count
        if type(value) is dict:
            data = value.get("data")
            if is_media_block(value):
                count += read_file_text(value) is None
            elif type(data) is str:
                count += is_binary_file(value, data)
            _visit_all(value.values(), visit)
        elif type(value) is list:
            _visit_all(value, visit)

    for event in events:
        content: Any = event.get("content")
        if type(content) is dict and "data" in content:
            visit(content["data"])
    return count


def _visit_all(values: Iterable[Any], visit: Callable[[Any], None]) -> None:
    for value in values:
        visit(value)
