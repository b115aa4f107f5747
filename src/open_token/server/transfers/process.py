"""Large exports, previews and imports in a process of their own.

The server stays responsive, its memory does not grow, and the system takes the memory back when
the process ends. Tasks and results are the same as in a thread."""

import asyncio
import contextlib
import gc
import logging
import os
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import BinaryIO

import msgspec
from msgspec import Struct

from open_token.server.clock import format_timestamp
from open_token.server.errors import ApiError
from open_token.server.transfers.jobs import StoppedError
from open_token.server.transfers.tasks import (
    Exported,
    ExportTask,
    ImportBatch,
    ImportedFiles,
    ImportTask,
    Previewed,
    PreviewTask,
    Result,
    Task,
    run_task,
)

IS_SUPPORTED = os.name == "posix"
_LENGTH_BYTES = 8
_NICENESS = 5
"""Conversations come first on a machine that is busy."""
_GC_THRESHOLDS = (100_000, 50, 100)
"""Almost all that a task makes lives until its end: the usual collections only look at it again."""
_log = logging.getLogger("open_token.server")


class _Order(Struct, frozen=True):
    """What the process reads first."""

    task: ExportTask | PreviewTask | ImportTask
    max_bytes: int
    """The memory that it may take."""


class _Failure(Struct, frozen=True, tag="failure"):
    """The end of a task that failed."""

    status: int
    detail: str
    code: str


_decode_result = msgspec.msgpack.Decoder(
    Exported | Previewed | ImportBatch | ImportedFiles | _Failure
).decode
_decode_order = msgspec.msgpack.Decoder(_Order).decode
_encode = msgspec.msgpack.Encoder().encode


class TransferProcess:
    """One task in a process; it is killed when nobody waits for it any more."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, task: Task, max_bytes: int) -> AsyncIterator["TransferProcess"]:
        """Start a process for a task."""
        # -P: modules in the current folder are none of ours.
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            __name__,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            pass_fds=(task.target,) if isinstance(task, ExportTask) else (),
        )
        try:
            assert process.stdin is not None
            process.stdin.write(_encode(_Order(task, max_bytes)))
            process.stdin.close()
            yield cls(process)
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    def kill(self) -> None:
        """End the process now."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def read_result(self) -> Result | None:
        """Return the next result, None after the last one; raise the failure of the task."""
        stdout = self._process.stdout
        assert stdout is not None
        try:
            length = int.from_bytes(await stdout.readexactly(_LENGTH_BYTES))
            result: Result | _Failure = _decode_result(await stdout.readexactly(length))
        except asyncio.IncompleteReadError:
            if await self._process.wait() == 0:
                return None
            # Killed by the system, or by a library that got no memory.
            raise _no_memory() from None
        if isinstance(result, _Failure):
            raise ApiError(result.status, result.detail, result.code)
        return result


def _no_memory() -> ApiError:
    return ApiError(
        413, "this needs more memory than the setting limits.transfer_bytes", "too_large"
    )


def main() -> None:
    """Run the task that is read from standard input."""
    order = _decode_order(os.fdopen(0, "rb").read())
    gc.set_threshold(*_GC_THRESHOLDS)
    # What a library prints must not come between the results.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    _limit(order.max_bytes)
    server = os.getppid()

    def check() -> None:
        if os.getppid() != server:
            raise StoppedError

    try:
        for result in run_task(order.task, _now, check):
            _write(out, _encode(result))
    except ApiError as problem:
        _write_failure(out, problem)
    except MemoryError:
        _write_failure(out, _no_memory())
    except (StoppedError, BrokenPipeError):
        os._exit(1)  # nobody reads the results
    except Exception as problem:
        # The message may hold content.
        _log.error("transfer failed: %s", type(problem).__name__)
        _write_failure(out, ApiError(500, "internal server error", "internal"))
    out.close()


def _limit(max_bytes: int) -> None:
    import resource

    os.nice(_NICENESS)
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    limit = max_bytes if most == resource.RLIM_INFINITY else min(max_bytes, most)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, most))


def _now() -> str:
    return format_timestamp(datetime.now(UTC))


def _write_failure(out: BinaryIO, problem: ApiError) -> None:
    _write(out, _encode(_Failure(problem.status, problem.detail, problem.code)))


def _write(out: BinaryIO, data: bytes) -> None:
    out.write(len(data).to_bytes(_LENGTH_BYTES))
    out.write(data)
    out.flush()


if __name__ == "__main__":
    main()
