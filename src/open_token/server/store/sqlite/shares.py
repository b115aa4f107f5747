"""Shares of sessions and settings of the server, in SQLite."""

import sqlite3

from open_token.server.store.errors import NotFoundError
from open_token.server.store.rows import Share


def add_share(db: sqlite3.Connection, share: Share, digest: bytes) -> None:
    """Share a session with the holder of a token."""
    row = db.execute(
        "SELECT number FROM sessions WHERE id = ? AND owner = ?", (share.session_id, share.owner)
    ).fetchone()
    if row is None:
        raise NotFoundError("session")
    db.execute(
        "INSERT INTO shares (digest, session, created_at, expires_at, body) VALUES (?, ?, ?, ?, ?)",
        (digest, row[0], share.created_at, share.expires_at, share.body),
    )


def find_share(db: sqlite3.Connection, digest: bytes, now: str) -> Share | None:
    """Return the share of a token unless it has expired."""
    row = db.execute(
        """SELECT sessions.id, owner, shares.created_at, expires_at, shares.body
        FROM shares JOIN sessions ON number = session
        WHERE digest = ? AND (expires_at IS NULL OR expires_at > ?)""",
        (digest, now),
    ).fetchone()
    if row is None:
        return None
    return Share(**dict(zip(Share.__struct_fields__, row, strict=True)))


def revoke_share(db: sqlite3.Connection, owner: str, session_id: str, digest: bytes | None) -> int:
    """Revoke one share of a session, or (None) all of them; return the count."""
    changed = db.execute(
        """DELETE FROM shares
        WHERE session = (SELECT number FROM sessions WHERE id = ?1 AND owner = ?2)
            AND (?3 IS NULL OR digest = ?3)""",
        (session_id, owner, digest),
    )
    return changed.rowcount


def get_setting(db: sqlite3.Connection, key: str) -> str | None:
    """Return a setting of the server."""
    row = db.execute("SELECT value FROM settings WHERE key = ?", (key,)).fetchone()
    return None if row is None else str(row[0])


def set_setting(db: sqlite3.Connection, key: str, value: str | None) -> None:
    """Set a setting; None deletes it."""
    if value is None:
        db.execute("DELETE FROM settings WHERE key = ?", (key,))
    else:
        db.execute("REPLACE INTO settings (key, value) VALUES (?, ?)", (key, value))


def replace_setting(db: sqlite3.Connection, key: str, old: str | None, new: str | None) -> bool:
    """Replace a setting if its value is still the old one."""
    if get_setting(db, key) != old:
        return False
    set_setting(db, key, new)
    return True


def list_settings(db: sqlite3.Connection, prefix: str, limit: int = 1000) -> dict[str, str]:
    """Return settings whose key starts with a prefix, in the order of their keys."""
    rows = db.execute(
        "SELECT key, value FROM settings WHERE substr(key, 1, ?) = ? ORDER BY key LIMIT ?",
        (len(prefix), prefix, limit),
    )
    return dict(rows.fetchall())


def take_setting(db: sqlite3.Connection, key: str) -> str | None:
    """Delete a setting and return its value."""
    row = db.execute("DELETE FROM settings WHERE key = ? RETURNING value", (key,)).fetchone()
    return None if row is None else row[0]
