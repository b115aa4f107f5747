"""Gzip data as it is read: line by line without end, but never a line or a document that would fill
the memory."""

import gzip
import sys
from importlib import import_module
from typing import Any, BinaryIO

LIMIT = 1 << 28
"""The most that one line or document may be; a file of a few megabytes can unpack to gigabytes."""
_PART = 1 << 20


class TooLarge(Exception):
    """A line or a document is larger than the limit."""


class Unpacked(gzip.GzipFile):
    """Gzip that knows the limit, and that closes the file below it, too."""

    def __init__(self, packed: BinaryIO) -> None:
        self._packed = packed
        super().__init__(fileobj=packed, mode="rb")

    @property
    def place(self) -> int:
        """How much of the file was read."""
        return self._packed.tell()

    def readline(self, size: int | None = -1) -> bytes:
        """The next line."""
        if size is not None and size >= 0:
            return super().readline(size)
        line = super().readline(LIMIT + 1)
        if len(line) > LIMIT:
            raise TooLarge
        return line

    def read(self, size: int | None = -1) -> bytes:
        """So many bytes, or all."""
        if size is not None and size >= 0:
            return super().read(size)
        parts, total = [], 0
        while part := super().read(_PART):
            parts.append(part)
            total += len(part)
            if total > LIMIT:
                raise TooLarge
        return b"".join(parts)

    def close(self) -> None:
        """End here and below."""
        super().close()
        self._packed.close()


def zstd() -> Any:
    """What unpacks Zstandard: Python itself since 3.14, before that a package; None where there is
    neither."""
    try:
        return import_module(
            "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
        )
    except ImportError:
        return None
