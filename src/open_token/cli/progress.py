"""One line that tells how far a long read has come: on a terminal only, and only after a moment."""

import sys
import time
from typing import BinaryIO, cast

from open_token.cli.console import Console, size

_AFTER = 0.3
_EVERY = 0.1


class Progress:
    """A bar on stderr; use it as a context, call it with the bytes done."""

    def __init__(self, total: int, console: Console) -> None:
        self._total = total
        self._on = console.err_is_terminal and not console.quiet
        self._next = time.monotonic() + _AFTER
        self._shown = False
        self._last = ""
        self._written: int | None = None

    def __call__(self, done: int) -> None:
        share = min(1.0, done / self._total) if self._total else 0.0
        if share == 1.0 and self._written is not None:
            self.written(0)
        else:
            bar = "#" * int(share * 24)
            line = f"reading [{bar:24}] {share:4.0%}  {size(done)} / {size(self._total)}"
            self._tell(line, "all is read" if share == 1.0 else "")

    def written(self, count: int) -> None:
        """All is read, and so many more bytes are in the file."""
        self._written = (self._written or 0) + count
        self._tell(
            f"writing {size(self._written)}" if self._written else "writing ...",
            "" if self._written else "writing",
        )

    def _tell(self, line: str, stage: str) -> None:
        """Show a line, unless the one before is fresh; the first of a stage takes the place of a
        fresh one too."""
        now = time.monotonic()
        is_first = bool(stage) and stage != self._last and self._shown
        if not self._on or (now < self._next and not is_first):
            return
        self._last = stage
        self._next = now + _EVERY
        self._shown = True
        sys.stderr.write(f"\r{line}\x1b[K")
        sys.stderr.flush()

    def with_file(self, out: BinaryIO) -> BinaryIO:
        """`out`, of which the line tells how much is written when all is read."""
        self._written = 0
        return cast(BinaryIO, _Counter(self, out))

    def until_written(self, out: BinaryIO) -> BinaryIO:
        """`out`, before whose first bytes the bar is gone: at the end of a pipe may be the same
        screen."""
        return cast(BinaryIO, _Follower(self, out))

    def end(self) -> None:
        """Take the bar away for good."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
        self._on = self._shown = False

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


class _Follower:
    """What is written after the bar has ended."""

    def __init__(self, progress: Progress, out: BinaryIO) -> None:
        self._progress, self._out = progress, out

    def write(self, data: bytes) -> int:
        self._progress.end()
        return self._out.write(data)


class _Counter:
    """What is written to a file while the line tells of it."""

    def __init__(self, progress: Progress, out: BinaryIO) -> None:
        self._progress, self._out = progress, out

    def write(self, data: bytes) -> int:
        count = self._out.write(data)
        self._progress.written(count)
        return count
