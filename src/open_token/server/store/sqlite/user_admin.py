"""Manage users and keys of a data folder from the command line, also while a server runs on it."""

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from open_token.errors import StoreError
from open_token.server.store import tokens
from open_token.server.store.errors import damaged_error, translate_error
from open_token.server.store.rows import KeyRow, Scope, User
from open_token.server.store.sqlite import users
from open_token.server.store.sqlite.database import DATABASE, PEPPER
from open_token.server.store.sqlite.schema import MIGRATIONS
from open_token.storage.files import read_optional

P = ParamSpec("P")
T = TypeVar("T")
_WAIT_SECONDS = 10.0


class UserAdmin:
    """The users and keys of a store; each call is one transaction."""

    def __init__(self, db: sqlite3.Connection, pepper: bytes) -> None:
        self._db = db
        self._pepper = pepper

    def users(self) -> list[User]:
        """Return all users, the owner first."""
        return users.list_users(self._db)

    def add_user(self, user: User) -> User:
        """Add a user; names are unique."""
        return self._write(users.add_user, user)

    def disable_user(self, user_id: str, at: str | None) -> bool:
        """Disable a user, or enable it again (None); the owner cannot be disabled."""
        return self._write(users.disable_user, user_id, at)

    def keys(self, user_id: str) -> list[KeyRow]:
        """Return the valid keys of a user."""
        return users.list_keys(self._db, user_id)

    def add_key(self, user_id: str, name: str, scope: Scope, at: str) -> tuple[KeyRow, str]:
        """Create a key; its plain text is only returned here."""
        key, plaintext = users.build_key(user_id, name, scope, at)
        digest = tokens.hash_secret(self._pepper, plaintext)
        self._write(users.add_key, key, digest)
        return key, plaintext

    def revoke_key(self, user_id: str, key_id: str, at: str) -> bool:
        """Revoke a key."""
        return self._write(users.revoke_key, user_id, key_id, at)

    def _write(
        self,
        function: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            result = function(self._db, *args, **kwargs)
            self._db.execute("COMMIT")
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        return result


@contextlib.contextmanager
def open_user_admin(folder: Path) -> Iterator[UserAdmin]:
    """Open the users and keys of an existing data folder."""
    if not (folder / DATABASE).is_file():
        raise StoreError(
            "no server data found",
            where=str(folder),
            help="`open-token serve` creates them",
            code="store.none",
        )
    pepper = read_optional(folder / PEPPER)
    if pepper is None:
        raise damaged_error(f"the file {PEPPER} is missing, so keys cannot be checked", folder)
    try:
        with contextlib.closing(_connect(folder)) as db:
            yield UserAdmin(db, pepper)
    except sqlite3.Error as problem:
        raise translate_error(problem, folder) from None


def _connect(folder: Path) -> sqlite3.Connection:
    db = sqlite3.connect(folder / DATABASE, timeout=_WAIT_SECONDS, isolation_level=None)
    db.execute("PRAGMA foreign_keys = ON")
    if db.execute("PRAGMA user_version").fetchone()[0] != len(MIGRATIONS):
        db.close()
        raise StoreError(
            "the data have another version than this program",
            where=str(folder),
            help="start this version of the server once; it migrates the data",
            code="store.version",
        )
    return db
