"""Recorded HTTP as a list of exchanges: VCR cassettes of several libraries, in YAML or JSON, and
HAR files."""

import base64
import binascii
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from open_token.formats.shared.yaml_values import documents
from open_token.jsontools.timestamps import format_utc, to_utc
from open_token.sources.decompress import zstd
from open_token.sources.source import Source

Body = dict[str, Any]


@dataclass
class Exchange:
    """A request and its response, unpacked."""

    number: int
    """Its place among the recorded ones, from 1."""
    method: str
    url: str
    request: Any
    response: Any
    at: str | None
    """When it was recorded."""
    problems: list[str] = field(default_factory=list)


def exchanges(source: Source) -> list[Exchange]:
    """Everything that was recorded, in order."""
    values = (
        documents(source.text, source.name)
        if source.shape == "text"
        else [value for _, value in source.records()]
    )
    items = [item for value in values for item in listed(value)]
    return [_exchange(number, item) for number, item in enumerate(items, 1)]


def listed(value: Any) -> list[Any]:
    """The recorded items of a document."""
    if not isinstance(value, dict):
        return []
    log = value.get("log")
    held = (
        log.get("entries")
        if isinstance(log, dict)
        else value.get("interactions", value.get("http_interactions"))
    )
    return held if isinstance(held, list) else []


def _exchange(number: int, item: Any) -> Exchange:
    item = item if isinstance(item, dict) else {}
    request, response = _body(item.get("request")), _body(item.get("response"))
    problems: list[str] = []
    asked = _read(request, problems)
    told = _read(response, problems)
    url = request.get("uri") or request.get("url")
    return Exchange(
        number,
        str(request.get("method") or "").upper(),
        url if isinstance(url, str) else "",
        asked,
        told,
        _time(item, response),
        problems,
    )


def _read(side: Body, problems: list[str]) -> Any:
    """The body of a request or a response."""
    encoding = _header(side, "content-encoding")
    try:
        if side.get("parsed_body") is not None:
            return plain(side["parsed_body"])
        if isinstance(side.get("postData"), dict):
            return har_text(side["postData"], encoding)
        if isinstance(side.get("content"), dict):
            return har_text(side["content"], encoding)
        return text_of(side.get("body"), encoding)
    except Unreadable as problem:
        problems.append(str(problem))
        return None


def _header(side: Body, name: str) -> str:
    """A header, out of an object or a list of pairs; recorders keep the values as texts or
    lists."""
    for key, value in _headers(side.get("headers")):
        if key.lower() == name:
            return str(value[0] if isinstance(value, list) and value else value)
    return ""


def _headers(headers: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(headers, dict):
        yield from ((str(key), value) for key, value in headers.items())
    elif isinstance(headers, list):
        for item in headers:
            if isinstance(item, dict):
                yield str(item.get("name")), item.get("value")


def _time(item: Body, response: Body) -> str | None:
    """When an exchange was recorded, as far as the recording or the server says so."""
    for value in (item.get("startedDateTime"), item.get("recorded_at"), _header(response, "date")):
        if isinstance(value, str) and value:
            if made := to_utc(value):
                return made
            try:
                moment = parsedate_to_datetime(value)
            except (TypeError, ValueError, OverflowError):
                continue
            if moment.tzinfo is not None:
                return format_utc(moment)
    return None


def _body(value: Any) -> Body:
    return value if isinstance(value, dict) else {}


_LARGEST = 1 << 27
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_UNREADABLE = ("br", "zstd", "compress")


class Unreadable(Exception):
    """A body that cannot be read; the words say why."""


def text_of(body: Any, encoding: str) -> Any:
    """A body as text, or as the value that a recorder has parsed; `encoding` is what the header
    says of its bytes."""
    if isinstance(body, dict) and not ("string" in body or "base64_string" in body):
        return plain(body)
    if isinstance(body, dict):
        body = _bytes(body["base64_string"]) if body.get("base64_string") else body.get("string")
    if isinstance(body, bytes):
        return _unpacked(body, encoding).decode("utf-8", "replace")
    return body if isinstance(body, str | list) else None


def har_text(content: dict[str, Any], encoding: str) -> Any:
    """The text of a HAR content."""
    text = content.get("text")
    if not isinstance(text, str) or content.get("encoding") != "base64":
        return text if isinstance(text, str) else None
    raw = b"".join(map(_bytes, _pieces(text)))
    return _unpacked(raw, encoding if raw[:2] == _GZIP else "").decode("utf-8", "replace")


def _pieces(text: str) -> list[Any]:
    """Polly keeps a compressed body as a list of base64 texts."""
    if text.startswith("["):
        try:
            value = msgspec.json.decode(text)
        except (ValueError, RecursionError):
            return [text]
        return value if isinstance(value, list) else [text]
    return [text]


def _bytes(text: Any) -> bytes:
    if isinstance(text, bytes):
        return text
    try:
        return base64.b64decode(text) if isinstance(text, str) else b""
    except (binascii.Error, ValueError):
        raise Unreadable("a body that is not base64") from None


def _unpacked(raw: bytes, encoding: str) -> bytes:
    if raw[:2] == _GZIP:
        return _inflated(raw, 31)
    if "deflate" in encoding and raw[:1] not in (b"{", b"["):
        return _inflated(raw, 15 if raw[:1] == b"\x78" else -15)
    if raw[:4] == _ZSTD and (known := zstd()) is not None:
        return _filled(known.ZstdDecompressor(), raw, known.ZstdError)
    if any(name in encoding for name in _UNREADABLE) and not _is_text(raw):
        raise Unreadable("a body in a compression that this program does not read")
    return raw


def _inflated(raw: bytes, window: int) -> bytes:
    return _filled(zlib.decompressobj(window), raw, zlib.error)


def _filled(unpacker: Any, raw: bytes, fault: type[Exception]) -> bytes:
    """All that a packed body holds, if that is not too much."""
    try:
        data: bytes = unpacker.decompress(raw, _LARGEST)
    except fault:
        raise Unreadable("a compressed body that is damaged") from None
    if not unpacker.eof:
        is_long = len(data) >= _LARGEST
        raise Unreadable(f"a compressed body that is {'far too large' if is_long else 'damaged'}")
    return data


def _is_text(raw: bytes) -> bool:
    """Recorders that unpack bodies often keep the header that says they are packed."""
    try:
        raw[:64].decode("utf-8", "strict")
    except UnicodeDecodeError as bad:
        return bad.start > 60
    return b"\0" not in raw[:64]


def plain(value: Any) -> Any:
    """A parsed body as JSON has it: bytes, which YAML may hold, become base64."""
    try:
        return _without_bytes(value)
    except RecursionError:
        # YAML is never this deep, and JSON has no bytes.
        return value


def _without_bytes(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"encoding": "base64", "base64": base64.b64encode(value).decode()}
    if isinstance(value, list):
        return [_without_bytes(item) for item in value]
    return (
        {name: _without_bytes(item) for name, item in value.items()}
        if isinstance(value, dict)
        else value
    )
