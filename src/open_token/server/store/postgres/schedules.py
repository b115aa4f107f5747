"""Scheduled tasks in PostgreSQL; the update of the task's row lets only one node take a slot."""

from collections.abc import Mapping
from typing import Any

import asyncpg

from open_token.errors import StoreError
from open_token.server.store.errors import NotFoundError
from open_token.server.store.postgres import log
from open_token.server.store.rows import Firing, NewTask, TaskRow, TaskRun, TaskRunPage
from open_token.server.store.sqlite.schedules import CHANGEABLE, IS_ACTIVE, build_task_run

_NEW_FIELDS = NewTask.__struct_fields__
_COLUMNS = ", ".join(TaskRow.__struct_fields__)
_RUN_FIELDS = TaskRun.__struct_fields__
_RUN_COLUMNS = ", ".join(f"scheduled_runs.{name}" for name in _RUN_FIELDS)
# A row that another node is just taking is skipped, not waited for.
_TAKE_SLOT = """
    UPDATE scheduled_tasks SET next_fire = $1 WHERE id = (
        SELECT id FROM scheduled_tasks WHERE id = $2 AND owner = $3 AND enabled AND next_fire = $4
        FOR UPDATE SKIP LOCKED
    ) RETURNING 1
"""
_IS_RUNNING = "SELECT 1 FROM scheduled_runs WHERE task_id = $1 AND status = 'running' LIMIT 1"


async def add_task(db: asyncpg.Connection, owner: str, task: NewTask) -> TaskRow:
    """Add a task of a user."""
    if not await db.fetchval("SELECT 1 FROM users WHERE id = $1", owner):
        raise NotFoundError("user")
    places = ", ".join(f"${place}" for place in range(1, len(_NEW_FIELDS) + 2))
    row = await db.fetchrow(
        f"""INSERT INTO scheduled_tasks (owner, {", ".join(_NEW_FIELDS)})
        VALUES ({places}) RETURNING {_COLUMNS}""",
        *(owner, *(getattr(task, name) for name in _NEW_FIELDS)),
    )
    return TaskRow(**dict(row))


async def list_tasks(db: asyncpg.Connection, owner: str) -> list[TaskRow]:
    """Return the tasks of a user, oldest first."""
    rows = await db.fetch(
        f"SELECT {_COLUMNS} FROM scheduled_tasks WHERE owner = $1 ORDER BY created_at, entered",
        owner,
    )
    return [TaskRow(**dict(row)) for row in rows]


async def get_task(db: asyncpg.Connection, owner: str, task_id: str) -> TaskRow | None:
    """Return a task of the owner."""
    row = await db.fetchrow(
        f"SELECT {_COLUMNS} FROM scheduled_tasks WHERE id = $1 AND owner = $2", task_id, owner
    )
    return row and TaskRow(**dict(row))


async def change_task(
    db: asyncpg.Connection, owner: str, task_id: str, changes: Mapping[str, Any], at: str
) -> TaskRow | None:
    """Change fields of a task; None when the user has no such task."""
    unknown = set(changes) - CHANGEABLE
    if unknown:
        raise StoreError(f"{min(unknown)} of a task cannot be changed", code="store.value")
    sets = ", ".join(
        f"{name} = ${place}" for place, name in enumerate(("updated_at", *changes), start=3)
    )
    row = await db.fetchrow(
        f"UPDATE scheduled_tasks SET {sets} WHERE id = $1 AND owner = $2 RETURNING {_COLUMNS}",
        *(task_id, owner, at, *changes.values()),
    )
    return row and TaskRow(**dict(row))


async def delete_task(db: asyncpg.Connection, owner: str, task_id: str) -> bool:
    """Delete a task with its runs; their sessions stay."""
    status = await db.execute(
        "DELETE FROM scheduled_tasks WHERE id = $1 AND owner = $2", task_id, owner
    )
    return bool(status == "DELETE 1")


async def list_due_tasks(db: asyncpg.Connection, now: str, limit: int = 100) -> list[TaskRow]:
    """Return the enabled tasks of all users that are due, the most overdue first."""
    rows = await db.fetch(
        f"""SELECT {_COLUMNS} FROM scheduled_tasks WHERE {IS_ACTIVE} AND next_fire <= $1
        ORDER BY next_fire, entered LIMIT $2""",
        *(now, limit),
    )
    return [TaskRow(**dict(row)) for row in rows]


async def get_next_fire(db: asyncpg.Connection) -> str | None:
    """Return when the next task is due."""
    next_fire: str | None = await db.fetchval(
        f"SELECT min(next_fire) FROM scheduled_tasks WHERE {IS_ACTIVE}"
    )
    return next_fire


async def fire_task(db: asyncpg.Connection, firing: Firing) -> TaskRun | None:
    """Take a slot: write its run, its session and the task's next slot in one transaction.

    None when another node has taken it.
    """
    task_id = firing.task_id
    owner = firing.owner
    if firing.due is None:
        # Started by hand: there is no slot to take. The row is locked, so that two clicks do not
        # both find that nothing is running.
        is_known = await db.fetchval(
            "SELECT 1 FROM scheduled_tasks WHERE id = $1 AND owner = $2 FOR UPDATE", task_id, owner
        )
        if not is_known:
            raise NotFoundError("task")
    else:
        # Succeeds only while the task is still due at this time, so that one node takes it.
        is_taken = await db.fetchval(_TAKE_SLOT, firing.next_fire, task_id, owner, firing.due)
        if not is_taken:
            return None
    has_run = await db.fetchval(
        "SELECT 1 FROM scheduled_runs WHERE task_id = $1 AND fire_at = $2", task_id, firing.fire_at
    )
    if has_run:
        return None
    error = firing.error
    if firing.if_running is not None and await db.fetchval(_IS_RUNNING, task_id):
        error = firing.if_running
    run = build_task_run(firing, error)
    await db.execute(
        f"""INSERT INTO scheduled_runs ({", ".join(_RUN_FIELDS)})
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)""",
        *(getattr(run, name) for name in _RUN_FIELDS),
    )
    if error is None and firing.step is not None:
        await log.append_write(db, firing.step)
    return run


async def list_task_runs(
    db: asyncpg.Connection,
    owner: str,
    task_id: str | None = None,
    since: str | None = None,
    until: str | None = None,
    limit: int = 100,
    offset: int = 0,
) -> TaskRunPage:
    """Return a page of the runs of one task, or of all tasks of a user, newest first.

    Only slots in [since, until) are included.
    """
    where = ["owner = $1"]
    values = [owner]
    for condition, value in (("task_id =", task_id), ("fire_at >=", since), ("fire_at <", until)):
        if value is not None:
            values.append(value)
            where.append(f"{condition} ${len(values)}")
    selection = f"""FROM scheduled_runs JOIN scheduled_tasks ON scheduled_tasks.id = task_id
        WHERE {" AND ".join(where)}"""
    total = await db.fetchval(f"SELECT count(*) {selection}", *values)
    rows = await db.fetch(
        f"""SELECT {_RUN_COLUMNS} {selection}
        ORDER BY fire_at DESC, scheduled_runs.id LIMIT {int(limit)} OFFSET {int(offset)}""",
        *values,
    )
    return TaskRunPage(items=[TaskRun(**dict(row)) for row in rows], total=total)
