"""Which bus a server has: Redis if it has an address, else the database that nodes share, else its
own process."""

import importlib

from open_token.errors import StoreError
from open_token.server.bus.interface import Bus
from open_token.server.bus.local import LocalBus
from open_token.server.bus.remote import Heads

DRIVERS = {"redis": "open_token.server.bus.redis", "postgres": "open_token.server.bus.postgres"}


def bus_for(heads: Heads, database: str | None = None, redis: str | None = None) -> Bus:
    """The bus of a node; its driver is loaded when it is needed."""
    if redis is not None:
        return _driven("redis", redis, heads)
    return LocalBus() if database is None else _driven("postgres", database, heads)


def _driven(name: str, url: str, heads: Heads) -> Bus:
    try:
        bus: Bus = importlib.import_module(DRIVERS[name]).open_bus(url, heads)
    except ModuleNotFoundError as problem:
        raise StoreError(
            f"the package {problem.name} is not installed",
            help=f"pip install 'open-token[{name}]', or in a checkout: scripts/setup server {name}",
            code="store.driver",
        ) from None
    return bus
