"""Bytes of a pipe in pieces of one size, with a word when it pauses, so that a filter can put out
what it holds."""

import select
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from open_token.errors import InputError

PAUSE = b""
"""Nothing came for a while; the stream goes on."""
_PIECE = 1 << 16
_PATIENCE = 0.2
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def arriving(stream: BinaryIO) -> Iterator[bytes]:
    """Pieces that do not depend on how the bytes arrive, but for those before a PAUSE."""
    descriptor = _descriptor(stream)
    if descriptor is None:
        yield from iter(lambda: stream.read(_PIECE), b"")
        return
    held = b""
    while True:
        if held and not select.select([descriptor], [], [], _PATIENCE)[0]:
            yield held
            yield PAUSE
            held = b""
        new = stream.read1(_PIECE)  # type: ignore[attr-defined]
        held += new
        if len(held) >= _PIECE or not new:
            if held[:_PIECE]:
                yield held[:_PIECE]
            held = held[_PIECE:]
        if not new:
            return


def _descriptor(stream: BinaryIO) -> int | None:
    """What can be waited for; None for a stream in memory, and where pipes cannot be waited for."""
    try:
        descriptor = stream.fileno()
        select.select([descriptor], [], [], 0)
    except (OSError, ValueError):
        return None
    return descriptor if hasattr(stream, "read1") else None


def as_text(chunks: Iterable[bytes], name: str) -> Iterator[bytes]:
    """Bytes that are a text: in another encoding no rule would find anything."""
    for number, chunk in enumerate(chunks):
        if number == 0 and chunk.startswith(_UTF16):
            raise InputError(
                "this text is UTF-16",
                where=name,
                help="turn it into UTF-8 with iconv first",
                code="input.utf8",
            )
        if b"\0" in chunk:
            raise InputError(
                "the input is binary data, not a text",
                where=name,
                help="what it holds cannot be searched; nothing of this part was written",
                code="input.binary",
            )
        yield chunk
