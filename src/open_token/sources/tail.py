"""Tail: the lines of a file that is still being written.

It handles lines that are written in parts, files that are rewritten, and log rotation.
"""

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from open_token.errors import InputError
from open_token.sources.source import Decode, Source

_ANCHOR_BYTES = 4096
"""How many of the bytes read last are compared to find out whether a file was rewritten."""


class Tail(Source):
    """A source of JSON lines whose records end only when it is stopped."""

    grows = True

    def __init__(
        self, path: Path, name: str, idle: Callable[[], bool], on_record_done: Callable[[], None]
    ) -> None:
        super().__init__(name, path=path)
        self._wait = idle
        """Called when there is nothing new; False ends the records."""
        self._on_record_done = on_record_done
        """Called when a record was processed."""
        self._seen: Counter[bytes] = Counter()
        self._is_running = True
        self._anchor = b""
        self._stamp: tuple[int, int] | None = None

    def _open_related(
        self, name: str, *, path: Path | None = None, data: bytes | None = None
    ) -> Any:
        """Return a file next to this one, which is read as it is now."""
        return Source(name, path=path, data=data, parent=self)

    def _read_line_records(
        self, decode: Decode, is_preview: bool, joins_lines: bool = False
    ) -> Iterator[tuple[int, Any]]:
        if is_preview:
            yield from super()._read_line_records(decode, is_preview, joins_lines)
            return
        number = 0
        for line in self._follow_lines():
            if not line:
                # Not while the file is open: an error in there is no fault of the file.
                self._is_running = self._wait()
                continue
            number += 1
            if line.strip():
                try:
                    records = [decode(line)]
                except (ValueError, RecursionError) as problem:
                    records = self._recover_records(number, line, problem, decode)
                for record in records:
                    yield number, record
                self._on_record_done()

    def _follow_lines(self) -> Iterator[bytes]:
        """Yield every line once, and an empty one when there is nothing new.

        The file may be replaced by one that begins with the same lines.
        """
        while self._is_running:
            try:
                with self.opened() as stream:
                    yield from self._follow_stream(stream)
            except InputError as problem:
                if problem.code != "input.missing":
                    raise
                yield b""  # it may come back

    def _follow_stream(self, stream: BinaryIO) -> Iterator[bytes]:
        """Yield the new lines of one file, until another one takes its place."""
        counts: Counter[bytes] = Counter()
        self._anchor = b""
        self._stamp = None
        while not self._is_rewritten(stream):
            # Checked first: the last lines of a file that was moved away count.
            is_replaced = self._is_replaced(stream)
            for line in self._read_complete_lines(stream):
                digest = hashlib.blake2b(line, digest_size=12).digest()
                counts[digest] += 1
                if counts[digest] > self._seen[digest]:
                    self._seen[digest] = counts[digest]
                    yield line
            if is_replaced:
                return
            yield b""
            if not self._is_running:
                self._note_half_line(stream)
                return

    def _read_complete_lines(self, stream: BinaryIO) -> Iterator[bytes]:
        """Yield the lines that are complete; the stream stays before one that is not."""
        while True:
            position = stream.tell()
            line = stream.readline()
            if not line.endswith(b"\n"):
                if line and not hasattr(stream, "place"):
                    # Drop the buffer: it holds half a line, which may yet be changed.
                    stream.seek(0, os.SEEK_END)
                stream.seek(position)
                return
            self._anchor = line[-_ANCHOR_BYTES:]
            yield line

    def _is_replaced(self, stream: BinaryIO) -> bool:
        """Return whether another file has the name now."""
        assert self.path is not None
        try:
            current = os.stat(self.path)
            opened = os.fstat(stream.fileno())
        except OSError:
            return False
        return (current.st_ino, current.st_dev) != (opened.st_ino, opened.st_dev)

    def _is_rewritten(self, stream: BinaryIO) -> bool:
        """Return whether the file was truncated, or rewritten from its beginning."""
        stat = os.fstat(stream.fileno())
        if hasattr(stream, "place"):  # a gzip file: how many compressed bytes were read
            return stat.st_size < int(stream.place)
        stamp = (stat.st_size, stat.st_mtime_ns)
        is_unchanged = stamp == self._stamp
        self._stamp = stamp
        if stat.st_size < stream.tell():
            return True
        return not is_unchanged and not self._has_anchor(stream)

    def _has_anchor(self, stream: BinaryIO) -> bool:
        """Return whether the bytes that were read last are still in place."""
        position = stream.tell()
        stream.seek(0, os.SEEK_END)  # drops the buffer
        stream.seek(position - len(self._anchor))
        return stream.read(len(self._anchor)) == self._anchor

    def _note_half_line(self, stream: BinaryIO) -> None:
        if stream.read(1):
            self.half_line = sum(self._seen.values()) + 1
