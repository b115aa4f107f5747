"""Tasks that are stopped: also those that swallow a cancellation."""

import asyncio

from open_token.server.cancellation import cancel_and_wait


def test_a_task_that_swallows_a_cancellation_is_stopped_all_the_same() -> None:
    async def scenario() -> None:
        begun, swallowed = asyncio.Event(), 0

        async def goes_on() -> None:
            nonlocal swallowed
            while True:
                begun.set()
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    if swallowed:
                        raise
                    swallowed += 1

        task = asyncio.create_task(goes_on())
        await begun.wait()
        await cancel_and_wait(task)
        assert (task.cancelled(), swallowed) == (True, 1)

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_what_a_task_raised_is_dropped() -> None:
    async def scenario() -> None:
        async def fails() -> None:
            raise ValueError

        task = asyncio.create_task(fails())
        await asyncio.wait([task])
        await cancel_and_wait(task)

    asyncio.run(scenario())
