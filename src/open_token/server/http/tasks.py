"""Routes of background tasks."""

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import BaseModel

from open_token.model.session_types import TaskStatus, to_builtins
from open_token.server.http.auth import ReadCaller, ServicesDep, WriteCaller, get_workspace
from open_token.server.http.openapi import describe_list, describe_model
from open_token.server.http.responses import json_response, list_response

router = APIRouter(prefix="/api/sessions/{session_id}", tags=["background tasks"])

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
    """A command that runs in the background."""

    id: str
    session_id: str
    tool_call_id: str | None
    command: str
    status: TaskStatus
    started_at: str | None
    finished_at: str | None
    exit_code: int | None


class TaskWithOutput(TaskRow):
    """A task with the end of its output."""

    output: str


@router.get("/tasks", responses=describe_list(TaskRow, _TASK))
@router.get("/background-tasks", responses=describe_list(TaskRow, _TASK))
async def list_tasks(
    session_id: str,
    services: ServicesDep,
    caller: ReadCaller,
    limit: Annotated[int | None, Query(ge=1, le=100)] = None,
    offset: Annotated[int | None, Query(ge=0, le=10_000)] = None,
) -> Response:
    """List the tasks of a session, newest first."""
    # Raises a 404 for sessions of other users.
    await get_workspace(services, caller, session_id)
    return list_response(await services.tasks.list_tasks(session_id), limit, offset)


@router.get(
    "/background-tasks/{task_id}",
    responses=describe_model(TaskWithOutput, {**_TASK, "output": "ok\nok\n"}),
)
async def read_task(
    session_id: str,
    task_id: str,
    services: ServicesDep,
    caller: ReadCaller,
    tail: Annotated[
        int, Query(ge=1, le=5000, description="The number of lines from the end of the output.")
    ] = 100,
) -> Response:
    """Get a task with the end of its output."""
    await get_workspace(services, caller, session_id)
    task = await services.tasks.get(session_id, task_id)
    return json_response({**to_builtins(task), "output": await services.tasks.tail(task, tail)})


@router.post(
    "/background-tasks/{task_id}/stop",
    responses=describe_model(TaskRow, {**_TASK, "status": "stopped"}),
)
async def stop_task(
    session_id: str, task_id: str, services: ServicesDep, caller: WriteCaller
) -> Response:
    """Stop a task and everything that it started; a finished one stays as it is."""
    await get_workspace(services, caller, session_id)
    return json_response(await services.tasks.stop(session_id, task_id))
