"""The bus over PostgreSQL: a connection that breaks is opened again."""

import asyncio

import asyncpg
import pytest

from helpers.server.buses import (
    Heads,
    Received,
    build_log_appended,
    open_buses,
    wait_until_connected,
    wait_until_followed,
)
from helpers.server.local_services import free_port, postgres
from open_token.server.bus.postgres import channel_name, open_bus


@pytest.mark.full
def test_a_connection_that_is_cut_loses_nothing() -> None:
    async def whole() -> None:
        heads = Heads()
        async with open_buses("postgres", heads) as (one, other):
            far = Received()
            other.listen("sess_1", far)
            await wait_until_followed(other, "sess_1")
            db = await asyncpg.connect(f"postgresql://test@127.0.0.1:{postgres().port}/postgres")
            others = "pid <> pg_backend_pid() AND backend_type = 'client backend'"
            await db.execute(
                f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}"
            )
            await db.close()
            heads["sess_1"] = ("user_anna", 3)
            one.publish(build_log_appended(3))
            await far.until(3)
            await wait_until_connected(one, other)
            await wait_until_followed(other, "sess_1")
            one.publish(build_log_appended(4))
            await far.until(4)

    asyncio.run(whole())


def test_a_database_that_is_not_there_keeps_nobody_from_starting() -> None:
    async def whole() -> None:
        bus = open_bus(
            f"postgresql://u@127.0.0.1:{free_port()}/x", Heads({"sess_1": ("user_anna", 2)})
        )
        await bus.start()
        far = Received()
        bus.listen("sess_1", far)
        await far.until(2)
        await bus.close()

    asyncio.run(whole())


def test_every_session_has_a_channel_that_the_database_takes() -> None:
    names = ["sess_1", "x" * 1000, "größer", '"; DROP', "\ud800"]
    channels = [channel_name(name) for name in names]
    assert len(set(channels)) == len(names)
    assert all(name.isascii() and len(name) <= 63 for name in channels)
