"""Work that sessions wait for: a queue with leases, and a fencing token that a worker who was too
slow has lost."""

import sqlite3
from datetime import datetime
from typing import Any

from open_token.server.store._faults import Fenced
from open_token.server.store.rows import Fence, NewRun, Run, RunEnd

_RUN = """
    SELECT runs.id, sessions.id, sessions.owner, runs.status, runs.body, runs.created_at, started_at, finished_at,
        worker, lease_until, fencing_token, attempts, error
    FROM runs JOIN sessions ON sessions.number = runs.session
"""
# A run waits behind an older one of its session, whoever works on that; the oldest goes first.
_NEXT = """
    SELECT id FROM runs AS this
    WHERE (status = 'queued' OR status = 'running' AND (lease_until < :lapsed OR lease_until > :far))
        AND attempts < :most AND NOT EXISTS (
            SELECT 1 FROM runs AS other WHERE other.session = this.session AND other.status IN ('queued', 'running')
            AND (other.created_at, other.rowid) < (this.created_at, this.rowid)
        )
    ORDER BY created_at, rowid LIMIT 1
"""


def queue(db: sqlite3.Connection, session: int, run: NewRun) -> None:
    """Write down that a session waits for work."""
    db.execute(
        "INSERT INTO runs (id, session, status, body, created_at) VALUES (?, ?, 'queued', ?, ?)",
        (run.id, session, run.body, run.at),
    )


def check_fence(db: sqlite3.Connection, session: int, fence: Fence) -> None:
    """Refuse who no longer has the run."""
    row = db.execute(
        "SELECT session, status, fencing_token FROM runs WHERE id = ?", (fence.run_id,)
    ).fetchone()
    if row != (session, "running", fence.token):
        raise Fenced


def end(db: sqlite3.Connection, fence: Fence | None, how: RunEnd) -> None:
    """Write down how the run of a fence ended."""
    if fence is None:
        raise Fenced
    db.execute(
        "UPDATE runs SET status = ?, finished_at = ?, error = ?, lease_until = NULL WHERE id = ?",
        (how.status, how.at, how.error, fence.run_id),
    )
    if how.status not in ("queued", "running"):
        _end_slot(db, fence.run_id, how)


def _end_slot(db: sqlite3.Connection, run_id: str, how: RunEnd) -> None:
    """A slot of a scheduled task ends with the first run of its session, in the same
    transaction."""
    status, error = slot_end(how)
    db.execute(
        """UPDATE scheduled_runs SET status = ?, error = ?, finished_at = ? WHERE status = 'running' AND session_id =
        (SELECT sessions.id FROM runs JOIN sessions ON number = session WHERE runs.id = ?)""",
        (status, error, how.at, run_id),
    )


def slot_end(how: RunEnd) -> tuple[str, str | None]:
    """How a slot ends when the run of its session does."""
    if how.status == "completed":
        return "completed", None
    return "failed", how.error or how.status


def too_far(now: str, lease_until: str) -> str:
    """A time that no lease reaches when it is made and kept by a clock that goes forward: one was
    set back since."""
    until = datetime.fromisoformat(lease_until)
    return f"{until + (until - datetime.fromisoformat(now)):%Y-%m-%dT%H:%M:%S}.999Z"


def claim_run(
    db: sqlite3.Connection,
    worker: str,
    now: str,
    lease_until: str,
    most_attempts: int = 3,
    lapsed: str | None = None,
) -> Run | None:
    """Take the oldest run that nobody works on, or whose worker has let its lease run out."""
    given = {
        "lapsed": now if lapsed is None else lapsed,
        "far": too_far(now, lease_until),
        "most": most_attempts,
    }
    row = db.execute(_NEXT, given).fetchone()
    if row is None:
        return None
    db.execute(
        """UPDATE runs SET status = 'running', worker = ?, lease_until = ?, fencing_token = fencing_token + 1,
        attempts = attempts + 1, started_at = ifnull(started_at, ?) WHERE id = ?""",
        (worker, lease_until, now, row[0]),
    )
    return _run(db.execute(f"{_RUN} WHERE runs.id = ?", row).fetchone())


def renew_lease(db: sqlite3.Connection, fence: Fence, lease_until: str) -> bool:
    """Keep a run; False when it is no longer this worker's."""
    changed = db.execute(
        "UPDATE runs SET lease_until = ? WHERE id = ? AND fencing_token = ? AND status = 'running'",
        (lease_until, fence.run_id, fence.token),
    )
    return changed.rowcount == 1


def give_up_runs(db: sqlite3.Connection, now: str, error: str, most_attempts: int = 3) -> list[Run]:
    """End as failed the runs that were tried too often and that nobody works on."""
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
    return [_run(db.execute(f"{_RUN} WHERE runs.id = ?", row).fetchone()) for row in rows]


def runs(db: sqlite3.Connection, owner: str, session_id: str) -> list[Run]:
    """The runs of a session, oldest first."""
    rows = db.execute(
        f"{_RUN} WHERE sessions.id = ? AND sessions.owner = ? ORDER BY runs.created_at, runs.rowid",
        (session_id, owner),
    )
    return [_run(row) for row in rows]


def _run(row: tuple[Any, ...]) -> Run:
    return Run(**dict(zip(Run.__struct_fields__, row, strict=True)))
