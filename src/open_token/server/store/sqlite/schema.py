"""The schema in SQLite, version by version; a released version is never changed."""

import sqlite3
from collections.abc import Sequence

from open_token.errors import StoreError

# The number of a session consists of the number of its owner and a counter; the place of a turn
# consists of the number of its session and its sequence. So the rows of an owner and of a session
# are adjacent, and the full-text index can be restricted to an owner without a join.
OWNER_BITS = 18
COUNT_BITS = 24
TURN_BITS = 20

_TIME = "LIKE '____-__-__T__:__:__.___Z'"

VERSION_1 = f"""
CREATE TABLE settings (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE users (
    number INTEGER PRIMARY KEY CHECK (number BETWEEN 1 AND {(1 << OWNER_BITS) - 1}),
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL UNIQUE,
    role TEXT NOT NULL CHECK (role IN ('owner', 'user')),
    created_at TEXT NOT NULL,
    disabled_at TEXT,
    sessions_held INTEGER NOT NULL DEFAULT 0,
    sessions_made INTEGER NOT NULL DEFAULT 0 CHECK (sessions_made < {1 << COUNT_BITS}),
    body BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX one_owner ON users (role) WHERE role = 'owner';

CREATE TABLE api_keys (
    id TEXT PRIMARY KEY,
    user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    digest BLOB NOT NULL UNIQUE,
    last4 TEXT NOT NULL,
    scope TEXT NOT NULL CHECK (scope IN ('full', 'read')),
    created_at TEXT NOT NULL,
    last_used_at TEXT,
    revoked_at TEXT
) STRICT;
CREATE INDEX keys_of_user ON api_keys (user_id);

CREATE TABLE sessions (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    owner TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    intent TEXT NOT NULL,
    status TEXT NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL CHECK (updated_at {_TIME}),
    is_pinned INTEGER NOT NULL,
    head TEXT,
    stream_sequence INTEGER NOT NULL DEFAULT 0,
    next_entry INTEGER NOT NULL DEFAULT 0,
    projected_sequence INTEGER NOT NULL DEFAULT 0,
    body BLOB NOT NULL
) STRICT;
CREATE INDEX sessions_in_order ON sessions (owner, is_pinned DESC, updated_at DESC, number DESC);
CREATE VIRTUAL TABLE intent_words USING fts5 (words, columnsize = 0, tokenize = 'unicode61 remove_diacritics 2');

-- In the order of writing, not by session: a commit for many sessions changes half as many pages.
CREATE TABLE log (
    session INTEGER NOT NULL REFERENCES sessions (number) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    at TEXT NOT NULL,
    kind TEXT NOT NULL,
    data TEXT NOT NULL,
    UNIQUE (session, seq)
) STRICT;

CREATE TABLE client_messages (
    session INTEGER NOT NULL REFERENCES sessions (number) ON DELETE CASCADE,
    id TEXT NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    run_id TEXT,
    PRIMARY KEY (session, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE turns (
    place INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions (number) ON DELETE CASCADE,
    id TEXT NOT NULL,
    turn_id TEXT NOT NULL,
    parent_id TEXT,
    patch_sequence INTEGER NOT NULL,
    body BLOB NOT NULL,
    UNIQUE (session, id)
) STRICT;
CREATE VIRTUAL TABLE turn_words USING fts5 (words, columnsize = 0, tokenize = 'unicode61 remove_diacritics 2');

CREATE TABLE checkpoints (
    session INTEGER NOT NULL REFERENCES sessions (number) ON DELETE CASCADE,
    id TEXT NOT NULL,
    turn_id TEXT,
    parent_id TEXT,
    label TEXT,
    created_at TEXT NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (session, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE blobs (
    sha256 TEXT NOT NULL,
    session INTEGER NOT NULL REFERENCES sessions (number) ON DELETE CASCADE,
    PRIMARY KEY (sha256, session)
) STRICT, WITHOUT ROWID;
CREATE INDEX blobs_of_session ON blobs (session);

CREATE TABLE shares (
    digest BLOB PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions (number) ON DELETE CASCADE,
    created_at TEXT NOT NULL,
    expires_at TEXT CHECK (expires_at {_TIME}),
    body BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX shares_of_session ON shares (session);

CREATE TABLE memories (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    type TEXT NOT NULL,
    content TEXT NOT NULL,
    skill_name TEXT,
    record_type TEXT,
    scope TEXT,
    owner TEXT,
    topic TEXT,
    mem0_id TEXT,
    superseded_by INTEGER REFERENCES memories (id) ON DELETE SET NULL,
    write_reason TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT,
    hit_count INTEGER NOT NULL DEFAULT 0,
    last_hit_at TEXT,
    disabled INTEGER NOT NULL DEFAULT 0,
    source_session TEXT
) STRICT;
CREATE INDEX memories_of_user ON memories (user_id, id);
CREATE INDEX memories_superseded ON memories (superseded_by) WHERE superseded_by IS NOT NULL;
CREATE VIRTUAL TABLE memory_words USING fts5 (words, tokenize = 'unicode61 remove_diacritics 2');

CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions (number) ON DELETE CASCADE,
    status TEXT NOT NULL CHECK (status IN ('queued', 'running', 'completed', 'failed', 'interrupted')),
    body BLOB NOT NULL,
    created_at TEXT NOT NULL,
    started_at TEXT,
    finished_at TEXT,
    worker TEXT,
    lease_until TEXT CHECK (lease_until {_TIME}),
    fencing_token INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    error TEXT
) STRICT;
CREATE INDEX runs_of_session ON runs (session);
CREATE INDEX runs_open ON runs (status, created_at) WHERE status IN ('queued', 'running');

CREATE TABLE scheduled_tasks (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    title TEXT NOT NULL,
    prompt TEXT NOT NULL,
    cron TEXT NOT NULL,
    timezone TEXT NOT NULL,
    enabled INTEGER NOT NULL,
    expires_at TEXT CHECK (expires_at {_TIME}),
    skip_confirmations INTEGER NOT NULL,
    model TEXT,
    next_fire TEXT CHECK (next_fire {_TIME}),
    created_at TEXT NOT NULL,
    updated_at TEXT,
    body BLOB NOT NULL
) STRICT;
CREATE INDEX tasks_due ON scheduled_tasks (next_fire) WHERE enabled;
CREATE INDEX tasks_of_owner ON scheduled_tasks (owner);

CREATE TABLE scheduled_runs (
    id TEXT PRIMARY KEY,
    task_id TEXT NOT NULL REFERENCES scheduled_tasks (id) ON DELETE CASCADE,
    fire_at TEXT NOT NULL CHECK (fire_at {_TIME}),
    session_id TEXT,
    status TEXT NOT NULL CHECK (status IN ('running', 'completed', 'failed')),
    error TEXT,
    triggered_at TEXT NOT NULL,
    finished_at TEXT,
    UNIQUE (task_id, fire_at)
) STRICT;
"""

# The end of a run looks up the slot that started its session.
VERSION_2 = """
CREATE INDEX scheduled_runs_open ON scheduled_runs (session_id) WHERE status = 'running';
CREATE INDEX tasks_running ON scheduled_runs (task_id) WHERE status = 'running';
"""

MIGRATIONS: Sequence[str] = (VERSION_1, VERSION_2)
"""The statements that migrate version n to version n + 1, beginning with an empty database."""


def migrate(db: sqlite3.Connection, migrations: Sequence[str] = MIGRATIONS) -> int:
    """Migrate the tables, one transaction per version; return the version they had."""
    current = int(db.execute("PRAGMA user_version").fetchone()[0])
    if current > len(migrations):
        raise StoreError(
            f"the data have version {current}; this program supports up to {len(migrations)}",
            help="use the newer version of open-token that wrote them",
            code="store.version",
        )
    for version, statements in enumerate(migrations[current:], start=current + 1):
        try:
            db.executescript(
                f"BEGIN IMMEDIATE;\n{statements}\nPRAGMA user_version = {version};\nCOMMIT;"
            )
        except sqlite3.Error:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
    return current
