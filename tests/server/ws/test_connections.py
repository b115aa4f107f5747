"""Who may connect, how often, and who is sent away."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.server.live_events import ANNA, AT, BEN, create_key, run, run_services_in
from open_token.server.core.services import Services
from open_token.server.errors import ApiError
from open_token.server.store.rows import Caller
from open_token.server.ws import connections


async def caller(services: Services, user: str = ANNA) -> Caller:
    found = await services.store.check_key(await create_key(services, user), AT)
    assert found
    return found


def test_so_many_connections_and_no_more(tmp_path: Path) -> None:
    async def test() -> None:
        async with run_services_in(tmp_path, connections_per_user=2) as services:
            anna, ben = await caller(services), await caller(services, BEN)
            enter = services.connections.add
            first = enter(anna, lambda problem: None)
            enter(anna, lambda problem: None)
            with pytest.raises(ApiError) as caught:
                enter(anna, lambda problem: None)
            assert (caught.value.status, caught.value.code) == (429, "too_many_connections")
            enter(ben, lambda problem: None)
            services.connections.remove(first)
            enter(anna, lambda problem: None)
            assert services.connections.count() == 3

    run(test())


def test_so_many_events_in_a_minute(tmp_path: Path) -> None:
    async def test() -> None:
        async with run_services_in(tmp_path, events_per_minute=3) as services:
            anna = await caller(services)
            guests = [services.connections.add(anna, lambda problem: None) for _ in range(2)]
            other = services.connections.add(await caller(services, BEN), lambda problem: None)
            for guest in (guests[0], guests[1], guests[0]):
                services.connections.count_event(guest)
            with pytest.raises(ApiError) as caught:
                services.connections.count_event(guests[1])
            assert caught.value.code == "rate_limited"
            services.connections.count_event(other)

    run(test())


@pytest.mark.parametrize("how", ["revoked", "disabled", "looked"])
def test_whose_key_ends_is_sent_away_and_others_stay(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how != "looked":
        monkeypatch.setattr(connections, "_CHECK_SECONDS", 3600)

    async def test() -> None:
        async with run_services_in(tmp_path) as services:
            sent: list[tuple[str, str]] = []
            gone = asyncio.Event()

            def dismiss(name: str) -> Callable[[ApiError], None]:
                def note(problem: ApiError) -> None:
                    sent.append((name, problem.code))
                    gone.set()

                return note

            ben, other = await caller(services, BEN), await caller(services, BEN)
            services.connections.add(ben, dismiss("ben"))
            services.connections.add(await caller(services), dismiss("anna"))
            stays = services.connections.add(other, dismiss("other"))
            if how == "disabled":
                services.connections.remove(stays)
                await services.store.disable_user(BEN, AT)
            else:
                await services.store.revoke_key(BEN, ben.key.id, AT)
            if how != "looked":
                services.connections.recheck()
            await gone.wait()
            assert set(sent) == {("ben", "unauthorized")}
            monkeypatch.setattr(connections, "_CHECK_SECONDS", 3600)
            sent.clear()
        assert {name for name, code in sent if code == "stopping"} >= {"anna"}

    run(test())
