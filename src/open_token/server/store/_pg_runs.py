"""Work that sessions wait for, in PostgreSQL: nodes pass over what another is just taking."""

import asyncpg

from open_token.server.store._faults import Fenced
from open_token.server.store._runs import slot_end, too_far
from open_token.server.store.rows import Fence, NewRun, Run, RunEnd

_RUN = """
    SELECT runs.id, sessions.id AS session_id, sessions.owner, runs.status, runs.body, runs.created_at, started_at,
        finished_at, worker, lease_until, fencing_token, attempts, error
    FROM runs JOIN sessions ON sessions.number = runs.session
"""
# A run waits behind an older one of its session, whoever works on that; the oldest goes first.
_NEXT = """
    SELECT id FROM runs AS this
    WHERE status IN ('queued', 'running') AND (status = 'queued' OR lease_until < $1 OR lease_until > $3)
        AND attempts < $2
        AND NOT EXISTS (
            SELECT 1 FROM runs AS other WHERE other.session = this.session AND other.status IN ('queued', 'running')
            AND (other.created_at, other.entered) < (this.created_at, this.entered)
        )
    ORDER BY created_at, entered LIMIT 1 FOR UPDATE SKIP LOCKED
"""
_TIME = """SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')"""


async def time(db: asyncpg.Connection, now: str) -> str:
    """The database's, whatever a node's own clock says."""
    told: str = await db.fetchval(_TIME)
    return told


async def queue(db: asyncpg.Connection, session: int, run: NewRun) -> None:
    """Write down that a session waits for work."""
    await db.execute(
        "INSERT INTO runs (id, session, status, body, created_at) VALUES ($1, $2, 'queued', $3, $4)",
        *(run.id, session, run.body, run.at),
    )


async def check_fence(db: asyncpg.Connection, session: int, fence: Fence) -> None:
    """Refuse who no longer has the run; nobody takes it over before this step is written."""
    row = await db.fetchrow(
        "SELECT session, status, fencing_token FROM runs WHERE id = $1 FOR NO KEY UPDATE",
        fence.run_id,
    )
    if row is None or tuple(row) != (session, "running", fence.token):
        raise Fenced


async def end(db: asyncpg.Connection, fence: Fence | None, how: RunEnd) -> None:
    """Write down how the run of a fence ended, and with it the slot that began its session."""
    if fence is None:
        raise Fenced
    await db.execute(
        "UPDATE runs SET status = $1, finished_at = $2, error = $3, lease_until = NULL WHERE id = $4",
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
) -> Run | None:
    """Take the oldest run that nobody works on, or whose worker has let its lease run out."""
    run_id = await db.fetchval(
        _NEXT, now if lapsed is None else lapsed, most_attempts, too_far(now, lease_until)
    )
    if run_id is None:
        return None
    await db.execute(
        """UPDATE runs SET status = 'running', worker = $1, lease_until = $2, fencing_token = fencing_token + 1,
        attempts = attempts + 1, started_at = coalesce(started_at, $3) WHERE id = $4""",
        *(worker, lease_until, now, run_id),
    )
    return await _run(db, run_id)


async def renew_lease(db: asyncpg.Connection, fence: Fence, lease_until: str) -> bool:
    """Keep a run; False when it is no longer this worker's."""
    changed = await db.execute(
        "UPDATE runs SET lease_until = $1 WHERE id = $2 AND fencing_token = $3 AND status = 'running'",
        *(lease_until, fence.run_id, fence.token),
    )
    return bool(changed == "UPDATE 1")


async def give_up_runs(
    db: asyncpg.Connection, now: str, error: str, most_attempts: int = 3
) -> list[Run]:
    """End as failed the runs that were tried too often and that nobody works on."""
    rows = await db.fetch(
        """UPDATE runs SET status = 'failed', finished_at = $1, error = $2, lease_until = NULL,
        fencing_token = fencing_token + 1
        WHERE status = 'running' AND lease_until < $1 AND attempts >= $3 RETURNING id""",
        *(now, error, most_attempts),
    )
    for (run_id,) in rows:
        await _end_slot(db, run_id, RunEnd(status="failed", at=now, error=error))
    return [await _run(db, run_id) for (run_id,) in rows]


async def runs(db: asyncpg.Connection, owner: str, session_id: str) -> list[Run]:
    """The runs of a session, oldest first."""
    rows = await db.fetch(
        f"{_RUN} WHERE sessions.id = $1 AND sessions.owner = $2 ORDER BY runs.created_at, runs.entered",
        *(session_id, owner),
    )
    return [Run(**dict(row)) for row in rows]


async def _run(db: asyncpg.Connection, run_id: str) -> Run:
    row = await db.fetchrow(f"{_RUN} WHERE runs.id = $1", run_id)
    return Run(**dict(row))


async def _end_slot(db: asyncpg.Connection, run_id: str, how: RunEnd) -> None:
    status, error = slot_end(how)
    await db.execute(
        """UPDATE scheduled_runs SET status = $1, error = $2, finished_at = $3 WHERE status = 'running' AND session_id =
        (SELECT sessions.id FROM runs JOIN sessions ON number = session WHERE runs.id = $4)""",
        *(status, error, how.at, run_id),
    )
