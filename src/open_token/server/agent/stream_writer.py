"""Write streamed text to the log in batches: after 40 ms, at 1 KB, or before any other event."""

import asyncio
from collections.abc import Awaitable, Callable

from open_token.model.log_events import Json, NewEvent, merge_deltas

Write = Callable[[list[NewEvent]], Awaitable[object]]

FLUSH_SECONDS = 0.04
_FLUSH_SIZE = 1024


class StreamWriter:
    """Collects the deltas of one turn and writes them in order."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._events: list[NewEvent] = []
        self._size = 0
        self._lock = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._error: Exception | None = None

    async def add_delta(self, kind: str, data: Json, size: int) -> None:
        """Add a delta; raise the error of an earlier write in the background."""
        if self._error:
            raise self._error
        self._events.append((kind, data))
        self._size += size
        if self._size >= _FLUSH_SIZE:
            await self.flush()
        elif self._timer is None and self._task is None:
            self._start_timer()

    async def flush(self, *more: NewEvent) -> None:
        """Write pending deltas, and further events after them."""
        self._cancel_timer()
        async with self._lock:
            events = self.take()
            events += more
            if events:
                await self._write(events)

    def take(self) -> list[NewEvent]:
        """Return and forget what is not written yet."""
        events = merge_deltas(self._events)
        self._events = []
        self._size = 0
        return events

    async def close(self) -> None:
        """Stop writing in the background."""
        self._cancel_timer()
        if self._task is not None:
            await asyncio.wait([self._task])

    def _start_timer(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self._start_flush)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _start_flush(self) -> None:
        self._timer = None
        self._task = asyncio.ensure_future(self._flush_in_background())

    async def _flush_in_background(self) -> None:
        try:
            await self.flush()
        except Exception as error:
            self._error = error  # raised by the next add_delta
        finally:
            self._task = None
            if self._events and self._timer is None:
                self._start_timer()
