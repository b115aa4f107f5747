"""Which store a server has: the data folder's own, or the database that an address names, loaded
when it is needed."""

import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from open_token.errors import StoreError
from open_token.server.store.interface import Store
from open_token.server.store.sqlite import open_sqlite

DRIVERS = {
    "postgresql": "open_token.server.store.postgres",
    "postgres": "open_token.server.store.postgres",
}

MOVER = "open_token.server.store.moving"


async def open_store(folder: Path, database: str | None = None) -> Store:
    """The store of a server, connected; a database that cannot be reached or read is said at
    once."""
    if database is None:
        return open_sqlite(folder)
    scheme = database.partition("://")[0]
    if scheme not in DRIVERS:
        raise StoreError(
            "the address of the database is of no kind that is known",
            help="it reads as in postgresql://user@host:5432/name",
            code="store.open",
        )
    store = _opener(DRIVERS[scheme])(database, folder)
    try:
        await store.setting("store.pepper")
    except BaseException:
        await store.close()
        raise
    return store


def mover() -> ModuleType:
    """What moves data from one store to the other, loaded when it is needed."""
    return _loaded(MOVER)


def _opener(module: str) -> Callable[[str, Path], Store]:
    opener: Callable[[str, Path], Store] = _loaded(module).open_postgres
    return opener


def _loaded(module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as problem:
        raise StoreError(
            f"the package {problem.name} is not installed",
            help="pip install 'open-token[postgres]', or in a checkout: scripts/setup server postgres",
            code="store.driver",
        ) from None
