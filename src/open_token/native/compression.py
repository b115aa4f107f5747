"""Compressed native annotations.

Passes see the embedded source as plain values, so that selection and redaction apply to it like to
any other content. It is compressed after them, just before it is measured and hashed, and expanded
again whenever an export is read.
"""

import struct
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from open_token.errors import InputError
from open_token.model.document import Event, Record

EXPANSION_MIN_LIMIT = 256 << 20
EXPANSION_MAX_RATIO = 100

# Written by hand: time and operating system must not depend on the machine.
_GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
# Level 9 takes three times as long and saves one percent.
_LEVEL = 6
_VISIBLE_KEYS = ("kind", "reader")

PostCheck = Callable[[list[Event], bytes], None]
"""Raises if events, or the bytes to be written for them, hold what should have been redacted."""


class ExpansionError(InputError):
    """Native data expands to more than the reader allows."""

    def __init__(self) -> None:
        super().__init__(
            "the native data in this export expands to far more than the export itself",
            help="it may be damaged or hostile; get the export again from where it comes from",
            code="restore.large",
        )


class ExpansionLimit:
    """How many bytes native data may still expand to: a short gzip stream can hold a huge value."""

    def __init__(self, most: int) -> None:
        self.left = most

    @classmethod
    def for_size(cls, size: int) -> "ExpansionLimit":
        """Return the default limit for an export of that many bytes."""
        return cls(max(EXPANSION_MIN_LIMIT, EXPANSION_MAX_RATIO * size))

    def take(self, count: int) -> None:
        """Use up some bytes; raise ExpansionError if there are not that many."""
        self.left -= count
        if self.left < 0:
            raise ExpansionError


def compress_native(record: Record, post_check: PostCheck | None = None) -> Record:
    """Return the record with its native annotations compressed, checked before if asked."""
    return record.with_events(_CompressedEvents(record.events, post_check))


def expand_native(record: Record, limit: ExpansionLimit) -> Record:
    """Return the record with its native annotations as plain values."""
    return record.with_events(_ExpandedEvents(record.events, limit.left))


@dataclass(frozen=True)
class _CompressedEvents:
    events: Iterable[Event]
    post_check: PostCheck | None

    def __iter__(self) -> Iterator[Event]:
        for event in self.events:
            data = _get_data(event)
            if not _is_plain(data):
                yield event
                continue
            # Once it is compressed, the check of the written bytes cannot see it any more.
            if self.post_check is not None:
                self.post_check([event], msgspec.json.encode(event))
            yield _with_data(event, compress_data(data))


@dataclass(frozen=True)
class _ExpandedEvents:
    events: Iterable[Event]
    most: int

    def __iter__(self) -> Iterator[Event]:
        limit = ExpansionLimit(self.most)
        for event in self.events:
            yield expand_event(event, limit)


def expand_event(event: Event, limit: ExpansionLimit | None = None) -> Event:
    """Return an event with its native data as plain values; other events are returned as they are.

    Damaged data is dropped: no pass could see what it holds.
    """
    data = _get_data(event)
    if not is_compressed(data):
        return event
    plain = expand_data(data, limit)
    if plain is None:
        plain = _select_visible(data)
        plain["damaged"] = True
    return _with_data(event, plain)


def _get_data(event: Event) -> Any:
    if event.get("type") != "annotation":
        return None
    content = event.get("content")
    return content.get("data") if isinstance(content, dict) else None


def _with_data(event: Event, data: dict[str, Any]) -> Event:
    return cast(Event, {**event, "content": {**event["content"], "data": data}})


def _is_plain(data: Any) -> bool:
    return isinstance(data, dict) and data.get("kind") == "native" and "record" in data


def is_compressed(data: Any) -> bool:
    """Return whether the data of an annotation is a compressed part of a source."""
    return isinstance(data, dict) and data.get("kind") == "native" and "base64" in data


def compress_data(data: dict[str, Any]) -> dict[str, Any]:
    """Return the plain data of a native annotation in compressed form."""
    hidden = {key: value for key, value in data.items() if key not in _VISIBLE_KEYS}
    packed = _compress(msgspec.json.encode(hidden))
    compressed = _select_visible(data)
    compressed["compression"] = "gzip"
    compressed["encoding"] = "base64"
    compressed["base64"] = b64encode(packed).decode()
    return compressed


def expand_data(data: dict[str, Any], limit: ExpansionLimit | None = None) -> dict[str, Any] | None:
    """Return the plain data of a compressed native annotation; None if it is damaged."""
    if data.get("compression") != "gzip" or not isinstance(data["base64"], str):
        return None
    try:
        packed = b64decode(data["base64"], validate=True)
        hidden = msgspec.json.decode(_decompress(packed, limit))
    except (ValueError, zlib.error, RecursionError):
        return None
    if not isinstance(hidden, dict) or "record" not in hidden:
        return None
    return {**_select_visible(data), **hidden}


def _select_visible(data: dict[str, Any]) -> dict[str, Any]:
    """Return what of an annotation is never compressed: it says what the rest is."""
    return {key: data[key] for key in _VISIBLE_KEYS if key in data}


def _compress(plain: bytes) -> bytes:
    """Return a gzip stream: the header, raw deflate data, checksum and size modulo 2**32."""
    # Negative window bits: raw deflate data, since the header is ours.
    deflater = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = deflater.compress(plain)
    body += deflater.flush()
    trailer = struct.pack("<II", zlib.crc32(plain), len(plain) & 0xFFFFFFFF)
    return _GZIP_HEADER + body + trailer


def _decompress(packed: bytes, limit: ExpansionLimit | None) -> bytes:
    if limit is None:
        limit = ExpansionLimit.for_size(len(packed))
    inflater = zlib.decompressobj(zlib.MAX_WBITS | 16)
    # One byte more than allowed shows that a stream is too large without expanding all of it.
    plain = inflater.decompress(packed, limit.left + 1)
    limit.take(len(plain))
    # A second stream or bytes after the first would be content that no pass sees.
    if not inflater.eof or inflater.unused_data:
        raise ValueError("not one whole gzip stream")
    return plain
