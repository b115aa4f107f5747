"""Tasks by the clock: a slot is taken by one node, in the same transaction as the session that it
begins."""

import sqlite3
from collections.abc import Mapping
from typing import Any

from open_token.errors import StoreError
from open_token.server.store import _log
from open_token.server.store._faults import Missing
from open_token.server.store.rows import Firing, NewTask, TaskRow, TaskRun, TaskRunPage

_NEW = NewTask.__struct_fields__
_COLUMNS = ", ".join(TaskRow.__struct_fields__)
_RUN = ", ".join(f"scheduled_runs.{name}" for name in TaskRun.__struct_fields__)
CHANGEABLE = frozenset(_NEW) - {"id", "created_at"}
AWAKE = "enabled AND owner NOT IN (SELECT id FROM users WHERE disabled_at IS NOT NULL)"
_TAKE = "UPDATE scheduled_tasks SET next_fire = ? WHERE id = ? AND owner = ? AND enabled AND next_fire = ?"


def add_task(db: sqlite3.Connection, owner: str, task: NewTask) -> TaskRow:
    """Enter a task of a user."""
    if not db.execute("SELECT 1 FROM users WHERE id = ?", (owner,)).fetchone():
        raise Missing("user")
    row = db.execute(
        f"INSERT INTO scheduled_tasks (owner, {', '.join(_NEW)}) VALUES (?{', ?' * len(_NEW)}) RETURNING {_COLUMNS}",
        (owner, *(getattr(task, name) for name in _NEW)),
    ).fetchone()
    return _task(row)


def tasks(db: sqlite3.Connection, owner: str) -> list[TaskRow]:
    """The tasks of a user, oldest first."""
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM scheduled_tasks WHERE owner = ? ORDER BY created_at, rowid",
        (owner,),
    )
    return [_task(row) for row in rows]


def task(db: sqlite3.Connection, owner: str, task_id: str) -> TaskRow | None:
    """One task, if it is this owner's."""
    row = db.execute(
        f"SELECT {_COLUMNS} FROM scheduled_tasks WHERE id = ? AND owner = ?", (task_id, owner)
    ).fetchone()
    return row and _task(row)


def change_task(
    db: sqlite3.Connection, owner: str, task_id: str, changes: Mapping[str, Any], at: str
) -> TaskRow | None:
    """Give a task other values; None when the user has no such task."""
    if strange := set(changes) - CHANGEABLE:
        raise StoreError(f"a task does not let {min(strange)} be changed", code="store.value")
    sets = "".join(f", {name} = ?" for name in changes)
    row = db.execute(
        f"UPDATE scheduled_tasks SET updated_at = ?{sets} WHERE id = ? AND owner = ? RETURNING {_COLUMNS}",
        (at, *changes.values(), task_id, owner),
    ).fetchone()
    return row and _task(row)


def delete_task(db: sqlite3.Connection, owner: str, task_id: str) -> bool:
    """Take a task away with its runs; their sessions stay."""
    return (
        db.execute(
            "DELETE FROM scheduled_tasks WHERE id = ? AND owner = ?", (task_id, owner)
        ).rowcount
        == 1
    )


def due_tasks(db: sqlite3.Connection, now: str, limit: int = 100) -> list[TaskRow]:
    """Enabled tasks of everybody whose time has come, the most overdue first."""
    rows = db.execute(
        f"""SELECT {_COLUMNS} FROM scheduled_tasks WHERE {AWAKE} AND next_fire <= ?
        ORDER BY next_fire, rowid LIMIT ?""",
        (now, limit),
    )
    return [_task(row) for row in rows]


def nearest_fire(db: sqlite3.Connection) -> str | None:
    """When the next task is due."""
    row = db.execute(f"SELECT min(next_fire) FROM scheduled_tasks WHERE {AWAKE}").fetchone()
    return None if row[0] is None else str(row[0])


def fire_task(db: sqlite3.Connection, firing: Firing, step: _log.Prepared | None) -> TaskRun | None:
    """Take a slot: its run, its session and the task's next slot, all or nothing; None when another
    node did."""
    place = (firing.task_id, firing.owner)
    if firing.due is None:
        if task(db, firing.owner, firing.task_id) is None:
            raise Missing("task")
    elif not db.execute(_TAKE, (firing.next_fire, *place, firing.due)).rowcount:
        return None
    if db.execute(
        "SELECT 1 FROM scheduled_runs WHERE task_id = ? AND fire_at = ?", (place[0], firing.fire_at)
    ).fetchone():
        return None
    is_running = "SELECT 1 FROM scheduled_runs WHERE task_id = ? AND status = 'running' LIMIT 1"
    error = firing.error
    if firing.if_running is not None and db.execute(is_running, place[:1]).fetchone():
        error = firing.if_running
    run = new_run(firing, error)
    values = tuple(getattr(run, name) for name in TaskRun.__struct_fields__)
    db.execute(
        f"INSERT INTO scheduled_runs ({_RUN.replace('scheduled_runs.', '')}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        values,
    )
    if error is None and step is not None:
        _log.append(db, step)
    return run


def new_run(firing: Firing, error: str | None) -> TaskRun:
    """The run of a slot that is taken, or skipped with an error."""
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


def task_runs(
    db: sqlite3.Connection,
    owner: str,
    task_id: str | None = None,
    since: str | None = None,
    until: str | None = None,
    limit: int = 100,
    offset: int = 0,
) -> TaskRunPage:
    """A part of the runs of one task, or of all of a user's, whose slots lie in [since, until);
    newest first."""
    where, values = ["owner = ?"], [owner]
    for condition, value in (
        ("task_id = ?", task_id),
        ("fire_at >= ?", since),
        ("fire_at < ?", until),
    ):
        if value is not None:
            where.append(condition)
            values.append(value)
    those = f"FROM scheduled_runs JOIN scheduled_tasks ON scheduled_tasks.id = task_id WHERE {' AND '.join(where)}"
    total = db.execute(f"SELECT count(*) {those}", values).fetchone()[0]
    rows = db.execute(
        f"SELECT {_RUN} {those} ORDER BY fire_at DESC, scheduled_runs.id LIMIT ? OFFSET ?",
        (*values, limit, offset),
    )
    return TaskRunPage(items=[_run(row) for row in rows], total=total)


def _task(row: tuple[Any, ...]) -> TaskRow:
    values = dict(zip(TaskRow.__struct_fields__, row, strict=True))
    flags = {name: bool(values[name]) for name in ("enabled", "skip_confirmations")}
    return TaskRow(**values | flags)


def _run(row: tuple[Any, ...]) -> TaskRun:
    return TaskRun(**dict(zip(TaskRun.__struct_fields__, row, strict=True)))
