"""The bodies of recorded requests and responses as text: out of base64, gzip and deflate, never
beyond a limit."""

import base64
import binascii
import zlib
from typing import Any

import msgspec

from open_token.unpacked import zstd

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
