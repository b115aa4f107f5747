"""The queue of runs in SQLite, with leases and fencing tokens."""

import json
import sqlite3
from collections.abc import Collection
from datetime import datetime
from typing import Any

from open_token.server.store.errors import FencedError
from open_token.server.store.rows import Fence, NewRun, Run, RunEnd

_SELECT_RUN = """
    SELECT runs.id, sessions.id, sessions.owner, runs.status, runs.body, runs.created_at,
        started_at, finished_at, worker, lease_until, fencing_token, attempts, error
    FROM runs JOIN sessions ON sessions.number = runs.session
"""
# The oldest run first; a run waits for older ones of its session, whoever works on them.
_NEXT_RUN = """
    SELECT id FROM runs AS this
    WHERE attempts < :most
        AND (SELECT owner FROM sessions WHERE number = this.session)
            NOT IN (SELECT value FROM json_each(:excluded))
        AND (
            status = 'queued'
            OR status = 'running' AND (lease_until < :lapsed OR lease_until > :far)
        )
        AND NOT EXISTS (
            SELECT 1 FROM runs AS other
            WHERE other.session = this.session AND other.status IN ('queued', 'running')
                AND (other.created_at, other.rowid) < (this.created_at, this.rowid)
        )
    ORDER BY created_at, rowid LIMIT 1
"""


def queue_run(db: sqlite3.Connection, session: int, run: NewRun) -> None:
    """Add a run to the queue."""
    db.execute(
        "INSERT INTO runs (id, session, status, body, created_at) VALUES (?, ?, 'queued', ?, ?)",
        (run.id, session, run.body, run.at),
    )


def check_fence(db: sqlite3.Connection, session: int, fence: Fence) -> None:
    """Raise FencedError if the run was taken over by another worker."""
    row = db.execute(
        "SELECT session, status, fencing_token FROM runs WHERE id = ?", (fence.run_id,)
    ).fetchone()
    if row != (session, "running", fence.token):
        raise FencedError


def end_run(db: sqlite3.Connection, fence: Fence | None, how: RunEnd) -> None:
    """End the run of a fence."""
    if fence is None:
        raise FencedError
    db.execute(
        "UPDATE runs SET status = ?, finished_at = ?, error = ?, lease_until = NULL WHERE id = ?",
        (how.status, how.at, how.error, fence.run_id),
    )
    if how.status not in ("queued", "running"):
        _end_slot(db, fence.run_id, how)


def _end_slot(db: sqlite3.Connection, run_id: str, how: RunEnd) -> None:
    """End the task slot that started the session of a run, in the same transaction."""
    status, error = get_slot_end(how)
    db.execute(
        """UPDATE scheduled_runs SET status = ?, error = ?, finished_at = ?
        WHERE status = 'running' AND session_id =
            (SELECT sessions.id FROM runs JOIN sessions ON number = session WHERE runs.id = ?)""",
        (status, error, how.at, run_id),
    )


def get_slot_end(how: RunEnd) -> tuple[str, str | None]:
    """Return the status and the error of a slot whose run has ended."""
    if how.is_waiting:
        return "failed", "waiting for input: the run asked a question"
    if how.status == "completed":
        return "completed", None
    return "failed", how.error or how.status


def get_lease_horizon(now: str, lease_until: str) -> str:
    """Return a time beyond every valid lease.

    A lease that ends later was taken before the clock was set back.
    """
    until = datetime.fromisoformat(lease_until)
    horizon = until + (until - datetime.fromisoformat(now))
    return f"{horizon:%Y-%m-%dT%H:%M:%S}.999Z"


def claim_run(
    db: sqlite3.Connection,
    worker: str,
    now: str,
    lease_until: str,
    most_attempts: int = 3,
    lapsed: str | None = None,
    excluded: Collection[str] = (),
) -> Run | None:
    """Claim the oldest run that is queued or whose lease has expired."""
    parameters = {
        "lapsed": now if lapsed is None else lapsed,
        "far": get_lease_horizon(now, lease_until),
        "most": most_attempts,
        "excluded": json.dumps(list(excluded)),
    }
    row = db.execute(_NEXT_RUN, parameters).fetchone()
    if row is None:
        return None
    db.execute(
        """UPDATE runs SET status = 'running', worker = ?, lease_until = ?,
            fencing_token = fencing_token + 1, attempts = attempts + 1,
            started_at = ifnull(started_at, ?)
        WHERE id = ?""",
        (worker, lease_until, now, row[0]),
    )
    return _get_run(db, row[0])


def renew_lease(db: sqlite3.Connection, fence: Fence, lease_until: str) -> bool:
    """Extend the lease of a run; False when another worker has taken it over."""
    changed = db.execute(
        "UPDATE runs SET lease_until = ? WHERE id = ? AND fencing_token = ? AND status = 'running'",
        (lease_until, fence.run_id, fence.token),
    )
    return changed.rowcount == 1


def expire_leases(db: sqlite3.Connection) -> int:
    """Expire all leases; return the count."""
    changed = db.execute("UPDATE runs SET lease_until = created_at WHERE status = 'running'")
    return changed.rowcount


def give_up_runs(db: sqlite3.Connection, now: str, error: str, most_attempts: int = 3) -> list[Run]:
    """Fail the runs that were tried too often and whose lease has expired."""
    rows = db.execute(
        "SELECT id FROM runs WHERE status = 'running' AND lease_until < ? AND attempts >= ?",
        (now, most_attempts),
    ).fetchall()
    db.executemany(
        """UPDATE runs SET status = 'failed', finished_at = ?, error = ?, lease_until = NULL,
        fencing_token = fencing_token + 1 WHERE id = ?""",
        [(now, error, *row) for row in rows],
    )
    for (run_id,) in rows:
        _end_slot(db, run_id, RunEnd(status="failed", at=now, error=error))
    return [_get_run(db, run_id) for (run_id,) in rows]


def list_runs(db: sqlite3.Connection, owner: str, session_id: str) -> list[Run]:
    """Return the runs of a session, oldest first."""
    rows = db.execute(
        f"""{_SELECT_RUN} WHERE sessions.id = ? AND sessions.owner = ?
        ORDER BY runs.created_at, runs.rowid""",
        (session_id, owner),
    )
    return [_to_run(row) for row in rows]


def _get_run(db: sqlite3.Connection, run_id: str) -> Run:
    return _to_run(db.execute(f"{_SELECT_RUN} WHERE runs.id = ?", (run_id,)).fetchone())


def _to_run(row: tuple[Any, ...]) -> Run:
    return Run(**dict(zip(Run.__struct_fields__, row, strict=True)))
