"""The bus over Redis: slower when Redis is away, never deaf."""

import asyncio
import signal

import pytest

from helpers.server.buses import (
    Heads,
    Received,
    build_log_appended,
    open_buses,
    wait_until_connected,
    wait_until_followed,
)
from helpers.server.local_services import free_port, redis
from open_token.errors import StoreError
from open_token.server.bus.interface import Bus
from open_token.server.bus.redis import open_bus


@pytest.mark.full
def test_a_redis_that_is_killed_loses_nothing() -> None:
    async def whole() -> None:
        heads = Heads()
        async with open_buses("redis", heads) as (one, other):
            far = Received()
            other.listen("sess_1", far)
            await wait_until_followed(other, "sess_1")
            await asyncio.to_thread(redis().end, signal.SIGKILL)
            await _grow(one, heads, 3)
            await far.until(3)
            await asyncio.to_thread(redis().start)
            await wait_until_connected(one, other)
            await wait_until_followed(other, "sess_1")
            one.publish(build_log_appended(4))
            await far.until(4)

    asyncio.run(whole())


def test_a_redis_that_is_not_there_keeps_nobody_from_starting() -> None:
    async def whole() -> None:
        heads = Heads({"sess_1": ("user_anna", 2)})
        bus = open_bus(f"redis://127.0.0.1:{free_port()}/0", heads)
        await bus.start()
        far = Received()
        bus.listen("sess_1", far)
        await far.until(2)
        bus.publish(build_log_appended(3))
        assert far.last == 3
        await bus.close()

    asyncio.run(whole())


@pytest.mark.parametrize("address", ["", "http://x", "host:6379"])
def test_an_address_that_is_none_is_said(address: str) -> None:
    with pytest.raises(StoreError) as caught:
        open_bus(address, Heads())
    assert caught.value.code == "bus.address"


async def _grow(bus: Bus, heads: Heads, last: int) -> None:
    """What a journal does: write, then tell."""
    heads["sess_1"] = ("user_anna", last)
    bus.publish(build_log_appended(last))
