"""Execution of commands: bounded output, a time limit, and no process left behind."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable
from typing import IO

from open_token.server.core.sandbox import Command, start_process

_CHUNK_SIZE = 1 << 16
_DRAIN_SECONDS = 2.0
"""The time for output that is still in the pipe when a command has ended."""


class BoundedOutput:
    """The beginning and the end of an output; the middle is dropped."""

    def __init__(self, max_bytes: int) -> None:
        self._half = max_bytes // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def add(self, piece: bytes) -> None:
        """Append output."""
        free = self._half - len(self._head)
        self._head += piece[:free]
        self._tail += piece[free:]
        # Not after every piece: each drop copies the tail.
        excess = len(self._tail) - self._half
        if excess > _CHUNK_SIZE:
            self._drop(excess)

    def text(self) -> str:
        """Return the output as text, with a note where something was dropped."""
        excess = len(self._tail) - self._half
        if excess > 0:
            self._drop(excess)
        gap = f"\n[... {self._dropped} bytes omitted ...]\n" if self._dropped else ""
        return self._head.decode("utf-8", "replace") + gap + self._tail.decode("utf-8", "replace")

    @property
    def is_truncated(self) -> bool:
        """Whether something was dropped."""
        return self._dropped > 0

    def _drop(self, count: int) -> None:
        del self._tail[:count]
        self._dropped += count


async def run_to_end(command: Command, take: Callable[[bytes], None], seconds: float) -> int | None:
    """Run a command and pass its output on; returns its exit code, None after a timeout.

    Cancelling this kills the command."""
    # Our own pipe: asyncio waits for the end of the pipes it creates, and a process that was left
    # behind may keep them open.
    reader, writer = os.pipe()
    source = os.fdopen(reader, "rb", buffering=0)
    try:
        process = await start_process(command, writer)
    except BaseException:
        source.close()
        raise
    finally:
        os.close(writer)
    reading = asyncio.create_task(_read_output(source, take))
    try:
        async with asyncio.timeout(seconds):
            return await process.wait()
    except TimeoutError:
        return None
    finally:
        _kill_group(process)
        await asyncio.shield(asyncio.ensure_future(_wait_for_end(process, reading)))


async def _read_output(source: IO[bytes], take: Callable[[bytes], None]) -> None:
    stream = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(stream), source
    )
    try:
        while piece := await stream.read(_CHUNK_SIZE):
            take(piece)
    finally:
        transport.close()


def _kill_group(process: asyncio.subprocess.Process) -> None:
    """Kill a command and everything that it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


async def _wait_for_end(process: asyncio.subprocess.Process, reading: asyncio.Task[None]) -> None:
    """Wait for the process and its last output; an escaped process may keep the pipe open."""
    await process.wait()
    await asyncio.wait([reading], timeout=_DRAIN_SECONDS)
    reading.cancel()
    # The receiver of the output may have failed.
    await asyncio.gather(reading, return_exceptions=True)
