"""Blocks: the texts of consecutive events, compressed together, with the words that find them."""

import contextlib
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Self

import msgspec

from open_token.library.index.text import find_pairs, split_words
from open_token.storage.files import PendingFile, pending_file

SPOOL_PREFIX = ".index-"
_COMPRESSION_LEVEL = 6
_MAX_IN_MEMORY = 1 << 23
_LENGTH_BYTES = 8


class StoredEvent(msgspec.Struct, array_like=True, frozen=True):
    """What the index stores of one event beside its words."""

    seq: int
    id: str | None
    """None for the id that follows from its position, as nearly all have."""
    role: int
    tool: str | None
    path: str | None
    ts: float | None
    start: int
    """Where its text begins in the text of the block."""
    length: int


class Block(msgspec.Struct, array_like=True, frozen=True):
    """Consecutive events of a session."""

    digest: bytes
    text: bytes
    events: list[StoredEvent]
    words: list[str]
    """The distinct words of each event."""


class BlockSpool:
    """Blocks on their way from the process that reads a session to the one that writes the index.

    Few are kept in memory, more in a file below the folder of the index. Use it as a context
    manager: an exception removes the file.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = contextlib.ExitStack()
        self._pieces: list[bytes] = []
        self._size = 0
        self._out: BinaryIO | None = None
        self._file: PendingFile | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self._flush_to_file()
        self._stack.__exit__(*problem)  # type: ignore[arg-type]

    def add(self, block: Block) -> None:
        """Add the next block."""
        piece = msgspec.msgpack.encode(block)
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > _MAX_IN_MEMORY and self._out is None:
            pending = pending_file(self._folder, SPOOL_PREFIX)
            self._file, self._out = self._stack.enter_context(pending)
        self._flush_to_file()

    def _flush_to_file(self) -> None:
        if self._out is None:
            return
        for piece in self._pieces:
            self._out.write(len(piece).to_bytes(_LENGTH_BYTES))
            self._out.write(piece)
        self._pieces.clear()

    def finish(self) -> "SpooledBlocks":
        """Return the blocks; they are complete after the end of the context."""
        return SpooledBlocks(self._pieces, self._file)


class SpooledBlocks(msgspec.Struct, frozen=True):
    """All blocks of a session, to be read once."""

    pieces: list[bytes]
    file: PendingFile | None

    def __iter__(self) -> Iterator[Block]:
        decoder = msgspec.msgpack.Decoder(Block)
        for piece in self.pieces:
            yield decoder.decode(piece)
        if self.file is None:
            return
        with self.file.path.open("rb") as stream:
            while True:
                length = int.from_bytes(stream.read(_LENGTH_BYTES))
                if not length:
                    return
                yield decoder.decode(stream.read(length))

    def remove(self) -> None:
        """Remove the file, if there is one."""
        if self.file is not None:
            self.file.remove()


def pack_text(text: str) -> bytes:
    """Compress the text of a block."""
    return zlib.compress(text.encode("utf-8", "surrogatepass"), _COMPRESSION_LEVEL)


def unpack_text(packed: bytes) -> str:
    """Return the text of a block."""
    return zlib.decompress(packed).decode("utf-8", "surrogatepass")


def build_words(text: str, role: str, tool: str) -> str:
    """Return the distinct words of an event, with a marker for each property that is filtered by.

    Markers let the full-text table do the filtering, which is faster than looking at each event.
    """
    words = dict.fromkeys((*split_words(text), *find_pairs(text)))
    words[mark_role(role)] = None
    if tool:
        words[mark_tool(tool)] = None
    return " ".join(words)


def mark_role(role: str) -> str:
    """Return the word that marks events of a role; no text contains it by accident."""
    return f"opentokenrole{role}"


def mark_tool(tool: str) -> str:
    """Return the word that marks calls and results of a tool."""
    return "opentokentool" + "".join(split_words(tool))


def format_event_id(seq: int) -> str:
    """Return the id that an export gives to an event."""
    return f"evt_{seq:06d}"
