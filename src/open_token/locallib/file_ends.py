"""The first and the last records of a file, from a few kilobytes at its ends."""

import codecs
import contextlib
import zlib
from pathlib import Path
from typing import Any

import msgspec

from open_token.locallib.json_prefix import prefix
from open_token.storage.files import ends_of

_GZIP = b"\x1f\x8b"
_decode = msgspec.json.decode


def opening(path: Path, budget: int) -> list[Any]:
    """The records that begin in the first bytes: of lines, or of a list; a document is a record
    itself.

    What is cut off stands there as far as it goes."""
    head, _ = ends_of(path, budget)
    is_whole = len(head) < budget
    if head.startswith(_GZIP):
        head, is_whole = _unpacked(head, budget), False
    start = head.removeprefix(codecs.BOM_UTF8).lstrip()
    if start[:1] == b"{" and (found := _lines(start, is_whole)):
        return found
    return _document(start, is_whole) if start[:1] in (b"{", b"[") else []


def closing(path: Path, budget: int) -> list[Any]:
    """The records of lines that stand whole in the last bytes."""
    _, tail = ends_of(path, 0, budget)
    return _decoded(tail.split(b"\n")[1:])


def _unpacked(head: bytes, budget: int) -> bytes:
    with contextlib.suppress(zlib.error):
        return zlib.decompressobj(31).decompress(head, budget)
    return b""


def _lines(start: bytes, is_whole: bool) -> list[Any]:
    """The records of JSON lines; none when the bytes are no lines, but a document."""
    *lines, last = start.split(b"\n")
    if not (lines and lines[0].rstrip().endswith(b"}")):
        return []
    found = _decoded(lines)
    if is_whole:
        return found + _decoded([last])
    begun = prefix(last.decode("utf-8", "ignore"))
    return [*found, begun] if isinstance(begun, dict) and begun else found


def _decoded(lines: list[bytes]) -> list[Any]:
    found = []
    for line in lines:
        with contextlib.suppress(ValueError, RecursionError):
            found.append(_decode(line))
    return found


def _document(start: bytes, is_whole: bool) -> list[Any]:
    value: Any = None
    if is_whole:
        with contextlib.suppress(ValueError, RecursionError):
            value = _decode(start)
    if value is None:
        value = prefix(start.decode("utf-8", "ignore"))
    return value if isinstance(value, list) else [value] if isinstance(value, dict) else []
