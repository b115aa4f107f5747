"""Which store a server has: the data folder's own, or the database that an address names, loaded when it is needed."""

import importlib
from collections.abc import Callable
from pathlib import Path

from open_token.errors import StoreError
from open_token.server.store.interface import Store
from open_token.server.store.sqlite import open_sqlite

DRIVERS = {"postgresql": "open_token.server.store.postgres", "postgres": "open_token.server.store.postgres"}


async def open_store(folder: Path, database: str | None = None) -> Store:
    """The store of a server, connected; a database that cannot be reached or read is said at once."""
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


def _opener(module: str) -> Callable[[str, Path], Store]:
    try:
        opener: Callable[[str, Path], Store] = importlib.import_module(module).open_postgres
    except ModuleNotFoundError as problem:
        raise StoreError(
            f"the package {problem.name} is not installed", help="install open-token[postgres]", code="store.driver"
        ) from None
    return opener
