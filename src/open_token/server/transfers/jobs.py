"""Threads for long work on what people send: exports, imports and previews.

They are apart from the threads of everything else, nobody has more than a share of them, and work
ends soon after nobody waits for it any more. Work in a process of its own counts as a thread."""

import asyncio
import contextlib
import os
import threading
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeVar

from open_token.server.errors import ApiError

Result = TypeVar("Result")
Step = TypeVar("Step", covariant=True)
Checkpoint = Callable[[], None]
"""Called between small steps of a job; it raises once the job is to end."""
_THREADS = max(4, min(16, os.cpu_count() or 1))


class StoppedError(BaseException):
    """Raised inside a job that nobody waits for.

    Not an Exception: whoever survives any failure of a reader must not survive this."""


class Process(Protocol[Step]):
    """Work in a process of its own, with results one by one."""

    async def read_result(self) -> Step | None:
        """Return the next result, or None after the last one."""

    def kill(self) -> None:
        """End the process now."""


class Jobs:
    """Runs jobs in threads; those of the person who has the fewest running come first."""

    def __init__(self, seconds: float, threads: int = _THREADS) -> None:
        self._seconds = seconds
        self._share = max(1, threads // 2)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="job")
        self._free = threads
        self._running: Counter[str] = Counter()
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []
        self._stops: set[threading.Event] = set()
        self._processes: set[Process[object]] = set()
        self._is_closed = False

    async def run(self, owner: str, work: Callable[[Checkpoint], Result]) -> Result:
        """Run `work` in a thread and return its result.

        When the caller is cancelled, when the time is up or when the server stops, the checkpoint
        that `work` gets raises. The thread counts as taken until it has ended."""
        await self._take_thread(owner)
        stop = threading.Event()
        self._stops.add(stop)
        loop = asyncio.get_running_loop()

        def check() -> None:
            if stop.is_set():
                raise StoppedError

        def give_back(_: object) -> None:
            with contextlib.suppress(RuntimeError):  # the server has ended meanwhile
                loop.call_soon_threadsafe(self._give_back_thread, owner, stop)

        future = self._pool.submit(work, check)
        future.add_done_callback(give_back)
        try:
            async with asyncio.timeout(self._seconds) as limit:
                return await asyncio.wrap_future(future)
        except TimeoutError:
            if not limit.expired():
                raise
            raise _too_slow(self._seconds) from None
        except StoppedError:
            raise _stopping() from None
        finally:
            stop.set()

    async def run_process(
        self, owner: str, opening: AbstractAsyncContextManager[Process[Result]]
    ) -> AsyncGenerator[Result, None]:
        """Yield the results of a process, each of which may take the time of a job."""
        await self._take_thread(owner)
        try:
            async with opening as process:
                self._processes.add(process)
                try:
                    result = await self._read_result(process)
                    while result is not None:
                        yield result
                        result = await self._read_result(process)
                finally:
                    self._processes.discard(process)
        finally:
            self._give_back_thread(owner)

    async def _read_result(self, process: Process[Result]) -> Result | None:
        try:
            async with asyncio.timeout(self._seconds) as limit:
                return await process.read_result()
        except TimeoutError:
            if not limit.expired():
                raise
            raise _too_slow(self._seconds) from None
        except ApiError:
            if self._is_closed:
                raise _stopping() from None
            raise

    def close(self) -> None:
        """End all jobs at their next checkpoint; new ones are refused."""
        self._is_closed = True
        for process in self._processes:
            process.kill()
        for stop in self._stops:
            stop.set()
        for _, turn in self._waiting:
            if not turn.done():
                turn.set_exception(_stopping())
        self._waiting.clear()
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _take_thread(self, owner: str) -> None:
        if self._is_closed:
            raise _stopping()
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((owner, turn))
        self._assign_threads()
        try:
            await turn
        except asyncio.CancelledError:
            if (owner, turn) in self._waiting:
                self._waiting.remove((owner, turn))
            elif not turn.cancelled() and turn.exception() is None:
                self._give_back_thread(owner)
            raise

    def _give_back_thread(self, owner: str, stop: threading.Event | None = None) -> None:
        if stop is not None:
            self._stops.discard(stop)
        self._free += 1
        self._running[owner] -= 1
        if not self._running[owner]:
            del self._running[owner]
        self._assign_threads()

    def _assign_threads(self) -> None:
        while self._free:
            able = [item for item in self._waiting if self._running[item[0]] < self._share]
            if not able:
                return
            # The first of those whose person has the fewest.
            chosen = min(able, key=lambda item: self._running[item[0]])
            self._waiting.remove(chosen)
            owner, turn = chosen
            if turn.done():
                continue  # cancelled in this moment
            self._free -= 1
            self._running[owner] += 1
            turn.set_result(None)


def _too_slow(seconds: float) -> ApiError:
    return ApiError(
        503,
        f"this takes longer than {seconds:g} seconds, the setting limits.transfer_seconds",
        "too_slow",
    )


def _stopping() -> ApiError:
    return ApiError(503, "the server is stopping; try again", "stopping")
