"""A file that is still being written: its lines as they come, through half lines, rewriting and
rotation."""

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from open_token.errors import InputError
from open_token.sources.source import Decode, Source

_ANCHOR = 4096
"""So many of the bytes that were read last must still be there, or the file was rewritten."""


class Tail(Source):
    """A source of JSON lines whose records end only when it is told to stop."""

    grows = True

    def __init__(
        self, path: Path, name: str, idle: Callable[[], bool], told: Callable[[], None]
    ) -> None:
        super().__init__(name, path=path)
        self._idle = idle
        """Called when there is nothing new; False ends the records."""
        self._told = told
        """Called when a record was dealt with."""
        self._seen: Counter[bytes] = Counter()
        self._is_going = True
        self._anchor = b""
        self._stamp: tuple[int, int] | None = None

    def _other(self, name: str, *, path: Path | None = None, data: bytes | None = None) -> Any:
        """What lies beside the file is read as it is now."""
        return Source(name, path=path, data=data, parent=self)

    def _line_records(self, decode: Decode, tell: bool) -> Iterator[tuple[int, Any]]:
        if not tell:
            yield from super()._line_records(decode, tell)
            return
        number = 0
        for line in self._all_lines():
            if not line:
                # Not while the file is held open: what goes wrong in here is no fault of it.
                self._is_going = self._idle()
                continue
            number += 1
            if line.strip():
                try:
                    record = decode(line)
                except (ValueError, RecursionError) as problem:
                    record = self._second_try(number, line, problem, decode)
                yield number, record
                self._told()

    def _all_lines(self) -> Iterator[bytes]:
        """Every line once, also when the file was replaced by one that begins with the same lines;
        empty: none now."""
        while self._is_going:
            try:
                with self.opened() as stream:
                    yield from self._lines_of(stream)
            except InputError as problem:
                if problem.code != "input.missing":
                    raise
                yield b""  # it may come back

    def _lines_of(self, stream: BinaryIO) -> Iterator[bytes]:
        """The lines of a file that were not told yet, until it is another one."""
        again: Counter[bytes] = Counter()
        self._anchor, self._stamp = b"", None
        while not self._is_rewritten(stream):
            is_replaced = self._is_replaced(
                stream
            )  # asked first: the last lines of a file that was moved away count
            for line in self._new_lines(stream):
                digest = hashlib.blake2b(line, digest_size=12).digest()
                again[digest] += 1
                if again[digest] > self._seen[digest]:
                    self._seen[digest] = again[digest]
                    yield line
            if is_replaced:
                return
            yield b""
            if not self._is_going:
                self._note_half(stream)
                return

    def _new_lines(self, stream: BinaryIO) -> Iterator[bytes]:
        """The lines that are whole by now; the stream stays before one that is not."""
        while True:
            place = stream.tell()
            line = stream.readline()
            if not line.endswith(b"\n"):
                if line and not hasattr(stream, "place"):
                    stream.seek(0, os.SEEK_END)  # forgets half a line that may never become whole
                stream.seek(place)
                return
            self._anchor = line[-_ANCHOR:]
            yield line

    def _is_replaced(self, stream: BinaryIO) -> bool:
        """Whether another file has its name now."""
        assert self.path is not None
        try:
            now, ours = os.stat(self.path), os.fstat(stream.fileno())
        except OSError:
            return False
        return (now.st_ino, now.st_dev) != (ours.st_ino, ours.st_dev)

    def _is_rewritten(self, stream: BinaryIO) -> bool:
        """Whether the file itself was cut, or written anew from its beginning."""
        now = os.fstat(stream.fileno())
        if hasattr(stream, "place"):  # of a packed file, what was read of it
            return now.st_size < int(stream.place)
        stamp = now.st_size, now.st_mtime_ns
        is_as_it_was = stamp == self._stamp
        self._stamp = stamp
        return now.st_size < stream.tell() or not (is_as_it_was or self._is_anchored(stream))

    def _is_anchored(self, stream: BinaryIO) -> bool:
        """Whether what was read last still stands there; what comes next is of the same look at the
        disk."""
        place = stream.tell()
        stream.seek(0, os.SEEK_END)  # forgets what is held in memory
        stream.seek(place - len(self._anchor))
        return stream.read(len(self._anchor)) == self._anchor

    def _note_half(self, stream: BinaryIO) -> None:
        if stream.read(1):
            self.half_line = sum(self._seen.values()) + 1
