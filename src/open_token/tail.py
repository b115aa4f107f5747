"""A file that is still being written: its lines as they come, through half lines, rewriting and rotation."""

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from open_token.source import Decode, Source


class Tail(Source):
    """A source of JSON lines whose records end only when it is told to stop."""

    grows = True

    def __init__(self, path: Path, name: str, idle: Callable[[], bool], told: Callable[[], None]) -> None:
        super().__init__(name, path=path)
        self._idle = idle
        """Called when there is nothing new; False ends the records."""
        self._told = told
        """Called when a record was dealt with."""
        self._seen: Counter[bytes] = Counter()

    def _other(self, name: str, *, path: Path | None = None, data: bytes | None = None) -> Any:
        """What lies beside the file is read as it is now."""
        return Source(name, path=path, data=data, parent=self)

    def _line_records(self, decode: Decode, tell: bool) -> Iterator[tuple[int, Any]]:
        if not tell:
            yield from super()._line_records(decode, tell)
            return
        for number, line in enumerate(self._all_lines(), 1):
            if line.strip():
                try:
                    record = decode(line)
                except (ValueError, RecursionError) as problem:
                    record = self._second_try(number, line, problem, decode)
                yield number, record
                self._told()

    def _all_lines(self) -> Iterator[bytes]:
        """Every line once, also when the file was replaced by one that begins with the same lines."""
        while True:
            again: Counter[bytes] = Counter()
            with self.opened() as stream:
                going = True
                while going:
                    for line in self._new_lines(stream):
                        digest = hashlib.blake2b(line, digest_size=12).digest()
                        again[digest] += 1
                        if again[digest] > self._seen[digest]:
                            self._seen[digest] = again[digest]
                            yield line
                    if self._is_another(stream):
                        break
                    going = self._idle()
                if not going:
                    self._note_half(stream)
                    return

    def _new_lines(self, stream: BinaryIO) -> Iterator[bytes]:
        """The lines that are whole by now; the stream stays before one that is not."""
        while True:
            place = stream.tell()
            line = stream.readline()
            if not line.endswith(b"\n"):
                stream.seek(place)
                return
            yield line

    def _is_another(self, stream: BinaryIO) -> bool:
        """Whether the file was replaced, or cut to begin anew."""
        assert self.path is not None
        try:
            now, ours = os.stat(self.path), os.fstat(stream.fileno())
        except OSError:
            return False
        read: int = (
            stream.tell() if not hasattr(stream, "place") else stream.place
        )  # of a packed file, what was read of it
        return (now.st_ino, now.st_dev) != (ours.st_ino, ours.st_dev) or now.st_size < read

    def _note_half(self, stream: BinaryIO) -> None:
        if stream.read(1):
            self.half_line = sum(self._seen.values()) + 1
