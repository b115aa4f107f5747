"""Reliable cancellation of asyncio tasks."""

import asyncio
from typing import Any

_RETRY_SECONDS = 0.5


async def cancel_and_wait(task: "asyncio.Task[Any]") -> None:
    """Cancel a task until it has ended; its exception is discarded.

    A database driver in the middle of a message may swallow a cancellation, so one call of
    `cancel` is not enough."""
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=_RETRY_SECONDS)
    if not task.cancelled():
        task.exception()
