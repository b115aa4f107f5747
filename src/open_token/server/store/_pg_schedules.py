"""Tasks by the clock in PostgreSQL: the update of the task's row lets one node through."""

from collections.abc import Mapping
from typing import Any

import asyncpg

from open_token.errors import StoreError
from open_token.server.store import _pg_log
from open_token.server.store._faults import Missing
from open_token.server.store._schedules import AWAKE, CHANGEABLE, new_run
from open_token.server.store.rows import Firing, NewTask, TaskRow, TaskRun, TaskRunPage

_NEW = NewTask.__struct_fields__
_COLUMNS = ", ".join(TaskRow.__struct_fields__)
_RUN_FIELDS = TaskRun.__struct_fields__
_RUN = ", ".join(f"scheduled_runs.{name}" for name in _RUN_FIELDS)
# What another node is just taking is passed over, not waited for.
_TAKE = """
    UPDATE scheduled_tasks SET next_fire = $1 WHERE id = (
        SELECT id FROM scheduled_tasks WHERE id = $2 AND owner = $3 AND enabled AND next_fire = $4
        FOR UPDATE SKIP LOCKED
    ) RETURNING 1
"""


async def add_task(db: asyncpg.Connection, owner: str, task: NewTask) -> TaskRow:
    """Enter a task of a user."""
    if not await db.fetchval("SELECT 1 FROM users WHERE id = $1", owner):
        raise Missing("user")
    places = ", ".join(f"${place}" for place in range(1, len(_NEW) + 2))
    row = await db.fetchrow(
        f"INSERT INTO scheduled_tasks (owner, {', '.join(_NEW)}) VALUES ({places}) RETURNING {_COLUMNS}",
        *(owner, *(getattr(task, name) for name in _NEW)),
    )
    return TaskRow(**dict(row))


async def tasks(db: asyncpg.Connection, owner: str) -> list[TaskRow]:
    """The tasks of a user, oldest first."""
    rows = await db.fetch(
        f"SELECT {_COLUMNS} FROM scheduled_tasks WHERE owner = $1 ORDER BY created_at, entered",
        owner,
    )
    return [TaskRow(**dict(row)) for row in rows]


async def task(db: asyncpg.Connection, owner: str, task_id: str) -> TaskRow | None:
    """One task, if it is this owner's."""
    row = await db.fetchrow(
        f"SELECT {_COLUMNS} FROM scheduled_tasks WHERE id = $1 AND owner = $2", task_id, owner
    )
    return row and TaskRow(**dict(row))


async def change_task(
    db: asyncpg.Connection, owner: str, task_id: str, changes: Mapping[str, Any], at: str
) -> TaskRow | None:
    """Give a task other values; None when the user has no such task."""
    if strange := set(changes) - CHANGEABLE:
        raise StoreError(f"a task does not let {min(strange)} be changed", code="store.value")
    sets = ", ".join(
        f"{name} = ${place}" for place, name in enumerate(("updated_at", *changes), start=3)
    )
    row = await db.fetchrow(
        f"UPDATE scheduled_tasks SET {sets} WHERE id = $1 AND owner = $2 RETURNING {_COLUMNS}",
        *(task_id, owner, at, *changes.values()),
    )
    return row and TaskRow(**dict(row))


async def delete_task(db: asyncpg.Connection, owner: str, task_id: str) -> bool:
    """Take a task away with its runs; their sessions stay."""
    return bool(
        await db.execute("DELETE FROM scheduled_tasks WHERE id = $1 AND owner = $2", task_id, owner)
        == "DELETE 1"
    )


async def due_tasks(db: asyncpg.Connection, now: str, limit: int = 100) -> list[TaskRow]:
    """Enabled tasks of everybody whose time has come, the most overdue first."""
    rows = await db.fetch(
        f"""SELECT {_COLUMNS} FROM scheduled_tasks WHERE {AWAKE} AND next_fire <= $1
        ORDER BY next_fire, entered LIMIT $2""",
        *(now, limit),
    )
    return [TaskRow(**dict(row)) for row in rows]


async def nearest_fire(db: asyncpg.Connection) -> str | None:
    """When the next task is due."""
    found: str | None = await db.fetchval(
        f"SELECT min(next_fire) FROM scheduled_tasks WHERE {AWAKE}"
    )
    return found


async def fire_task(db: asyncpg.Connection, firing: Firing) -> TaskRun | None:
    """Take a slot: its run, its session and the task's next slot, all or nothing; None when another
    node did."""
    task_id, owner = firing.task_id, firing.owner
    if firing.due is None:
        if not await db.fetchval(
            "SELECT 1 FROM scheduled_tasks WHERE id = $1 AND owner = $2 FOR UPDATE", task_id, owner
        ):
            raise Missing("task")
    elif not await db.fetchval(_TAKE, firing.next_fire, task_id, owner, firing.due):
        return None
    if await db.fetchval(
        "SELECT 1 FROM scheduled_runs WHERE task_id = $1 AND fire_at = $2", task_id, firing.fire_at
    ):
        return None
    error = firing.error
    if firing.if_running is not None:
        is_running = (
            "SELECT 1 FROM scheduled_runs WHERE task_id = $1 AND status = 'running' LIMIT 1"
        )
        error = firing.if_running if await db.fetchval(is_running, task_id) else error
    run = new_run(firing, error)
    await db.execute(
        f"INSERT INTO scheduled_runs ({', '.join(_RUN_FIELDS)}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        *(getattr(run, name) for name in _RUN_FIELDS),
    )
    if error is None and firing.step is not None:
        await _pg_log.append(db, firing.step)
    return run


async def task_runs(
    db: asyncpg.Connection,
    owner: str,
    task_id: str | None = None,
    since: str | None = None,
    until: str | None = None,
    limit: int = 100,
    offset: int = 0,
) -> TaskRunPage:
    """A part of the runs of one task, or of all of a user's, whose slots lie in [since, until);
    newest first."""
    where, values = ["owner = $1"], [owner]
    for condition, value in (("task_id =", task_id), ("fire_at >=", since), ("fire_at <", until)):
        if value is not None:
            values.append(value)
            where.append(f"{condition} ${len(values)}")
    those = f"FROM scheduled_runs JOIN scheduled_tasks ON scheduled_tasks.id = task_id WHERE {' AND '.join(where)}"
    total = await db.fetchval(f"SELECT count(*) {those}", *values)
    rows = await db.fetch(
        f"SELECT {_RUN} {those} ORDER BY fire_at DESC, scheduled_runs.id LIMIT {int(limit)} OFFSET {int(offset)}",
        *values,
    )
    return TaskRunPage(items=[TaskRun(**dict(row)) for row in rows], total=total)
