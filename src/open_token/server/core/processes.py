"""Execution of commands: bounded output, a time limit, and no process left behind."""

import asyncio
import contextlib
import os
import signal
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from msgspec import Struct

from open_token.server.core.sandbox import Command, start_process

_CHUNK_SIZE = 1 << 16
_WATCH_SECONDS = 0.2
"""Seconds between looks at what a command takes; more if a look takes long."""
_LOOK_SHARE = 10
"""A look may take a tenth of the time."""
_BLOCK_SIZE = 4096
_DRAIN_SECONDS = 2.0
"""The time for output that is still in the pipe when a command has ended."""


class LimitExceeded(Exception):
    """A command was stopped because it took more than it may."""


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

    Cancelling this kills the command. Raises LimitExceeded when it took more than it may."""
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
    watching = asyncio.create_task(_watch(process, command))
    try:
        async with asyncio.timeout(seconds):
            code = await process.wait()
    except TimeoutError:
        return None
    else:
        if watching.done():
            raise LimitExceeded(watching.result())
        return code
    finally:
        watching.cancel()
        _kill_group(process)
        await asyncio.shield(asyncio.ensure_future(_wait_for_end(process, reading)))


async def _watch(process: asyncio.subprocess.Process, command: Command) -> str:
    """Kill a command as soon as it takes more than it may; returns why."""
    limits = command.limits
    size = await asyncio.to_thread(_measure_folder, command.folder) if limits.disk_bytes else 0
    # In a workspace that is full already a command may still delete.
    max_size = max(limits.disk_bytes, size)
    loop = asyncio.get_running_loop()
    while True:
        started = loop.time()
        usage = await asyncio.to_thread(_measure_processes, process.pid)
        if limits.disk_bytes:
            size = await asyncio.to_thread(_measure_folder, command.folder)
            if size + usage.deleted_bytes > max_size:
                reason = f"the workspace may have {limits.disk_bytes} bytes"
                break
        if limits.memory_bytes and usage.memory_bytes > limits.memory_bytes:
            reason = f"a command may take {limits.memory_bytes} bytes of memory"
            break
        await asyncio.sleep(max(_WATCH_SECONDS, _LOOK_SHARE * (loop.time() - started)))
    _kill_group(process)
    return reason


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


class _Usage(Struct):
    """What processes take."""

    memory_bytes: int = 0
    deleted_bytes: int = 0
    """Files that are open and no longer in any folder."""


def _measure_folder(folder: Path) -> int:
    """Return the bytes that the files below a folder take on disk."""
    size = 0
    pending = [str(folder)]
    while pending:
        with contextlib.suppress(OSError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    size += _count_blocks(status)
                    if stat.S_ISDIR(status.st_mode):
                        pending.append(entry.path)
    return size


def _count_blocks(status: os.stat_result) -> int:
    """Return the size of a file in whole blocks.

    st_blocks is no help: file systems allocate some time after a file was written."""
    return -(-status.st_size // _BLOCK_SIZE) * _BLOCK_SIZE


def _measure_processes(pid: int) -> _Usage:
    """Return what a process and all that it started take; nothing where there is no /proc."""
    usage = _Usage()
    deleted: dict[tuple[int, int], int] = {}
    for number in _iterate_descendants(pid):
        folder = Path("/proc", str(number))
        with contextlib.suppress(OSError):
            usage.memory_bytes += _measure_memory(folder)
        with contextlib.suppress(OSError):
            for link in os.scandir(folder / "fd"):
                with contextlib.suppress(OSError):
                    status = os.stat(link.path)
                    if stat.S_ISREG(status.st_mode) and not status.st_nlink:
                        deleted[(status.st_dev, status.st_ino)] = _count_blocks(status)
    usage.deleted_bytes = sum(deleted.values())
    return usage


def _iterate_descendants(pid: int) -> Iterator[int]:
    pending = [pid]
    while pending:
        number = pending.pop()
        yield number
        with contextlib.suppress(OSError):
            for task in os.scandir(f"/proc/{number}/task"):
                with contextlib.suppress(OSError):
                    pending += map(int, Path(task.path, "children").read_text().split())


def _measure_memory(folder: Path) -> int:
    """Return the memory of a process; what it shares with others is divided among them."""
    with contextlib.suppress(PermissionError):
        for line in (folder / "smaps_rollup").read_text().splitlines():
            name, _, value = line.partition(":")
            if name == "Pss":
                return int(value.split()[0]) * 1024
    pages = int((folder / "statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
