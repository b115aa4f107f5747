"""The queue of runs in PostgreSQL; nodes skip rows that another node is just claiming."""

from collections.abc import Collection

import asyncpg

from open_token.server.store.errors import FencedError
from open_token.server.store.rows import Fence, NewRun, Run, RunEnd
from open_token.server.store.sqlite.runs import get_lease_horizon, get_slot_end

_SELECT_RUN = """
    SELECT runs.id, sessions.id AS session_id, sessions.owner, runs.status, runs.body,
        runs.created_at, started_at, finished_at, worker, lease_until, fencing_token, attempts,
        error
    FROM runs JOIN sessions ON sessions.number = runs.session
"""
# The oldest run first; a run waits for older ones of its session, whoever works on them.
_NEXT_RUN = """
    SELECT id FROM runs AS this
    WHERE status IN ('queued', 'running')
        AND (status = 'queued' OR lease_until < $1 OR lease_until > $3)
        AND attempts < $2
        AND (SELECT owner FROM sessions WHERE number = this.session) <> ALL ($4::text[])
        AND NOT EXISTS (
            SELECT 1 FROM runs AS other
            WHERE other.session = this.session AND other.status IN ('queued', 'running')
                AND (other.created_at, other.entered) < (this.created_at, this.entered)
        )
    ORDER BY created_at, entered LIMIT 1 FOR UPDATE SKIP LOCKED
"""
_TIME = """SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')"""


async def get_database_time(db: asyncpg.Connection, now: str) -> str:
    """Return the time of the database, whatever the clock of the node says."""
    time: str = await db.fetchval(_TIME)
    return time


async def queue_run(db: asyncpg.Connection, session: int, run: NewRun) -> None:
    """Add a run to the queue."""
    await db.execute(
        """INSERT INTO runs (id, session, status, body, created_at)
        VALUES ($1, $2, 'queued', $3, $4)""",
        *(run.id, session, run.body, run.at),
    )


async def check_fence(db: asyncpg.Connection, session: int, fence: Fence) -> None:
    """Raise FencedError if the run was taken over, and lock it until the write is done."""
    row = await db.fetchrow(
        "SELECT session, status, fencing_token FROM runs WHERE id = $1 FOR NO KEY UPDATE",
        fence.run_id,
    )
    if row is None or tuple(row) != (session, "running", fence.token):
        raise FencedError


async def end_run(db: asyncpg.Connection, fence: Fence | None, how: RunEnd) -> None:
    """End the run of a fence, and the task slot that started its session."""
    if fence is None:
        raise FencedError
    await db.execute(
        """UPDATE runs SET status = $1, finished_at = $2, error = $3, lease_until = NULL
        WHERE id = $4""",
        *(how.status, how.at, how.error, fence.run_id),
    )
    if how.status not in ("queued", "running"):
        await _end_slot(db, fence.run_id, how)


async def claim_run(
    db: asyncpg.Connection,
    worker: str,
    now: str,
    lease_until: str,
    most_attempts: int = 3,
    lapsed: str | None = None,
    excluded: Collection[str] = (),
) -> Run | None:
    """Claim the oldest run that is queued or whose lease has expired."""
    run_id = await db.fetchval(
        _NEXT_RUN,
        now if lapsed is None else lapsed,
        most_attempts,
        get_lease_horizon(now, lease_until),
        list(excluded),
    )
    if run_id is None:
        return None
    await db.execute(
        """UPDATE runs SET status = 'running', worker = $1, lease_until = $2,
            fencing_token = fencing_token + 1, attempts = attempts + 1,
            started_at = coalesce(started_at, $3)
        WHERE id = $4""",
        *(worker, lease_until, now, run_id),
    )
    return await _get_run(db, run_id)


async def renew_lease(db: asyncpg.Connection, fence: Fence, lease_until: str) -> bool:
    """Extend the lease of a run; False when another worker has taken it over."""
    changed = await db.execute(
        """UPDATE runs SET lease_until = $1
        WHERE id = $2 AND fencing_token = $3 AND status = 'running'""",
        *(lease_until, fence.run_id, fence.token),
    )
    return bool(changed == "UPDATE 1")


async def expire_leases(db: asyncpg.Connection) -> int:
    """Expire all leases; return the count."""
    status: str = await db.execute(
        "UPDATE runs SET lease_until = created_at WHERE status = 'running'"
    )
    return int(status.rpartition(" ")[2])


async def give_up_runs(
    db: asyncpg.Connection, now: str, error: str, most_attempts: int = 3
) -> list[Run]:
    """Fail the runs that were tried too often and whose lease has expired."""
    rows = await db.fetch(
        """UPDATE runs SET status = 'failed', finished_at = $1, error = $2, lease_until = NULL,
        fencing_token = fencing_token + 1
        WHERE status = 'running' AND lease_until < $1 AND attempts >= $3 RETURNING id""",
        *(now, error, most_attempts),
    )
    for (run_id,) in rows:
        await _end_slot(db, run_id, RunEnd(status="failed", at=now, error=error))
    return [await _get_run(db, run_id) for (run_id,) in rows]


async def list_runs(db: asyncpg.Connection, owner: str, session_id: str) -> list[Run]:
    """Return the runs of a session, oldest first."""
    rows = await db.fetch(
        f"""{_SELECT_RUN} WHERE sessions.id = $1 AND sessions.owner = $2
        ORDER BY runs.created_at, runs.entered""",
        *(session_id, owner),
    )
    return [Run(**dict(row)) for row in rows]


async def _get_run(db: asyncpg.Connection, run_id: str) -> Run:
    row = await db.fetchrow(f"{_SELECT_RUN} WHERE runs.id = $1", run_id)
    return Run(**dict(row))


async def _end_slot(db: asyncpg.Connection, run_id: str, how: RunEnd) -> None:
    status, error = get_slot_end(how)
    await db.execute(
        """UPDATE scheduled_runs SET status = $1, error = $2, finished_at = $3
        WHERE status = 'running' AND session_id =
            (SELECT sessions.id FROM runs JOIN sessions ON number = session WHERE runs.id = $4)""",
        *(status, error, how.at, run_id),
    )
