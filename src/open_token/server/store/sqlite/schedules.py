"""Scheduled tasks in SQLite; a slot is taken in the same transaction as the session it starts."""

import sqlite3
from collections.abc import Mapping
from typing import Any

from open_token.errors import StoreError
from open_token.server.store.errors import NotFoundError
from open_token.server.store.rows import Firing, NewTask, TaskRow, TaskRun, TaskRunPage
from open_token.server.store.sqlite import log

_NEW_FIELDS = NewTask.__struct_fields__
_COLUMNS = ", ".join(TaskRow.__struct_fields__)
_RUN_COLUMNS = ", ".join(f"scheduled_runs.{name}" for name in TaskRun.__struct_fields__)
CHANGEABLE = frozenset(_NEW_FIELDS) - {"id", "created_at"}
IS_ACTIVE = "enabled AND owner NOT IN (SELECT id FROM users WHERE disabled_at IS NOT NULL)"
_TAKE_SLOT = """
    UPDATE scheduled_tasks SET next_fire = ?
    WHERE id = ? AND owner = ? AND enabled AND next_fire = ?
"""
_HAS_SLOT = "SELECT 1 FROM scheduled_runs WHERE task_id = ? AND fire_at = ?"
_IS_RUNNING = "SELECT 1 FROM scheduled_runs WHERE task_id = ? AND status = 'running' LIMIT 1"


def add_task(db: sqlite3.Connection, owner: str, task: NewTask) -> TaskRow:
    """Add a task of a user."""
    if not db.execute("SELECT 1 FROM users WHERE id = ?", (owner,)).fetchone():
        raise NotFoundError("user")
    values = [getattr(task, name) for name in _NEW_FIELDS]
    row = db.execute(
        f"""INSERT INTO scheduled_tasks (owner, {", ".join(_NEW_FIELDS)})
        VALUES (?{", ?" * len(_NEW_FIELDS)}) RETURNING {_COLUMNS}""",
        (owner, *values),
    ).fetchone()
    return _to_task(row)


def list_tasks(db: sqlite3.Connection, owner: str) -> list[TaskRow]:
    """Return the tasks of a user, oldest first."""
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM scheduled_tasks WHERE owner = ? ORDER BY created_at, rowid",
        (owner,),
    )
    return [_to_task(row) for row in rows]


def get_task(db: sqlite3.Connection, owner: str, task_id: str) -> TaskRow | None:
    """Return a task of the owner."""
    row = db.execute(
        f"SELECT {_COLUMNS} FROM scheduled_tasks WHERE id = ? AND owner = ?", (task_id, owner)
    ).fetchone()
    return None if row is None else _to_task(row)


def change_task(
    db: sqlite3.Connection, owner: str, task_id: str, changes: Mapping[str, Any], at: str
) -> TaskRow | None:
    """Change fields of a task; None when the user has no such task."""
    unknown = set(changes) - CHANGEABLE
    if unknown:
        raise StoreError(f"{min(unknown)} of a task cannot be changed", code="store.value")
    assignments = "".join(f", {name} = ?" for name in changes)
    row = db.execute(
        f"""UPDATE scheduled_tasks SET updated_at = ?{assignments}
        WHERE id = ? AND owner = ? RETURNING {_COLUMNS}""",
        (at, *changes.values(), task_id, owner),
    ).fetchone()
    return None if row is None else _to_task(row)


def delete_task(db: sqlite3.Connection, owner: str, task_id: str) -> bool:
    """Delete a task with its runs; their sessions stay."""
    deleted = db.execute("DELETE FROM scheduled_tasks WHERE id = ? AND owner = ?", (task_id, owner))
    return deleted.rowcount == 1


def list_due_tasks(db: sqlite3.Connection, now: str, limit: int = 100) -> list[TaskRow]:
    """Return the enabled tasks of all users that are due, the most overdue first."""
    rows = db.execute(
        f"""SELECT {_COLUMNS} FROM scheduled_tasks WHERE {IS_ACTIVE} AND next_fire <= ?
        ORDER BY next_fire, rowid LIMIT ?""",
        (now, limit),
    )
    return [_to_task(row) for row in rows]


def get_next_fire(db: sqlite3.Connection) -> str | None:
    """Return when the next task is due."""
    row = db.execute(f"SELECT min(next_fire) FROM scheduled_tasks WHERE {IS_ACTIVE}").fetchone()
    return None if row[0] is None else str(row[0])


def fire_task(
    db: sqlite3.Connection, firing: Firing, write: log.PreparedWrite | None
) -> TaskRun | None:
    """Take a slot: write its run, its session and the task's next slot in one transaction.

    None when another node has taken it.
    """
    task_id = firing.task_id
    if firing.due is None:
        # Started by hand: there is no slot to take, but the task must exist.
        if get_task(db, firing.owner, task_id) is None:
            raise NotFoundError("task")
    else:
        # Succeeds only while the task is still due at this time, so that one node takes it.
        slot = (firing.next_fire, task_id, firing.owner, firing.due)
        if not db.execute(_TAKE_SLOT, slot).rowcount:
            return None
    if db.execute(_HAS_SLOT, (task_id, firing.fire_at)).fetchone():
        return None
    error = firing.error
    if firing.if_running is not None and db.execute(_IS_RUNNING, (task_id,)).fetchone():
        error = firing.if_running
    run = build_task_run(firing, error)
    columns = TaskRun.__struct_fields__
    db.execute(
        f"""INSERT INTO scheduled_runs ({", ".join(columns)})
        VALUES ({", ".join("?" for _ in columns)})""",
        tuple(getattr(run, name) for name in columns),
    )
    if error is None and write is not None:
        log.append_write(db, write)
    return run


def build_task_run(firing: Firing, error: str | None) -> TaskRun:
    """Return the run of a slot that is taken, or skipped with an error."""
    is_skipped = error is not None
    return TaskRun(
        id=firing.run_id,
        task_id=firing.task_id,
        fire_at=firing.fire_at,
        session_id=None if is_skipped or firing.step is None else firing.step.session_id,
        status="failed" if is_skipped else "running",
        error=error,
        triggered_at=firing.at,
        finished_at=firing.at if is_skipped else None,
    )


def list_task_runs(
    db: sqlite3.Connection,
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
    where = ["owner = ?"]
    values = [owner]
    conditions = (("task_id = ?", task_id), ("fire_at >= ?", since), ("fire_at < ?", until))
    for condition, value in conditions:
        if value is not None:
            where.append(condition)
            values.append(value)
    selection = f"""FROM scheduled_runs JOIN scheduled_tasks ON scheduled_tasks.id = task_id
        WHERE {" AND ".join(where)}"""
    total = db.execute(f"SELECT count(*) {selection}", values).fetchone()[0]
    rows = db.execute(
        f"""SELECT {_RUN_COLUMNS} {selection}
        ORDER BY fire_at DESC, scheduled_runs.id LIMIT ? OFFSET ?""",
        (*values, limit, offset),
    )
    return TaskRunPage(items=[_to_run(row) for row in rows], total=total)


def _to_task(row: tuple[Any, ...]) -> TaskRow:
    values = dict(zip(TaskRow.__struct_fields__, row, strict=True))
    for name in ("enabled", "skip_confirmations"):
        values[name] = bool(values[name])
    return TaskRow(**values)


def _to_run(row: tuple[Any, ...]) -> TaskRun:
    return TaskRun(**dict(zip(TaskRun.__struct_fields__, row, strict=True)))
