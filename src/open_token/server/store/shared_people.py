"""Users and keys in a database that several nodes share, changed from the command line."""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

from open_token.server.store.beside import People
from open_token.server.store.choosing import open_store
from open_token.server.store.interface import Store
from open_token.server.store.rows import KeyRow, Scope, User


class SharedPeople(People):
    """The same calls, one after another, to the store of a server."""

    def __init__(self, store: Store, runner: asyncio.Runner) -> None:
        self._store = store
        self._run = runner.run

    def users(self) -> list[User]:
        """Everybody, the owner first."""
        return self._run(self._store.users())

    def add_user(self, user: User) -> User:
        """Enter a user; no name twice."""
        return self._run(self._store.add_user(user))

    def disable_user(self, user_id: str, at: str | None) -> bool:
        """Lock a user out, or let them in again (None); the owner stays."""
        return self._run(self._store.disable_user(user_id, at))

    def keys(self, user_id: str) -> list[KeyRow]:
        """The keys of a user that can be used."""
        return self._run(self._store.keys(user_id))

    def add_key(self, user_id: str, name: str, scope: Scope, at: str) -> tuple[KeyRow, str]:
        """Make a key; its plain text is told here and never again."""
        return self._run(self._store.add_key(user_id, name, scope, at))

    def revoke_key(self, user_id: str, key_id: str, at: str) -> bool:
        """End a key at once."""
        return self._run(self._store.revoke_key(user_id, key_id, at))


@contextlib.contextmanager
def shared_people(folder: Path, database: str) -> Iterator[People]:
    """The people of a database; the data folder holds the pepper of their keys."""
    with asyncio.Runner() as runner:
        store = runner.run(open_store(folder, database))
        try:
            yield SharedPeople(store, runner)
        finally:
            runner.run(store.close())
