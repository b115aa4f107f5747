"""One line that tells how far a long read has come: on a terminal only, and only after a moment."""

import sys
import time

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

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
