"""Ends tasks for good: a driver in the middle of a message may swallow a cancellation, and the task
would go on."""

import asyncio

_AGAIN = 0.5


async def stopped(task: "asyncio.Task[None]") -> None:
    """Cancel a task until it is over, and wait for that; what it raised is dropped."""
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=_AGAIN)
    if not task.cancelled():
        task.exception()
