"""Which bus an address means."""

import pytest

from buses import Heads
from open_token.errors import StoreError
from open_token.server.bus import choosing
from open_token.server.bus.choosing import bus_for
from open_token.server.bus.local import LocalBus
from open_token.server.bus.postgres import PostgresLink
from open_token.server.bus.redis import RedisLink
from open_token.server.bus.remote import RemoteBus


def test_redis_before_the_database_before_the_process() -> None:
    heads = Heads()
    assert isinstance(bus_for(heads), LocalBus)
    for kind, bus in (
        (PostgresLink, bus_for(heads, "postgresql://h/x")),
        (RedisLink, bus_for(heads, "postgresql://h/x", "redis://h")),
        (RedisLink, bus_for(heads, None, "redis://h")),
    ):
        assert isinstance(bus, RemoteBus)
        assert isinstance(bus._link, kind)


def test_a_driver_that_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(choosing.DRIVERS, "redis", "no_such_module")
    with pytest.raises(StoreError) as caught:
        bus_for(Heads(), redis="redis://h")
    assert caught.value.code == "store.driver"
