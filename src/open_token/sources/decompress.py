"""Decompression with limits: no line or document of a compressed file may fill the memory."""

import contextlib
import gzip
import io
import sys
import zlib
from importlib import import_module
from typing import Any, BinaryIO

MAX_UNPACKED_BYTES = 1 << 28
"""The largest line or document: a file of a few megabytes can unpack to gigabytes."""
_CHUNK_BYTES = 1 << 20
_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_MAGIC_BYTES = 4
_ZSTD_MODULE = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"


class TooLargeError(Exception):
    """A line or a document is larger than the limit."""


class MissingZstdError(Exception):
    """The data is compressed with zstd, and the package that reads it is not installed."""


class DecompressingReader(io.BufferedIOBase):
    """The content of a compressed file, with the limit; closing it closes the compressed file."""

    def __init__(self, unpacked: BinaryIO, compressed: BinaryIO) -> None:
        self._unpacked = unpacked
        self._compressed = compressed

    @property
    def place(self) -> int:
        """How many compressed bytes were read."""
        return self._compressed.tell()

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def seekable(self) -> bool:
        """Return that it can be read again from an earlier position."""
        return True

    def fileno(self) -> int:
        """Return the descriptor of the compressed file."""
        return self._compressed.fileno()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position in the content."""
        return self._unpacked.seek(offset, whence)

    def tell(self) -> int:
        """Return the position in the content."""
        return self._unpacked.tell()

    def readline(self, size: int | None = -1) -> bytes:
        """Return the next line."""
        if size is not None and size >= 0:
            return self._unpacked.readline(size)
        line = self._unpacked.readline(MAX_UNPACKED_BYTES + 1)
        if len(line) > MAX_UNPACKED_BYTES:
            raise TooLargeError
        return line

    def read(self, size: int | None = -1) -> bytes:
        """Return up to `size` bytes, or all."""
        if size is not None and size >= 0:
            return self._unpacked.read(size)
        chunks = []
        total = 0
        while chunk := self._unpacked.read(_CHUNK_BYTES):
            chunks.append(chunk)
            total += len(chunk)
            if total > MAX_UNPACKED_BYTES:
                raise TooLargeError
        return b"".join(chunks)

    def close(self) -> None:
        """Close this and the compressed file."""
        super().close()
        self._unpacked.close()
        self._compressed.close()


def find_compression(head: bytes) -> str | None:
    """Return the name of the compression of data that begins with these bytes."""
    if head.startswith(_GZIP_MAGIC):
        return "gzip"
    if head.startswith(_ZSTD_MAGIC):
        return "zstd"
    return None


def open_compressed(compressed: BinaryIO) -> DecompressingReader | None:
    """Return the content of a compressed file; None if it is not compressed.

    Raise `MissingZstdError` if it needs a package that is not installed.
    """
    compression = find_compression(compressed.read(_MAGIC_BYTES))
    compressed.seek(0)
    if compression is None:
        return None
    if compression == "gzip":
        unpacked: Any = gzip.GzipFile(fileobj=compressed, mode="rb")
    else:
        zstd = load_zstd()
        if zstd is None:
            compressed.close()
            raise MissingZstdError
        unpacked = zstd.ZstdFile(compressed)
    return DecompressingReader(unpacked, compressed)


def decompress_start(head: bytes, budget: int) -> bytes:
    """Return the first bytes of the content of compressed data, or nothing if it is damaged."""
    if find_compression(head) == "gzip":
        with contextlib.suppress(zlib.error):
            return zlib.decompressobj(31).decompress(head, budget)
        return b""
    zstd = load_zstd()
    if zstd is None:
        return b""
    try:
        content: bytes = zstd.ZstdDecompressor().decompress(head, budget)
    except zstd.ZstdError:
        return b""
    return content


def get_damage_errors() -> tuple[type[Exception], ...]:
    """Return what reading damaged compressed data may raise."""
    known = (EOFError, gzip.BadGzipFile, zlib.error)
    # Only a module that is loaded can have raised its error.
    zstd: Any = sys.modules.get(_ZSTD_MODULE)
    return known if zstd is None else (*known, zstd.ZstdError)


def load_zstd() -> Any:
    """Return the module for Zstandard: in Python since 3.14, before that a package; else None."""
    try:
        return import_module(_ZSTD_MODULE)
    except ImportError:
        return None
