"""Recorded HTTP as a list of exchanges: VCR cassettes in YAML or JSON, and HAR files."""

import base64
import binascii
import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from open_token.formats.shared.fields import JsonObject
from open_token.formats.shared.yaml_values import parse_yaml
from open_token.jsontools.timestamps import format_utc, to_utc
from open_token.sources.decompress import load_zstd
from open_token.sources.source import Source

_MAX_BODY_BYTES = 1 << 27
_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
# Amazon's event stream: length of the frame and of its headers, checksum of the two; a second
# checksum ends the frame.
_PRELUDE = struct.Struct(">III")
_MIN_FRAME_BYTES = 16
# The header that names an event, or an exception: a type byte and two bytes of length follow.
_EVENT_NAME = re.compile(rb":(?:event|exception)-type\x07\x00.([A-Za-z]+)", re.DOTALL)
_UNSUPPORTED_ENCODINGS = ("br", "zstd", "compress")


class UnreadableBodyError(Exception):
    """A body that cannot be read; the message says why."""


@dataclass
class Exchange:
    """A request and its response, decoded."""

    number: int
    """The position in the recording, from 1."""
    method: str
    url: str
    request: Any
    response: Any
    at: str | None
    """When it was recorded."""
    problems: list[str] = field(default_factory=list)


def read_exchanges(source: Source) -> list[Exchange]:
    """Return everything that was recorded, in order."""
    if source.shape == "text":
        documents = parse_yaml(source.text, source.name)
    else:
        documents = [record for _, record in source.records()]
    items = [item for document in documents for item in _list_items(document)]
    return [_parse_exchange(number, item) for number, item in enumerate(items, 1)]


def _list_items(document: Any) -> list[Any]:
    if not isinstance(document, dict):
        return []
    log = document.get("log")
    if isinstance(log, dict):
        items = log.get("entries")
    else:
        items = document.get("interactions", document.get("http_interactions"))
    return items if isinstance(items, list) else []


def _parse_exchange(number: int, item: Any) -> Exchange:
    item = _as_dict(item)
    request = _as_dict(item.get("request"))
    response = _as_dict(item.get("response"))
    problems: list[str] = []
    request_body = _read_body(request, problems)
    response_body = _read_body(response, problems)
    url = request.get("uri") or request.get("url")
    return Exchange(
        number,
        str(request.get("method") or "").upper(),
        url if isinstance(url, str) else "",
        request_body,
        response_body,
        _find_time(item, response),
        problems,
    )


def _read_body(side: JsonObject, problems: list[str]) -> Any:
    """Return the body of a request or a response."""
    encoding = _get_header(side, "content-encoding")
    try:
        if side.get("parsed_body") is not None:
            return encode_bytes(side["parsed_body"])
        if isinstance(side.get("postData"), dict):
            return decode_har_content(side["postData"], encoding)
        if isinstance(side.get("content"), dict):
            return decode_har_content(side["content"], encoding)
        return decode_body(side.get("body"), encoding)
    except UnreadableBodyError as problem:
        problems.append(str(problem))
        return None


def _get_header(side: JsonObject, name: str) -> str:
    for key, value in _list_headers(side.get("headers")):
        if key.lower() == name:
            return str(value[0] if isinstance(value, list) and value else value)
    return ""


def _list_headers(headers: Any) -> Iterator[tuple[str, Any]]:
    """Yield headers from an object or a list of pairs; values are strings or lists of them."""
    if isinstance(headers, dict):
        for key, value in headers.items():
            yield str(key), value
    elif isinstance(headers, list):
        for item in headers:
            if isinstance(item, dict):
                yield str(item.get("name")), item.get("value")


def _find_time(item: JsonObject, response: JsonObject) -> str | None:
    """Return when an exchange was recorded, according to the recording or to the server."""
    date = _get_header(response, "date")
    for value in (item.get("startedDateTime"), item.get("recorded_at"), date):
        if not isinstance(value, str) or not value:
            continue
        ts = to_utc(value)
        if ts:
            return ts
        try:
            moment = parsedate_to_datetime(value)
        except (TypeError, ValueError, OverflowError):
            continue
        if moment.tzinfo is not None:
            return format_utc(moment)
    return None


def _as_dict(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}


def decode_body(body: Any, encoding: str) -> Any:
    """Return a body as text, or as the value that the recorder has parsed.

    `encoding` is the content encoding according to the headers.
    """
    if isinstance(body, dict):
        if "string" not in body and "base64_string" not in body:
            return encode_bytes(body)
        if body.get("base64_string"):
            body = _decode_base64(body["base64_string"])
        else:
            body = body.get("string")
    if isinstance(body, bytes):
        return _parse_bytes(_decompress(body, encoding))
    return body if isinstance(body, str | list) else None


def decode_har_content(content: JsonObject, encoding: str) -> Any:
    """Return the text of a HAR content."""
    text = content.get("text")
    if not isinstance(text, str):
        return None
    if content.get("encoding") != "base64":
        return text
    raw = b"".join(map(_decode_base64, _split_pieces(text)))
    is_gzip = raw[:2] == _GZIP_MAGIC
    return _parse_bytes(_decompress(raw, encoding if is_gzip else ""))


def _parse_bytes(raw: bytes) -> Any:
    """Return the events of Amazon's binary event stream, and any other body as text."""
    if _read_prelude(raw, 0) is None:
        return raw.decode("utf-8", "replace")
    return list(_iter_frames(raw))


def _read_prelude(raw: bytes, start: int) -> tuple[int, int] | None:
    """Return the lengths of a frame and of its headers; None if no whole frame starts there."""
    if len(raw) - start < _MIN_FRAME_BYTES:
        return None
    length, headers, checksum = _PRELUDE.unpack_from(raw, start)
    if zlib.crc32(raw[start : start + 8]) != checksum:
        return None
    if headers + _MIN_FRAME_BYTES > length or start + length > len(raw):
        return None
    return length, headers


def _iter_frames(raw: bytes) -> Iterator[Any]:
    """Yield each event as an object under its name; a frame that was cut off ends the stream."""
    start = 0
    while (lengths := _read_prelude(raw, start)) is not None:
        length, header_length = lengths
        headers = raw[start + _PRELUDE.size : start + _PRELUDE.size + header_length]
        payload = raw[start + _PRELUDE.size + header_length : start + length - 4]
        start += length
        name = _EVENT_NAME.search(headers)
        try:
            value = msgspec.json.decode(payload)
        except (ValueError, RecursionError):
            value = payload.decode("utf-8", "replace")
        if isinstance(value, dict):
            # Padding, which hides the length of the words from who watches the line.
            value.pop("p", None)
        yield {name[1].decode() if name else "event": value}


def _split_pieces(text: str) -> list[Any]:
    """Return the pieces of a base64 text: Polly stores a compressed body as a JSON list."""
    if not text.startswith("["):
        return [text]
    try:
        pieces = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return [text]
    return pieces if isinstance(pieces, list) else [text]


def _decode_base64(text: Any) -> bytes:
    if isinstance(text, bytes):
        return text
    if not isinstance(text, str):
        return b""
    try:
        return base64.b64decode(text)
    except (binascii.Error, ValueError):
        raise UnreadableBodyError("a body that is not base64") from None


def _decompress(raw: bytes, encoding: str) -> bytes:
    if raw[:2] == _GZIP_MAGIC:
        return _decompress_all(zlib.decompressobj(31), raw, zlib.error)
    if "deflate" in encoding and raw[:1] not in (b"{", b"["):
        # Some servers send raw deflate data, without the zlib header.
        window = 15 if raw[:1] == b"\x78" else -15
        return _decompress_all(zlib.decompressobj(window), raw, zlib.error)
    zstd = load_zstd() if raw[:4] == _ZSTD_MAGIC else None
    if zstd is not None:
        return _decompress_all(zstd.ZstdDecompressor(), raw, zstd.ZstdError)
    if any(name in encoding for name in _UNSUPPORTED_ENCODINGS) and not _is_text(raw):
        raise UnreadableBodyError("a body in a compression that this program does not read")
    return raw


def _decompress_all(decompressor: Any, raw: bytes, error: type[Exception]) -> bytes:
    try:
        data: bytes = decompressor.decompress(raw, _MAX_BODY_BYTES)
    except error:
        raise UnreadableBodyError("a compressed body that is damaged") from None
    if not decompressor.eof:
        fault = "far too large" if len(data) >= _MAX_BODY_BYTES else "damaged"
        raise UnreadableBodyError(f"a compressed body that is {fault}")
    return data


def _is_text(raw: bytes) -> bool:
    """Return whether bytes are text despite a header that says they are compressed.

    Recorders that decompress bodies often keep that header.
    """
    try:
        raw[:64].decode("utf-8", "strict")
    except UnicodeDecodeError as error:
        return error.start > 60  # a character that the slice cut
    return b"\0" not in raw[:64]


def encode_bytes(value: Any) -> Any:
    """Return a parsed body as JSON has it: bytes, which YAML may hold, become base64."""
    try:
        return _encode_nested_bytes(value)
    except RecursionError:
        # YAML is never this deep, and JSON has no bytes.
        return value


def _encode_nested_bytes(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"encoding": "base64", "base64": base64.b64encode(value).decode()}
    if isinstance(value, list):
        return [_encode_nested_bytes(item) for item in value]
    if isinstance(value, dict):
        return {name: _encode_nested_bytes(item) for name, item in value.items()}
    return value
