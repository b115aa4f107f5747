"""Users and keys of a data folder, changed from the command line while a server may be running on
it."""

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from open_token.errors import StoreError
from open_token.server.store import _people, tokens
from open_token.server.store._database import DATABASE, PEPPER
from open_token.server.store._faults import damaged, explained
from open_token.server.store._schema import MIGRATIONS
from open_token.server.store.rows import KeyRow, Scope, User
from open_token.storage.files import read_optional

P = ParamSpec("P")
T = TypeVar("T")
_WAIT_SECONDS = 10.0


class People:
    """The part of a store that tells who may come in; each call is one transaction of its own."""

    def __init__(self, db: sqlite3.Connection, pepper: bytes) -> None:
        self._db = db
        self._pepper = pepper

    def users(self) -> list[User]:
        """Everybody, the owner first."""
        return _people.users(self._db)

    def add_user(self, user: User) -> User:
        """Enter a user; no name twice."""
        return self._write(_people.add_user, user)

    def disable_user(self, user_id: str, at: str | None) -> bool:
        """Lock a user out, or let them in again (None); the owner stays."""
        return self._write(_people.disable_user, user_id, at)

    def keys(self, user_id: str) -> list[KeyRow]:
        """The keys of a user that can be used."""
        return _people.keys(self._db, user_id)

    def add_key(self, user_id: str, name: str, scope: Scope, at: str) -> tuple[KeyRow, str]:
        """Make a key; its plain text is told here and never again."""
        key, plaintext = _people.new_key(user_id, name, scope, at)
        self._write(_people.add_key, key, tokens.digest(self._pepper, plaintext))
        return key, plaintext

    def revoke_key(self, user_id: str, key_id: str, at: str) -> bool:
        """End a key at once."""
        return self._write(_people.revoke_key, user_id, key_id, at)

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
def people_of(folder: Path) -> Iterator[People]:
    """The people of a data folder that a server has made."""
    if not (folder / DATABASE).is_file():
        raise StoreError(
            "there are no data of a server",
            where=str(folder),
            help="`open-token serve` makes them",
            code="store.none",
        )
    pepper = read_optional(folder / PEPPER)
    if pepper is None:
        raise damaged(f"the file {PEPPER} is missing: no key could be checked", folder)
    try:
        with contextlib.closing(_connected(folder)) as db:
            yield People(db, pepper)
    except sqlite3.Error as problem:
        raise explained(problem, folder) from None


def _connected(folder: Path) -> sqlite3.Connection:
    db = sqlite3.connect(folder / DATABASE, timeout=_WAIT_SECONDS, isolation_level=None)
    db.execute("PRAGMA foreign_keys = ON")
    if db.execute("PRAGMA user_version").fetchone()[0] != len(MIGRATIONS):
        db.close()
        raise StoreError(
            "the data are of another version than this program",
            where=str(folder),
            help="start the server of this version once; it brings them up to date",
            code="store.version",
        )
    return db
