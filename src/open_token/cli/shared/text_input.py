"""Text from pipes and files in chunks, checked to be text."""

import select
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from open_token.errors import InputError

PAUSE = b""
"""No input for a while; the stream goes on. A filter writes out what it has buffered."""
_CHUNK_SIZE = 1 << 16
_PAUSE_SECONDS = 0.2
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")


def read_chunks(stream: BinaryIO) -> Iterator[bytes]:
    """Yield chunks of a fixed size, whatever the pieces in which the bytes arrive.

    When the input pauses, a shorter chunk and a PAUSE are yielded."""
    descriptor = _find_descriptor(stream)
    if descriptor is None:
        yield from iter(lambda: stream.read(_CHUNK_SIZE), b"")
        return
    pending = b""
    while True:
        if pending and not select.select([descriptor], [], [], _PAUSE_SECONDS)[0]:
            yield pending
            yield PAUSE
            pending = b""
        new = stream.read1(_CHUNK_SIZE)  # type: ignore[attr-defined]
        pending += new
        if len(pending) >= _CHUNK_SIZE or not new:
            if pending:
                yield pending[:_CHUNK_SIZE]
            pending = pending[_CHUNK_SIZE:]
        if not new:
            return


def _find_descriptor(stream: BinaryIO) -> int | None:
    """Return the descriptor to wait on; None for a stream in memory, or without select."""
    try:
        descriptor = stream.fileno()
        select.select([descriptor], [], [], 0)
    except (OSError, ValueError):
        return None
    if hasattr(stream, "read1"):
        return descriptor
    return None


def check_text(chunks: Iterable[bytes], name: str) -> Iterator[bytes]:
    """Pass chunks on; refuse encodings in which no redaction rule would match."""
    for number, chunk in enumerate(chunks):
        if number == 0 and chunk.startswith(_UTF16_BOMS):
            raise InputError(
                "the text is encoded as UTF-16",
                where=name,
                help="convert it to UTF-8 first, for example with iconv",
                code="input.utf8",
            )
        if b"\0" in chunk:
            raise InputError(
                "the input is binary data, not text",
                where=name,
                help="binary data cannot be searched; nothing of this part was written",
                code="input.binary",
            )
        yield chunk
