"""Users, API keys, shares and settings in PostgreSQL; secrets are stored as hashes."""

import hmac

import asyncpg

from open_token.jsontools.objects import omit_keys
from open_token.server.store import tokens
from open_token.server.store.errors import ConflictError, NotFoundError, name_taken_error
from open_token.server.store.rows import Caller, KeyRow, Share, User

_SELECT_USER = f"SELECT {', '.join(User.__struct_fields__)} FROM users"
_KEY_COLUMNS = (
    "api_keys.id, user_id, api_keys.name, scope, last4 AS masked, api_keys.created_at, "
    "last_used_at, revoked_at"
)


async def add_user(db: asyncpg.Connection, user: User) -> User:
    """Add a user; there is one owner, and names are unique."""
    # Two nodes must not check at the same time.
    await db.execute("LOCK TABLE users IN SHARE ROW EXCLUSIVE MODE")
    if user.role == "owner" and await db.fetchval("SELECT 1 FROM users WHERE role = 'owner'"):
        raise ConflictError("the server already has an owner")
    if await db.fetchval("SELECT 1 FROM users WHERE id = $1 OR name = $2", user.id, user.name):
        raise name_taken_error()
    await db.execute(
        """INSERT INTO users (id, name, role, created_at, disabled_at, body)
        VALUES ($1, $2, $3, $4, $5, $6)""",
        *(user.id, user.name, user.role, user.created_at, user.disabled_at, user.body),
    )
    return user


async def list_users(db: asyncpg.Connection) -> list[User]:
    """Return all users, the owner first."""
    return [User(**dict(row)) for row in await db.fetch(f"{_SELECT_USER} ORDER BY role, number")]


async def get_user(db: asyncpg.Connection, user_id: str) -> User | None:
    """Return a user."""
    row = await db.fetchrow(f"{_SELECT_USER} WHERE id = $1", user_id)
    return row and User(**dict(row))


async def disable_user(db: asyncpg.Connection, user_id: str, at: str | None) -> bool:
    """Disable a user, or enable it again (None); return whether it exists and is not the owner."""
    changed = await db.execute(
        "UPDATE users SET disabled_at = $1 WHERE id = $2 AND role <> 'owner'", at, user_id
    )
    return bool(changed == "UPDATE 1")


async def delete_user(db: asyncpg.Connection, user_id: str) -> bool:
    """Delete a user without sessions; the owner cannot be deleted."""
    session_count = await db.fetchval(
        "SELECT sessions_held FROM users WHERE id = $1 AND role <> 'owner' FOR UPDATE", user_id
    )
    if session_count is None:
        return False
    if session_count:
        raise ConflictError("the user has sessions; disable the user instead")
    await db.execute("DELETE FROM users WHERE id = $1", user_id)
    return True


async def add_key(db: asyncpg.Connection, key: KeyRow, digest: bytes) -> KeyRow:
    """Add a key of a user."""
    if await get_user(db, key.user_id) is None:
        raise NotFoundError("user")
    await db.execute(
        """INSERT INTO api_keys (id, user_id, name, digest, last4, scope, created_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7)""",
        *(key.id, key.user_id, key.name, digest, key.masked[-4:], key.scope, key.created_at),
    )
    return key


async def list_keys(db: asyncpg.Connection, user_id: str) -> list[KeyRow]:
    """Return the keys of a user that were not revoked, oldest first."""
    rows = await db.fetch(
        f"""SELECT {_KEY_COLUMNS} FROM api_keys WHERE user_id = $1 AND revoked_at IS NULL
        ORDER BY created_at, entered""",
        user_id,
    )
    return [_to_key(row) for row in rows]


async def rename_key(db: asyncpg.Connection, user_id: str, key_id: str, name: str) -> KeyRow | None:
    """Rename a key."""
    row = await db.fetchrow(
        f"""UPDATE api_keys SET name = $1
        WHERE id = $2 AND user_id = $3 AND revoked_at IS NULL RETURNING {_KEY_COLUMNS}""",
        *(name, key_id, user_id),
    )
    return row and _to_key(row)


async def revoke_key(db: asyncpg.Connection, user_id: str, key_id: str, at: str) -> bool:
    """Revoke a key; False when the user has no such key."""
    changed = await db.execute(
        "UPDATE api_keys SET revoked_at = $1 WHERE id = $2 AND user_id = $3 AND revoked_at IS NULL",
        *(at, key_id, user_id),
    )
    return bool(changed == "UPDATE 1")


async def find_key(db: asyncpg.Connection, key_id: str, digest: bytes) -> Caller | None:
    """Return the user and key of a valid API key."""
    row = await db.fetchrow(
        f"""SELECT {_KEY_COLUMNS}, digest FROM api_keys JOIN users ON users.id = user_id
        WHERE api_keys.id = $1 AND revoked_at IS NULL AND disabled_at IS NULL""",
        key_id,
    )
    if row is None or not hmac.compare_digest(row["digest"], digest):
        return None
    key = _to_key(omit_keys(row, "digest"))
    user = await get_user(db, key.user_id)
    if user is None:
        return None
    return Caller(user=user, key=key)


async def record_key_use(db: asyncpg.Connection, key_id: str, at: str) -> None:
    """Record the use of a key."""
    await db.execute("UPDATE api_keys SET last_used_at = $1 WHERE id = $2", at, key_id)


async def add_share(db: asyncpg.Connection, share: Share, digest: bytes) -> None:
    """Share a session with the holder of a token."""
    number = await db.fetchval(
        "SELECT number FROM sessions WHERE id = $1 AND owner = $2", share.session_id, share.owner
    )
    if number is None:
        raise NotFoundError("session")
    await db.execute(
        """INSERT INTO shares (digest, session, created_at, expires_at, body)
        VALUES ($1, $2, $3, $4, $5)""",
        *(digest, number, share.created_at, share.expires_at, share.body),
    )


async def find_share(db: asyncpg.Connection, digest: bytes, now: str) -> Share | None:
    """Return the share of a token unless it has expired."""
    row = await db.fetchrow(
        """SELECT sessions.id AS session_id, owner, shares.created_at, expires_at, shares.body
        FROM shares JOIN sessions ON number = session
        WHERE digest = $1 AND (expires_at IS NULL OR expires_at > $2)""",
        *(digest, now),
    )
    return row and Share(**dict(row))


async def revoke_share(
    db: asyncpg.Connection, owner: str, session_id: str, digest: bytes | None
) -> int:
    """Revoke one share of a session, or (None) all of them; return the count."""
    changed = await db.execute(
        """DELETE FROM shares
        WHERE session = (SELECT number FROM sessions WHERE id = $1 AND owner = $2)
            AND ($3::bytea IS NULL OR digest = $3)""",
        *(session_id, owner, digest),
    )
    return int(changed.split()[-1])


async def get_setting(db: asyncpg.Connection, key: str) -> str | None:
    """Return a setting of the server."""
    value: str | None = await db.fetchval("SELECT value FROM settings WHERE key = $1", key)
    return value


async def set_setting(db: asyncpg.Connection, key: str, value: str | None) -> None:
    """Set a setting; None deletes it."""
    if value is None:
        await db.execute("DELETE FROM settings WHERE key = $1", key)
        return
    await db.execute(
        """INSERT INTO settings (key, value) VALUES ($1, $2)
        ON CONFLICT (key) DO UPDATE SET value = excluded.value""",
        *(key, value),
    )


async def replace_setting(
    db: asyncpg.Connection, key: str, old: str | None, new: str | None
) -> bool:
    """Replace a setting if its value is still the old one."""
    if old is None:
        if new is None:
            return await get_setting(db, key) is None
        tag = await db.execute(
            "INSERT INTO settings (key, value) VALUES ($1, $2) ON CONFLICT DO NOTHING", key, new
        )
    elif new is None:
        tag = await db.execute("DELETE FROM settings WHERE key = $1 AND value = $2", key, old)
    else:
        tag = await db.execute(
            "UPDATE settings SET value = $3 WHERE key = $1 AND value = $2", key, old, new
        )
    changed: bool = tag.endswith(" 1")
    return changed


async def list_settings(db: asyncpg.Connection, prefix: str, limit: int = 1000) -> dict[str, str]:
    """Return settings whose key starts with a prefix, in the order of their keys."""
    rows = await db.fetch(
        "SELECT key, value FROM settings WHERE starts_with(key, $1) ORDER BY key LIMIT $2",
        *(prefix, limit),
    )
    return {row["key"]: row["value"] for row in rows}


async def take_setting(db: asyncpg.Connection, key: str) -> str | None:
    """Delete a setting and return its value."""
    value: str | None = await db.fetchval(
        "DELETE FROM settings WHERE key = $1 RETURNING value", key
    )
    return value


def _to_key(row: "asyncpg.Record | dict[str, str]") -> KeyRow:
    values = dict(row)
    values["masked"] = tokens.mask_key(values["masked"])
    return KeyRow(**values)
