"""Decompression with limits: no line or document of a gzip file may fill the memory."""

import gzip
import sys
from importlib import import_module
from typing import Any, BinaryIO

MAX_UNPACKED_BYTES = 1 << 28
"""The largest line or document: a file of a few megabytes can unpack to gigabytes."""
_CHUNK_BYTES = 1 << 20


class TooLargeError(Exception):
    """A line or a document is larger than the limit."""


class GzipReader(gzip.GzipFile):
    """A gzip file with the limit, which also closes the compressed file."""

    def __init__(self, compressed: BinaryIO) -> None:
        self._compressed = compressed
        super().__init__(fileobj=compressed, mode="rb")

    @property
    def place(self) -> int:
        """How many compressed bytes were read."""
        return self._compressed.tell()

    def readline(self, size: int | None = -1) -> bytes:
        """Return the next line."""
        if size is not None and size >= 0:
            return super().readline(size)
        line = super().readline(MAX_UNPACKED_BYTES + 1)
        if len(line) > MAX_UNPACKED_BYTES:
            raise TooLargeError
        return line

    def read(self, size: int | None = -1) -> bytes:
        """Return up to `size` bytes, or all."""
        if size is not None and size >= 0:
            return super().read(size)
        chunks = []
        total = 0
        while chunk := super().read(_CHUNK_BYTES):
            chunks.append(chunk)
            total += len(chunk)
            if total > MAX_UNPACKED_BYTES:
                raise TooLargeError
        return b"".join(chunks)

    def close(self) -> None:
        """Close this and the compressed file."""
        super().close()
        self._compressed.close()


def load_zstd() -> Any:
    """Return the module for Zstandard: in Python since 3.14, before that a package; else None."""
    try:
        return import_module(
            "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
        )
    except ImportError:
        return None
