"""Routes of background tasks: commands that tools left running."""

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import BaseModel

from open_token.model.session_types import TaskStatus, to_builtins
from open_token.server.http._owned import workspace_of
from open_token.server.http._shown import shown
from open_token.server.http.answers import answer
from open_token.server.http.auth import Reader, Serving, Writer

router = APIRouter(prefix="/api/sessions/{session_id}/background-tasks", tags=["background tasks"])

_TASK = {
    "id": "task_4fTq8ZkLw0c2Vb7n",
    "session_id": "sess_7",
    "tool_call_id": "call_3",
    "command": "make test",
    "status": "running",
    "started_at": "2026-03-01T10:00:00.000Z",
    "finished_at": None,
    "exit_code": None,
}


class TaskRow(BaseModel):
    """A command that a tool left running."""

    id: str
    session_id: str
    tool_call_id: str | None
    command: str
    status: TaskStatus
    started_at: str | None
    finished_at: str | None
    exit_code: int | None


class TaskWithOutput(TaskRow):
    """The same with the last lines that it wrote."""

    output: str


class TaskList(BaseModel):
    """A part of the tasks of a session."""

    items: list[TaskRow]
    total: int
    limit: int
    offset: int


@router.get("", responses=shown(TaskList, {"items": [_TASK], "total": 1, "limit": 20, "offset": 0}))
async def list_tasks(
    session_id: str,
    services: Serving,
    caller: Reader,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    offset: Annotated[int, Query(ge=0, le=10_000)] = 0,
) -> Response:
    """The tasks of a session, newest first."""
    await workspace_of(services, caller, session_id)
    found = await services.tasks.of(session_id)
    return answer(
        {
            "items": found[offset : offset + limit],
            "total": len(found),
            "limit": limit,
            "offset": offset,
        }
    )


@router.get("/{task_id}", responses=shown(TaskWithOutput, {**_TASK, "output": "ok\nok\n"}))
async def read_task(
    session_id: str,
    task_id: str,
    services: Serving,
    caller: Reader,
    tail: Annotated[
        int, Query(ge=1, le=5000, description="How many of the last lines of its output.")
    ] = 200,
) -> Response:
    """One task with the last lines that it wrote."""
    await workspace_of(services, caller, session_id)
    task = await services.tasks.one(session_id, task_id)
    return answer({**to_builtins(task), "output": await services.tasks.tail(task, tail)})


@router.post("/{task_id}/stop", responses=shown(TaskRow, {**_TASK, "status": "stopped"}))
async def stop_task(session_id: str, task_id: str, services: Serving, caller: Writer) -> Response:
    """End a task with all that it started; one that has ended stays as it is."""
    await workspace_of(services, caller, session_id)
    return answer(await services.tasks.stop(session_id, task_id))
