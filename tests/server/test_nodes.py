"""Whole servers that share a database: any node serves any session, and each hears what the others
write."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from helpers.server.buses import Received, wait_until_connected, wait_until_followed
from helpers.server.local_services import redis_url
from helpers.server.stores import new_postgres
from open_token.model.session_types import ContentBlock
from open_token.server.clock import Clock
from open_token.server.config import ServerConfig
from open_token.server.core import runs
from open_token.server.lifecycle import create_first_key, run_services
from open_token.session.actions import send_user_message


@pytest.mark.full
@pytest.mark.parametrize("has_redis", [False, True])
def test_two_nodes_write_and_hear_of_one_session(tmp_path: Path, has_redis: bool) -> None:
    config = ServerConfig(
        data=tmp_path / "data", database=new_postgres(), redis=redis_url() if has_redis else None
    )

    async def whole() -> None:
        async with run_services(config, {}) as one, run_services(config, {}) as other:
            keys = await asyncio.gather(create_first_key(one), create_first_key(other))
            (key,) = [key for key in keys if key is not None]
            caller = await other.store.check_key(key, other.clock.now())
            assert caller is not None
            owner = caller.user.id
            await wait_until_connected(one.bus, other.bus)
            await one.journal.create(owner, {"id": "sess_1", "intent": "Shared"})
            heard = Received()
            other.bus.listen("sess_1", heard)
            await wait_until_followed(other.bus, "sess_1")
            for number in range(10):
                node = (one, other)[number % 2]
                said = send_user_message(
                    f"turn_{number}", [ContentBlock(type="text", content=f"words {number}")]
                )
                written = await node.journal.write(owner, "sess_1", lambda _, said=said: said)
                await heard.until(written.last)
            states = [await node.journal.state(owner, "sess_1") for node in (one, other)]
            assert [list(state.turns) for state in states] == [
                [f"turn_{number}" for number in range(10)]
            ] * 2
            assert (await one.store.sessions(owner, "words 7")).total == 1

    asyncio.run(whole())


@pytest.mark.full
@pytest.mark.parametrize("has_redis", [False, True])
def test_a_worker_is_reported_of_the_runs_of_a_gateway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_redis: bool
) -> None:
    monkeypatch.setattr(runs, "_POLL", 3600.0)
    config = ServerConfig(
        data=tmp_path / "data", database=new_postgres(), redis=redis_url() if has_redis else None
    )
    gateway, worker = (msgspec.structs.replace(config, role=role) for role in ("gateway", "worker"))

    async def whole() -> None:
        async with (
            run_services(gateway, {}) as one,
            run_services(worker, {"OPEN_TOKEN_DEMO_DELAY": "0"}) as other,
        ):
            caller = await one.store.check_key(await create_first_key(one) or "", one.clock.now())
            assert caller is not None
            await wait_until_connected(one.bus, other.bus)
            await wait_until_followed(other.bus._bus, runs.WAKE_CHANNEL)  # type: ignore[attr-defined]
            for number in range(3):
                written = await one.journal.create(caller.user.id, {})
                name = written.entries[0].session_id
                ack = await one.chat.send(
                    caller, {"session_id": name, "message": f"hello {number}"}
                )
                await asyncio.wait_for(
                    one.chat.wait_for_run_end(caller.user.id, name, ack["chat_run_id"]), 60
                )

    asyncio.run(whole())


@pytest.mark.full
@pytest.mark.parametrize("hours", [2, -2])
def test_a_node_whose_clock_is_wrong_leaves_the_runs_of_others_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    monkeypatch.setattr(runs, "LEASE", 3600.0)
    config = ServerConfig(data=tmp_path / "data", database=new_postgres(), role="gateway")
    wrong = Clock(lambda: datetime.now(UTC) + timedelta(hours=hours))

    async def whole() -> None:
        async with run_services(config, {}) as one, run_services(config, {}, wrong) as other:
            caller = await one.store.check_key(await create_first_key(one) or "", one.clock.now())
            assert caller is not None
            written = await one.journal.create(caller.user.id, {})
            await one.chat.send(
                caller, {"session_id": written.entries[0].session_id, "message": "hello"}
            )
            assert await one.store.claim_run("worker", *await one.runner._next_lease())
            assert await other.store.claim_run("another", *await other.runner._next_lease()) is None

    asyncio.run(whole())


@pytest.mark.full
def test_both_nodes_writing_at_once_lose_nothing(tmp_path: Path) -> None:
    config = ServerConfig(data=tmp_path / "data", database=new_postgres())

    async def whole() -> None:
        async with run_services(config, {}) as one, run_services(config, {}) as other:
            await create_first_key(one)
            owner = (await one.store.users())[0].id
            await one.journal.create(owner, {"id": "sess_1"})

            async def say(number: int) -> None:
                said = send_user_message(f"turn_{number}", [ContentBlock(type="text", content="x")])
                await (one, other)[number % 2].journal.write(owner, "sess_1", lambda _: said)

            await asyncio.gather(*(say(number) for number in range(20)))
            log = await one.store.read_log(owner, "sess_1", 0, 1000)
            assert [entry.seq for entry in log] == list(range(1, len(log) + 1))
            state = await other.journal.state(owner, "sess_1")
            assert set(state.turns) == {f"turn_{number}" for number in range(20)}

    asyncio.run(whole())
