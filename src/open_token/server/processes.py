"""Commands followed to their end: output bounded, time limited, and nothing of them left
running."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable
from typing import IO

from open_token.server.sandbox import Command, start

_PIECE = 1 << 16
_LAST_WORDS = 2.0
"""Seconds for output that is still in the pipe when a command has ended."""


class Kept:
    """The beginning and the end of an output; what is between makes way."""

    def __init__(self, most: int) -> None:
        self._half = most // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._lost = 0

    def add(self, piece: bytes) -> None:
        """More output."""
        room = self._half - len(self._head)
        self._head += piece[:room]
        self._tail += piece[room:]
        if (
            over := len(self._tail) - self._half
        ) > _PIECE:  # not at every piece: that would copy all the time
            self._lose(over)

    def text(self) -> str:
        """What is left of it, with a word where something is missing."""
        if (over := len(self._tail) - self._half) > 0:
            self._lose(over)
        gap = f"\n[... {self._lost} bytes are left out here ...]\n" if self._lost else ""
        return self._head.decode("utf-8", "replace") + gap + self._tail.decode("utf-8", "replace")

    @property
    def is_cut(self) -> bool:
        """Whether something is missing."""
        return self._lost > 0

    def _lose(self, count: int) -> None:
        del self._tail[:count]
        self._lost += count


async def follow(command: Command, take: Callable[[bytes], None], seconds: float) -> int | None:
    """Run a command to its end and give its output away; None when its time was over. Stopping this
    stops it."""
    # A pipe of our own: asyncio waits for the end of its own pipes too, which a left-over process
    # may keep open.
    reader, writer = os.pipe()
    source = os.fdopen(reader, "rb", buffering=0)
    try:
        process = await start(command, writer)
    except BaseException:
        source.close()
        raise
    finally:
        os.close(writer)
    reading = asyncio.create_task(_pour(source, take))
    try:
        async with asyncio.timeout(seconds):
            return await process.wait()
    except TimeoutError:
        return None
    finally:
        _kill_group(process)
        await asyncio.shield(asyncio.ensure_future(_ended(process, reading)))


async def _pour(source: IO[bytes], take: Callable[[bytes], None]) -> None:
    stream = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(stream), source
    )
    try:
        while piece := await stream.read(_PIECE):
            take(piece)
    finally:
        transport.close()


def _kill_group(process: asyncio.subprocess.Process) -> None:
    """The command and all that it started; a group that is gone already is no matter."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


async def _ended(process: asyncio.subprocess.Process, reading: asyncio.Task[None]) -> None:
    """Wait until it is gone and its last words are read; a process that got away may hold the pipe
    open for ever."""
    await process.wait()
    await asyncio.wait([reading], timeout=_LAST_WORDS)
    reading.cancel()
    await asyncio.gather(
        reading, return_exceptions=True
    )  # whoever takes the output may have failed
