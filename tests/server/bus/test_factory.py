"""Which bus an address means."""

import sys

import pytest

from helpers.server.buses import Heads
from open_token.errors import StoreError
from open_token.server.bus.local import LocalBus
from open_token.server.bus.postgres import PostgresLink
from open_token.server.bus.redis import RedisLink
from open_token.server.bus.remote import RemoteBus
from open_token.server.lifecycle import create_bus


def test_redis_before_the_database_before_the_process() -> None:
    heads = Heads()
    assert isinstance(create_bus(heads), LocalBus)
    for kind, bus in (
        (PostgresLink, create_bus(heads, "postgresql://h/x")),
        (RedisLink, create_bus(heads, "postgresql://h/x", "redis://h")),
        (RedisLink, create_bus(heads, None, "redis://h")),
    ):
        assert isinstance(bus, RemoteBus)
        assert isinstance(bus._link, kind)


def test_a_driver_that_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    monkeypatch.delitem(sys.modules, "open_token.server.bus.redis")
    with pytest.raises(StoreError) as caught:
        create_bus(Heads(), redis="redis://h")
    assert caught.value.code == "store.driver"
