"""Users and their API keys; of a key only a digest is here."""

import hmac
import sqlite3
from datetime import datetime, timedelta
from typing import Any

from open_token.server.store import tokens
from open_token.server.store._faults import Conflict, Missing, name_taken
from open_token.server.store.rows import Caller, KeyRow, Scope, User

_PERSON = "users.id, users.name, role, users.created_at, disabled_at, body"
_USER = f"SELECT {_PERSON} FROM users"
_KEY = "api_keys.id, user_id, api_keys.name, scope, last4, api_keys.created_at, last_used_at, revoked_at"
_FIND_KEY = f"""
    SELECT digest, {_PERSON}, {_KEY} FROM api_keys JOIN users ON users.id = user_id
    WHERE api_keys.id = ? AND revoked_at IS NULL AND disabled_at IS NULL
"""
_OF_USER = 1 + len(User.__struct_fields__)
_USED_AGAIN = timedelta(minutes=1)


def add_user(db: sqlite3.Connection, user: User) -> User:
    """Enter a user; there is one owner, and no name twice."""
    if user.role == "owner" and db.execute("SELECT 1 FROM users WHERE role = 'owner'").fetchone():
        raise Conflict("the server has its owner already")
    if db.execute("SELECT 1 FROM users WHERE id = ? OR name = ?", (user.id, user.name)).fetchone():
        raise name_taken()
    db.execute(
        "INSERT INTO users (id, name, role, created_at, disabled_at, body) VALUES (?, ?, ?, ?, ?, ?)",
        (user.id, user.name, user.role, user.created_at, user.disabled_at, user.body),
    )
    return user


def users(db: sqlite3.Connection) -> list[User]:
    """Everybody, the owner first."""
    return [_user(row) for row in db.execute(f"{_USER} ORDER BY role, number")]


def user(db: sqlite3.Connection, user_id: str) -> User | None:
    """The user of an id."""
    row = db.execute(f"{_USER} WHERE id = ?", (user_id,)).fetchone()
    return row and _user(row)


def disable_user(db: sqlite3.Connection, user_id: str, at: str | None) -> bool:
    """Lock a user out from now on, or let them in again (None); the owner stays. False when there
    is none."""
    changed = db.execute(
        "UPDATE users SET disabled_at = ? WHERE id = ? AND role <> 'owner'", (at, user_id)
    )
    return changed.rowcount == 1


def delete_user(db: sqlite3.Connection, user_id: str) -> bool:
    """Take a user away who has no session; the owner stays."""
    found = user(db, user_id)
    if found is None or found.role == "owner":
        return False
    if db.execute("SELECT 1 FROM sessions WHERE owner = ? LIMIT 1", (user_id,)).fetchone():
        raise Conflict("the user has sessions; lock the user out instead")
    db.execute(
        "DELETE FROM memory_words WHERE rowid IN (SELECT id FROM memories WHERE user_id = ?)",
        (user_id,),
    )
    db.execute("DELETE FROM users WHERE id = ?", (user_id,))
    return True


def add_key(db: sqlite3.Connection, key: KeyRow, digest: bytes) -> KeyRow:
    """Enter a key of a user."""
    if user(db, key.user_id) is None:
        raise Missing("user")
    db.execute(
        "INSERT INTO api_keys (id, user_id, name, digest, last4, scope, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (key.id, key.user_id, key.name, digest, key.masked[-4:], key.scope, key.created_at),
    )
    return key


def keys(db: sqlite3.Connection, user_id: str) -> list[KeyRow]:
    """The keys of a user that were not revoked, oldest first."""
    rows = db.execute(
        f"SELECT {_KEY} FROM api_keys WHERE user_id = ? AND revoked_at IS NULL ORDER BY created_at, rowid",
        (user_id,),
    )
    return [_key(row) for row in rows]


def rename_key(db: sqlite3.Connection, user_id: str, key_id: str, name: str) -> KeyRow | None:
    """Give a key another name."""
    row = db.execute(
        f"UPDATE api_keys SET name = ? WHERE id = ? AND user_id = ? AND revoked_at IS NULL RETURNING {_KEY}",
        (name, key_id, user_id),
    ).fetchone()
    return row and _key(row)


def revoke_key(db: sqlite3.Connection, user_id: str, key_id: str, at: str) -> bool:
    """End a key at once; False when the user has no such key."""
    changed = db.execute(
        "UPDATE api_keys SET revoked_at = ? WHERE id = ? AND user_id = ? AND revoked_at IS NULL",
        (at, key_id, user_id),
    )
    return changed.rowcount == 1


def find_key(db: sqlite3.Connection, key_id: str, digest: bytes) -> Caller | None:
    """Whose key that is, if it is one and may be used."""
    row = db.execute(_FIND_KEY, (key_id,)).fetchone()
    if row is None or not hmac.compare_digest(row[0], digest):
        return None
    return Caller(user=_user(row[1:_OF_USER]), key=_key(row[_OF_USER:]))


def touch_key(db: sqlite3.Connection, key_id: str, at: str) -> None:
    """Write down that a key was used."""
    db.execute("UPDATE api_keys SET last_used_at = ? WHERE id = ?", (at, key_id))


def is_worth_a_note(key: KeyRow, at: str) -> bool:
    """Was a key not used for a minute? One note a minute is enough."""
    if key.last_used_at is None:
        return True
    return datetime.fromisoformat(at) - datetime.fromisoformat(key.last_used_at) >= _USED_AGAIN


def new_key(user_id: str, name: str, scope: Scope, at: str) -> tuple[KeyRow, str]:
    """A key to be entered, and its plain text."""
    key_id, plaintext = tokens.new_key()
    masked = tokens.masked(plaintext[-4:])
    return KeyRow(
        id=key_id, user_id=user_id, name=name, scope=scope, masked=masked, created_at=at
    ), plaintext


def _user(row: tuple[Any, ...]) -> User:
    return User(**dict(zip(User.__struct_fields__, row, strict=True)))


def _key(row: tuple[Any, ...]) -> KeyRow:
    values = dict(zip(KeyRow.__struct_fields__, row, strict=True))
    return KeyRow(**values | {"masked": tokens.masked(values["masked"])})
