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

    def __call__(self, done: int) -> None:
        now = time.monotonic()
        if not self._on or now < self._next:
            return
        self._next = now + _EVERY
        self._shown = True
        share = min(1.0, done / self._total) if self._total else 0.0
        bar = "#" * int(share * 24)
        sys.stderr.write(f"\rreading [{bar:24}] {share:4.0%}  {size(done)} / {size(self._total)}\x1b[K")
        sys.stderr.flush()

    def until_written(self, out: BinaryIO) -> BinaryIO:
        """`out`, before whose first bytes the bar is gone: at the end of a pipe may be the same screen."""
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
