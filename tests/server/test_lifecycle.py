"""A server put together and taken apart."""

import asyncio
from pathlib import Path

import pytest

from open_token.errors import StoreError
from open_token.server.config import ServerConfig
from open_token.server.lifecycle import create_first_key, run_services


def test_the_first_start_makes_the_owner_and_one_key(tmp_path: Path) -> None:
    async def started() -> str | None:
        async with run_services(ServerConfig(data=tmp_path), {}) as services:
            key = await create_first_key(services)
            assert await create_first_key(services) is None
            caller = await services.store.check_key(key or "", services.clock.now())
            assert caller is not None
            assert (caller.user.role, caller.key.scope) == ("owner", "full")
        return key

    async def again() -> str | None:
        async with run_services(ServerConfig(data=tmp_path), {}) as services:
            return await create_first_key(services)

    assert (asyncio.run(started()) or "").startswith("sk-ot-v1-")
    assert asyncio.run(again()) is None


def test_two_servers_do_not_share_a_folder(tmp_path: Path) -> None:
    async def both() -> None:
        async with run_services(ServerConfig(data=tmp_path), {}):
            with pytest.raises(StoreError, match="another server uses this data folder"):
                async with run_services(ServerConfig(data=tmp_path), {}):
                    pass

    asyncio.run(both())


def test_what_was_written_is_there_after_a_restart(tmp_path: Path) -> None:
    async def begun() -> tuple[str, str]:
        async with run_services(ServerConfig(data=tmp_path), {}) as services:
            await create_first_key(services)
            owner = (await services.store.users())[0].id
            written = await services.journal.create(owner, {"intent": "Mend the build"})
            return owner, written.entries[0].session_id

    async def found(owner: str, session_id: str) -> str:
        async with run_services(ServerConfig(data=tmp_path), {}) as services:
            return (await services.journal.state(owner, session_id)).session.intent

    assert asyncio.run(found(*asyncio.run(begun()))) == "Mend the build"
