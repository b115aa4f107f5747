"""Writes down what streams: pieces are put together, and written at 40 ms, at 1 KB, or before
anything else is."""

import asyncio
from collections.abc import Awaitable, Callable

from open_token.entries import Json, Step, coalesced

Write = Callable[[list[Step]], Awaitable[object]]

SOON = 0.04
_FULL = 1024


class Scribe:
    """Collects the pieces of one turn and writes them in order."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._steps: list[Step] = []
        self._size = 0
        self._lock = asyncio.Lock()
        self._later: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._fault: Exception | None = None

    async def piece(self, kind: str, data: Json, size: int) -> None:
        """More of a text; raises what an earlier writing ran into."""
        if self._fault:
            raise self._fault
        self._steps.append((kind, data))
        self._size += size
        if self._size >= _FULL:
            await self.flush()
        elif self._later is None and self._task is None:
            self._later = asyncio.get_running_loop().call_later(SOON, self._begin)

    async def flush(self, *more: Step) -> None:
        """Write what is there, and further steps behind it."""
        self._drop_timer()
        async with self._lock:
            steps = self.take()
            steps += more
            if steps:
                await self._write(steps)

    def take(self) -> list[Step]:
        """What is not written yet, for one who writes it along with something else."""
        steps, self._steps, self._size = coalesced(self._steps), [], 0
        return steps

    async def close(self) -> None:
        """Nothing of it goes on after this."""
        self._drop_timer()
        if self._task is not None:
            await asyncio.wait([self._task])

    def _drop_timer(self) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None

    def _begin(self) -> None:
        self._later = None
        self._task = asyncio.ensure_future(self._flush_later())

    async def _flush_later(self) -> None:
        try:
            await self.flush()
        except Exception as fault:  # told to the one who writes next
            self._fault = fault
        finally:
            self._task = None
            if self._steps and self._later is None:
                self._later = asyncio.get_running_loop().call_later(SOON, self._begin)
