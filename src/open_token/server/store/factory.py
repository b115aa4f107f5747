"""Open the store of a server: SQLite in the data folder, or the database of a URL."""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from open_token.errors import StoreError
from open_token.server.store.interface import Store
from open_token.server.store.rows import KeyRow, Scope, User
from open_token.server.store.sqlite.store import open_sqlite
from open_token.server.store.sqlite.user_admin import UserAdmin

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
        help="pip install 'open-token-cli[server]', or in a checkout: scripts/setup server",
        code="store.driver",
    )


class SharedUserAdmin(UserAdmin):
    """The users and keys of a database, through the store of a server."""

    def __init__(self, store: Store, runner: asyncio.Runner) -> None:
        self._store = store
        self._run = runner.run

    def users(self) -> list[User]:
        """Return all users, the owner first."""
        return self._run(self._store.users())

    def add_user(self, user: User) -> User:
        """Add a user; names are unique."""
        return self._run(self._store.add_user(user))

    def disable_user(self, user_id: str, at: str | None) -> bool:
        """Disable a user, or enable it again (None); the owner cannot be disabled."""
        return self._run(self._store.disable_user(user_id, at))

    def keys(self, user_id: str) -> list[KeyRow]:
        """Return the valid keys of a user."""
        return self._run(self._store.keys(user_id))

    def add_key(self, user_id: str, name: str, scope: Scope, at: str) -> tuple[KeyRow, str]:
        """Create a key; its plain text is only returned here."""
        return self._run(self._store.add_key(user_id, name, scope, at))

    def revoke_key(self, user_id: str, key_id: str, at: str) -> bool:
        """Revoke a key."""
        return self._run(self._store.revoke_key(user_id, key_id, at))


@contextlib.contextmanager
def open_shared_user_admin(folder: Path, database: str) -> Iterator[UserAdmin]:
    """Open the users and keys of a database; the data folder holds the pepper."""
    with asyncio.Runner() as runner:
        store = runner.run(open_store(folder, database))
        try:
            yield SharedUserAdmin(store, runner)
        finally:
            runner.run(store.close())
