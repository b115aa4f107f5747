"""Users, their API keys, shares and settings in PostgreSQL; of a secret only a digest is here."""

import hmac

import asyncpg

from open_token.server.store import tokens
from open_token.server.store._faults import Conflict, Missing, name_taken
from open_token.server.store.rows import Caller, KeyRow, Share, User

_USER = f"SELECT {', '.join(User.__struct_fields__)} FROM users"
_KEY = "api_keys.id, user_id, api_keys.name, scope, last4 AS masked, api_keys.created_at, last_used_at, revoked_at"


async def add_user(db: asyncpg.Connection, user: User) -> User:
    """Enter a user; there is one owner, and no name twice."""
    await db.execute(
        "LOCK TABLE users IN SHARE ROW EXCLUSIVE MODE"
    )  # of two nodes that look, one looks later
    if user.role == "owner" and await db.fetchval("SELECT 1 FROM users WHERE role = 'owner'"):
        raise Conflict("the server has its owner already")
    if await db.fetchval("SELECT 1 FROM users WHERE id = $1 OR name = $2", user.id, user.name):
        raise name_taken()
    await db.execute(
        "INSERT INTO users (id, name, role, created_at, disabled_at, body) VALUES ($1, $2, $3, $4, $5, $6)",
        *(user.id, user.name, user.role, user.created_at, user.disabled_at, user.body),
    )
    return user


async def users(db: asyncpg.Connection) -> list[User]:
    """Everybody, the owner first."""
    return [User(**dict(row)) for row in await db.fetch(f"{_USER} ORDER BY role, number")]


async def user(db: asyncpg.Connection, user_id: str) -> User | None:
    """The user of an id."""
    row = await db.fetchrow(f"{_USER} WHERE id = $1", user_id)
    return row and User(**dict(row))


async def disable_user(db: asyncpg.Connection, user_id: str, at: str | None) -> bool:
    """Lock a user out from now on, or let them in again (None); the owner stays. False when there
    is none."""
    changed = await db.execute(
        "UPDATE users SET disabled_at = $1 WHERE id = $2 AND role <> 'owner'", at, user_id
    )
    return bool(changed == "UPDATE 1")


async def delete_user(db: asyncpg.Connection, user_id: str) -> bool:
    """Take a user away who has no session; the owner stays."""
    held = await db.fetchval(
        "SELECT sessions_held FROM users WHERE id = $1 AND role <> 'owner' FOR UPDATE", user_id
    )
    if held is None:
        return False
    if held:
        raise Conflict("the user has sessions; lock the user out instead")
    await db.execute("DELETE FROM users WHERE id = $1", user_id)
    return True


async def add_key(db: asyncpg.Connection, key: KeyRow, digest: bytes) -> KeyRow:
    """Enter a key of a user."""
    if await user(db, key.user_id) is None:
        raise Missing("user")
    await db.execute(
        """INSERT INTO api_keys (id, user_id, name, digest, last4, scope, created_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7)""",
        *(key.id, key.user_id, key.name, digest, key.masked[-4:], key.scope, key.created_at),
    )
    return key


async def keys(db: asyncpg.Connection, user_id: str) -> list[KeyRow]:
    """The keys of a user that were not revoked, oldest first."""
    rows = await db.fetch(
        f"SELECT {_KEY} FROM api_keys WHERE user_id = $1 AND revoked_at IS NULL ORDER BY created_at, entered",
        user_id,
    )
    return [_key(row) for row in rows]


async def rename_key(db: asyncpg.Connection, user_id: str, key_id: str, name: str) -> KeyRow | None:
    """Give a key another name."""
    row = await db.fetchrow(
        f"UPDATE api_keys SET name = $1 WHERE id = $2 AND user_id = $3 AND revoked_at IS NULL RETURNING {_KEY}",
        *(name, key_id, user_id),
    )
    return row and _key(row)


async def revoke_key(db: asyncpg.Connection, user_id: str, key_id: str, at: str) -> bool:
    """End a key at once; False when the user has no such key."""
    changed = await db.execute(
        "UPDATE api_keys SET revoked_at = $1 WHERE id = $2 AND user_id = $3 AND revoked_at IS NULL",
        *(at, key_id, user_id),
    )
    return bool(changed == "UPDATE 1")


async def find_key(db: asyncpg.Connection, key_id: str, digest: bytes) -> Caller | None:
    """Whose key that is, if it is one and may be used."""
    row = await db.fetchrow(
        f"""SELECT {_KEY}, digest FROM api_keys JOIN users ON users.id = user_id
        WHERE api_keys.id = $1 AND revoked_at IS NULL AND disabled_at IS NULL""",
        key_id,
    )
    if row is None or not hmac.compare_digest(row["digest"], digest):
        return None
    key = _key({name: value for name, value in row.items() if name != "digest"})
    found = await user(db, key.user_id)
    return None if found is None else Caller(user=found, key=key)


async def touch_key(db: asyncpg.Connection, key_id: str, at: str) -> None:
    """Write down that a key was used."""
    await db.execute("UPDATE api_keys SET last_used_at = $1 WHERE id = $2", at, key_id)


async def add_share(db: asyncpg.Connection, share: Share, digest: bytes) -> None:
    """Open a session to a token."""
    number = await db.fetchval(
        "SELECT number FROM sessions WHERE id = $1 AND owner = $2", share.session_id, share.owner
    )
    if number is None:
        raise Missing("session")
    await db.execute(
        "INSERT INTO shares (digest, session, created_at, expires_at, body) VALUES ($1, $2, $3, $4, $5)",
        *(digest, number, share.created_at, share.expires_at, share.body),
    )


async def share(db: asyncpg.Connection, digest: bytes, now: str) -> Share | None:
    """What a token opens, unless its time is over."""
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
    """Close a session to a token, or (None) to all of them; tells how many there were."""
    changed = await db.execute(
        """DELETE FROM shares WHERE session = (SELECT number FROM sessions WHERE id = $1 AND owner = $2)
        AND ($3::bytea IS NULL OR digest = $3)""",
        *(session_id, owner, digest),
    )
    return int(changed.split()[-1])


async def setting(db: asyncpg.Connection, key: str) -> str | None:
    """A setting of the server."""
    found: str | None = await db.fetchval("SELECT value FROM settings WHERE key = $1", key)
    return found


async def set_setting(db: asyncpg.Connection, key: str, value: str | None) -> None:
    """Keep a setting; None takes it away."""
    if value is None:
        await db.execute("DELETE FROM settings WHERE key = $1", key)
        return
    await db.execute(
        "INSERT INTO settings (key, value) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        *(key, value),
    )


async def take_setting(db: asyncpg.Connection, key: str) -> str | None:
    """Take a setting away and tell what it was."""
    value: str | None = await db.fetchval(
        "DELETE FROM settings WHERE key = $1 RETURNING value", key
    )
    return value


def _key(row: "asyncpg.Record | dict[str, str]") -> KeyRow:
    values = dict(row)
    return KeyRow(**values | {"masked": tokens.masked(values["masked"])})
