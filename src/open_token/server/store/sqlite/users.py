"""Users and their API keys in SQLite; keys are stored as hashes."""

import hmac
import sqlite3
from datetime import datetime, timedelta
from typing import Any

from open_token.server.store import tokens
from open_token.server.store.errors import ConflictError, NotFoundError, name_taken_error
from open_token.server.store.rows import Caller, KeyRow, Scope, User

_USER_COLUMNS = "users.id, users.name, role, users.created_at, disabled_at, body"
_SELECT_USER = f"SELECT {_USER_COLUMNS} FROM users"
_KEY_COLUMNS = (
    "api_keys.id, user_id, api_keys.name, scope, last4, api_keys.created_at, last_used_at, "
    "revoked_at"
)
_FIND_KEY = f"""
    SELECT digest, {_USER_COLUMNS}, {_KEY_COLUMNS} FROM api_keys JOIN users ON users.id = user_id
    WHERE api_keys.id = ? AND revoked_at IS NULL AND disabled_at IS NULL
"""
_FIRST_KEY_COLUMN = 1 + len(User.__struct_fields__)
_USE_INTERVAL = timedelta(minutes=1)


def add_user(db: sqlite3.Connection, user: User) -> User:
    """Add a user; there is one owner, and names are unique."""
    if user.role == "owner" and db.execute("SELECT 1 FROM users WHERE role = 'owner'").fetchone():
        raise ConflictError("the server already has an owner")
    if db.execute("SELECT 1 FROM users WHERE id = ? OR name = ?", (user.id, user.name)).fetchone():
        raise name_taken_error()
    db.execute(
        """INSERT INTO users (id, name, role, created_at, disabled_at, body)
        VALUES (?, ?, ?, ?, ?, ?)""",
        (user.id, user.name, user.role, user.created_at, user.disabled_at, user.body),
    )
    return user


def list_users(db: sqlite3.Connection) -> list[User]:
    """Return all users, the owner first."""
    return [_to_user(row) for row in db.execute(f"{_SELECT_USER} ORDER BY role, number")]


def get_user(db: sqlite3.Connection, user_id: str) -> User | None:
    """Return a user."""
    row = db.execute(f"{_SELECT_USER} WHERE id = ?", (user_id,)).fetchone()
    return None if row is None else _to_user(row)


def disable_user(db: sqlite3.Connection, user_id: str, at: str | None) -> bool:
    """Disable a user, or enable it again (None); return whether it exists and is not the owner."""
    changed = db.execute(
        "UPDATE users SET disabled_at = ? WHERE id = ? AND role <> 'owner'", (at, user_id)
    )
    return changed.rowcount == 1


def delete_user(db: sqlite3.Connection, user_id: str) -> bool:
    """Delete a user without sessions; the owner cannot be deleted."""
    user = get_user(db, user_id)
    if user is None or user.role == "owner":
        return False
    if db.execute("SELECT 1 FROM sessions WHERE owner = ? LIMIT 1", (user_id,)).fetchone():
        raise ConflictError("the user has sessions; disable the user instead")
    db.execute(
        "DELETE FROM memory_words WHERE rowid IN (SELECT id FROM memories WHERE user_id = ?)",
        (user_id,),
    )
    db.execute("DELETE FROM users WHERE id = ?", (user_id,))
    return True


def add_key(db: sqlite3.Connection, key: KeyRow, digest: bytes) -> KeyRow:
    """Add a key of a user."""
    if get_user(db, key.user_id) is None:
        raise NotFoundError("user")
    db.execute(
        """INSERT INTO api_keys (id, user_id, name, digest, last4, scope, created_at)
        VALUES (?, ?, ?, ?, ?, ?, ?)""",
        (key.id, key.user_id, key.name, digest, key.masked[-4:], key.scope, key.created_at),
    )
    return key


def list_keys(db: sqlite3.Connection, user_id: str) -> list[KeyRow]:
    """Return the keys of a user that were not revoked, oldest first."""
    rows = db.execute(
        f"""SELECT {_KEY_COLUMNS} FROM api_keys WHERE user_id = ? AND revoked_at IS NULL
        ORDER BY created_at, rowid""",
        (user_id,),
    )
    return [_to_key(row) for row in rows]


def rename_key(db: sqlite3.Connection, user_id: str, key_id: str, name: str) -> KeyRow | None:
    """Rename a key."""
    row = db.execute(
        f"""UPDATE api_keys SET name = ?
        WHERE id = ? AND user_id = ? AND revoked_at IS NULL RETURNING {_KEY_COLUMNS}""",
        (name, key_id, user_id),
    ).fetchone()
    return None if row is None else _to_key(row)


def revoke_key(db: sqlite3.Connection, user_id: str, key_id: str, at: str) -> bool:
    """Revoke a key; False when the user has no such key."""
    changed = db.execute(
        "UPDATE api_keys SET revoked_at = ? WHERE id = ? AND user_id = ? AND revoked_at IS NULL",
        (at, key_id, user_id),
    )
    return changed.rowcount == 1


def find_key(db: sqlite3.Connection, key_id: str, digest: bytes) -> Caller | None:
    """Return the user and key of a valid API key."""
    row = db.execute(_FIND_KEY, (key_id,)).fetchone()
    # Compared in constant time, and therefore not in SQL: a client could measure how many bytes of
    # a guess are right.
    if row is None or not hmac.compare_digest(row[0], digest):
        return None
    user = _to_user(row[1:_FIRST_KEY_COLUMN])
    key = _to_key(row[_FIRST_KEY_COLUMN:])
    return Caller(user=user, key=key)


def record_key_use(db: sqlite3.Connection, key_id: str, at: str) -> None:
    """Record the use of a key."""
    db.execute("UPDATE api_keys SET last_used_at = ? WHERE id = ?", (at, key_id))


def should_record_use(key: KeyRow, at: str) -> bool:
    """Return whether the recorded use of a key is at least a minute old."""
    if key.last_used_at is None:
        return True
    elapsed = datetime.fromisoformat(at) - datetime.fromisoformat(key.last_used_at)
    return elapsed >= _USE_INTERVAL


def build_key(user_id: str, name: str, scope: Scope, at: str) -> tuple[KeyRow, str]:
    """Return a new key, and its plain text."""
    key_id, plaintext = tokens.generate_key()
    masked = tokens.mask_key(plaintext[-4:])
    key = KeyRow(id=key_id, user_id=user_id, name=name, scope=scope, masked=masked, created_at=at)
    return key, plaintext


def _to_user(row: tuple[Any, ...]) -> User:
    return User(**dict(zip(User.__struct_fields__, row, strict=True)))


def _to_key(row: tuple[Any, ...]) -> KeyRow:
    values = dict(zip(KeyRow.__struct_fields__, row, strict=True))
    values["masked"] = tokens.mask_key(values["masked"])
    return KeyRow(**values)
