"""The tables that both stores have, with the columns that they share: what a move copies."""

from typing import Any

from msgspec import Struct


class Table(Struct, frozen=True):
    """A table: its columns, the key in whose order it is read, and where its words are in
    SQLite."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    words: str | None = None
    booleans: tuple[str, ...] = ()

    def with_booleans(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """A row whose numbers that mean yes or no say so."""
        if not self.booleans:
            return row
        return tuple(
            bool(value) if name in self.booleans else value
            for name, value in zip(self.columns, row, strict=True)
        )


def _table(
    name: str, columns: str, key: str, words: str | None = None, booleans: tuple[str, ...] = ()
) -> tuple[str, Table]:
    return name, Table(name, tuple(columns.split()), tuple(key.split()), words, booleans)


# Those that others refer to come first.
TABLES: dict[str, Table] = dict(
    (
        _table("settings", "key value", "key"),
        _table(
            "users",
            "number id name role created_at disabled_at sessions_held sessions_made body",
            "number",
        ),
        _table(
            "api_keys",
            "id user_id name digest last4 scope created_at last_used_at revoked_at",
            "created_at id",
        ),
        _table(
            "sessions",
            "number id owner intent status created_at updated_at is_pinned head stream_sequence next_entry"
            " projected_sequence body",
            "number",
            "intent_words",
            ("is_pinned",),
        ),
        _table("log", "session seq at kind data", "session seq"),
        _table("client_messages", "session id first last run_id", "session id"),
        _table(
            "turns", "place session id turn_id parent_id patch_sequence body", "place", "turn_words"
        ),
        _table("checkpoints", "session id turn_id parent_id label created_at seq", "session id"),
        _table("blobs", "sha256 session", "sha256 session"),
        _table("shares", "digest session created_at expires_at body", "digest"),
        _table(
            "memories",
            "id user_id type content skill_name record_type scope owner topic mem0_id superseded_by write_reason"
            " created_at updated_at hit_count last_hit_at disabled source_session",
            "id",
            "memory_words",
            ("disabled",),
        ),
        _table(
            "runs",
            "id session status body created_at started_at finished_at worker lease_until fencing_token attempts error",
            "created_at id",
        ),
        _table(
            "scheduled_tasks",
            "id owner title prompt cron timezone enabled expires_at skip_confirmations model next_fire created_at"
            " updated_at body",
            "created_at id",
            None,
            ("enabled", "skip_confirmations"),
        ),
        _table(
            "scheduled_runs",
            "id task_id fire_at session_id status error triggered_at finished_at",
            "task_id fire_at",
        ),
    )
)
