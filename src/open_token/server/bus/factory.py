"""Open the bus of a server: Redis if it has a URL, else the shared database, else in-process."""

from open_token.errors import StoreError
from open_token.server.bus.interface import Bus
from open_token.server.bus.local import LocalBus
from open_token.server.bus.remote import Heads


def create_bus(heads: Heads, database: str | None = None, redis: str | None = None) -> Bus:
    """Open the bus of a node; drivers are only imported when they are needed."""
    if redis is not None:
        return _open_redis(redis, heads)
    if database is not None:
        return _open_postgres(database, heads)
    return LocalBus()


def _open_redis(url: str, heads: Heads) -> Bus:
    try:
        from open_token.server.bus.redis import open_bus
    except ModuleNotFoundError as problem:
        raise _build_driver_error(problem, "redis") from None
    return open_bus(url, heads)


def _open_postgres(url: str, heads: Heads) -> Bus:
    try:
        from open_token.server.bus.postgres import open_bus
    except ModuleNotFoundError as problem:
        raise _build_driver_error(problem, "postgres") from None
    return open_bus(url, heads)


def _build_driver_error(problem: ModuleNotFoundError, extra: str) -> StoreError:
    return StoreError(
        f"the package {problem.name} is not installed",
        help=f"pip install 'open-token[{extra}]', or in a checkout: scripts/setup server {extra}",
        code="store.driver",
    )
