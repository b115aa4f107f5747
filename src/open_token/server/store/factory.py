"""Open the store of a server: SQLite in the data folder, or the database of a URL."""

from pathlib import Path
from types import ModuleType

from open_token.errors import StoreError
from open_token.server.store.interface import Store
from open_token.server.store.sqlite.store import open_sqlite

_SCHEMES = ("postgresql", "postgres")


async def open_store(folder: Path, database: str | None = None) -> Store:
    """Open and connect the store of a server; an unreachable database is an error at once."""
    if database is None:
        return open_sqlite(folder)
    scheme = database.partition("://")[0]
    if scheme not in _SCHEMES:
        raise StoreError(
            "unsupported database URL",
            help="use a URL such as postgresql://user@host:5432/name",
            code="store.open",
        )
    store = _open_postgres(database, folder)
    try:
        # Any query connects and migrates the tables.
        await store.setting("store.pepper")
    except BaseException:
        await store.close()
        raise
    return store


def _open_postgres(url: str, folder: Path) -> Store:
    try:
        from open_token.server.store.postgres.store import open_postgres
    except ModuleNotFoundError as problem:
        raise _build_driver_error(problem) from None
    return open_postgres(url, folder)


def load_migration() -> ModuleType:
    """Load the module that migrates data between stores; it needs the PostgreSQL driver."""
    try:
        from open_token.server.store import migration
    except ModuleNotFoundError as problem:
        raise _build_driver_error(problem) from None
    return migration


def _build_driver_error(problem: ModuleNotFoundError) -> StoreError:
    return StoreError(
        f"the package {problem.name} is not installed",
        help="pip install 'open-token[postgres]', or in a checkout: scripts/setup server postgres",
        code="store.driver",
    )
