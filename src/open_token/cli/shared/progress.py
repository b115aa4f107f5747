"""A progress line on stderr for long reads: on a terminal only, and only after a moment."""

import sys
import time
from typing import BinaryIO, cast

from open_token.cli.shared.console import Console, format_size
from open_token.redaction import hyperscan_prefilter

_DELAY = 0.3
_INTERVAL = 0.1
_BAR_COLUMNS = 24
_LARGE = 1 << 20
"""So many bytes take a moment: the line shows at once, before the first of them are done."""
COMPILING = "preparing the redaction rules; this happens once ..."


class Progress:
    """A progress bar: enter it as a context, call it with the number of bytes read so far."""

    def __init__(
        self, total: int, console: Console, action: str = "reading", *, has_rate: bool = False
    ) -> None:
        """`has_rate` adds bytes a second and the time left, for work that takes minutes."""
        self._total = total
        self._action = action
        self._has_rate = has_rate
        self._started = time.monotonic()
        self._is_enabled = console.stderr_is_terminal and not console.quiet
        self._next_update = time.monotonic() + _DELAY
        self._is_shown = False
        self._stage = ""
        self._bytes_written: int | None = None

    def __call__(self, done: int) -> None:
        share = min(1.0, done / self._total) if self._total else 0.0
        if share == 1.0 and self._bytes_written is not None:
            self.add_written(0)
            return
        bar = "#" * int(share * _BAR_COLUMNS)
        sizes = f"{format_size(done)} / {format_size(self._total)}"
        if self._has_rate:
            sizes += self._format_rate(done)
        stage = "read" if share == 1.0 else ""
        self._update(f"{self._action} [{bar:{_BAR_COLUMNS}}] {share:4.0%}  {sizes}", stage)

    def _format_rate(self, done: int) -> str:
        seconds = time.monotonic() - self._started
        if not done or seconds <= 0:
            return ""
        rate = done / seconds
        left = round(max(0, self._total - done) / rate)
        minutes, rest = divmod(left, 60)
        hours, minutes = divmod(minutes, 60)
        clock = f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
        return f", {format_size(int(rate))}/s, {clock} left"

    def clear(self) -> None:
        """Remove the line before something else is printed; the next call shows it again."""
        if self._is_shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def add_written(self, count: int) -> None:
        """Report that so many more bytes are in the output file."""
        self._bytes_written = (self._bytes_written or 0) + count
        if self._bytes_written:
            self._update(f"writing {format_size(self._bytes_written)}", "")
        else:
            self._update("writing ...", "writing")

    def _update(self, line: str, stage: str) -> None:
        """Show a line, unless the last one is recent; a new stage is shown at once."""
        now = time.monotonic()
        is_new_stage = bool(stage) and stage != self._stage and self._is_shown
        if not self._is_enabled or (now < self._next_update and not is_new_stage):
            return
        self._stage = stage
        self._next_update = now + _INTERVAL
        self._is_shown = True
        sys.stderr.write(f"\r{line}\x1b[K")
        sys.stderr.flush()

    def count_file(self, out: BinaryIO) -> BinaryIO:
        """Wrap an output file, so that the line shows how much is written once all is read."""
        self._bytes_written = 0
        return cast(BinaryIO, _CountingWriter(self, out))

    def clear_before_output(self, out: BinaryIO) -> BinaryIO:
        """Wrap stdout, so that the bar is gone before the first bytes reach the same screen."""
        return cast(BinaryIO, _ClearingWriter(self, out))

    def end(self) -> None:
        """Remove the line for good."""
        self.clear()
        if self._is_enabled:
            hyperscan_prefilter.on_compile = None
        self._is_enabled = False
        self._is_shown = False

    def begin(self) -> None:
        """Show that the work has begun, where the first report may take over a second."""
        if not self._is_enabled:
            return
        hyperscan_prefilter.on_compile = self._show_compiling
        # The processes of --jobs compile on their own, and report only what is done.
        if self._has_rate and self._total >= _LARGE:
            self._next_update = 0.0
            self(0)

    def _show_compiling(self) -> None:
        self._next_update = 0.0
        self._update(COMPILING, "")

    def __enter__(self) -> "Progress":
        self.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


class _ClearingWriter:
    def __init__(self, progress: Progress, out: BinaryIO) -> None:
        self._progress = progress
        self._out = out

    def write(self, data: bytes) -> int:
        self._progress.end()
        return self._out.write(data)


class _CountingWriter:
    def __init__(self, progress: Progress, out: BinaryIO) -> None:
        self._progress = progress
        self._out = out

    def write(self, data: bytes) -> int:
        count = self._out.write(data)
        self._progress.add_written(count)
        return count
