"""Routes of scheduled tasks, their runs and their calendar."""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Query
from fastapi.responses import Response
from msgspec import Struct

from open_token.model.session_types import ScheduledTask, ScheduledTaskRun
from open_token.server.http.auth import ReadCaller, ServicesDep, WriteCaller
from open_token.server.http.openapi import describe_list, describe_response
from open_token.server.http.responses import DEFAULT_LIMIT, json_response, list_response

router = APIRouter(prefix="/api/scheduled-tasks", tags=["scheduled tasks"])

_NEW = {
    "title": "Morning report",
    "prompt": "Sum up what changed since yesterday.",
    "cron": "30 8 * * 1-5",
    "timezone": "Europe/Berlin",
    "enabled": True,
    "expires_at": None,
    "skip_confirmations": True,
    "model": None,
    "allow_overlap": False,
}
_TASK = {
    "id": "task_3Vd0uYc1Q2sX9aLk",
    **_NEW,
    "created_at": "2026-01-30T10:00:00.000Z",
    "updated_at": None,
    "next_run_at": "2026-02-02T07:30:00.000Z",
}
_RUN = {
    "id": "trun_b7Kf20LmZq81XwPa",
    "task_id": _TASK["id"],
    "fire_at": "2026-01-30T07:30:00.000Z",
    "session_id": "sess_Q0x7Ht2mVb3NcY5d",
    "status": "completed",
    "error": None,
    "triggered_at": "2026-01-30T07:30:00.012Z",
    "finished_at": "2026-01-30T07:31:10.400Z",
}
_OCCURRENCES = {
    "task_id": _TASK["id"],
    "title": "Morning report",
    "occurrences": [_RUN["fire_at"], _TASK["next_run_at"]],
}
_MAX_LIMIT = 500


class Occurrences(Struct):
    """The times at which a task ran or is to run."""

    task_id: str
    title: str
    occurrences: list[str]


def _describe(kind: Any, example: Any, status: int = 200) -> dict[int | str, dict[str, Any]]:
    error = {"detail": "cron: bad minute", "code": "bad_cron"}
    invalid = {
        "description": "Invalid values",
        "content": {"application/json": {"example": error}},
    }
    return {**describe_response(kind, example, status=status), 422: invalid}


New = Annotated[Any, Body(openapi_examples={"weekdays": {"value": _NEW}})]
Change = Annotated[Any, Body(openapi_examples={"later": {"value": {"cron": "0 10 * * *"}}})]
Limit = Annotated[int | None, Query(ge=1, le=_MAX_LIMIT)]
Offset = Annotated[int | None, Query(ge=0, le=10**9)]
From = Annotated[str, Query(alias="from", max_length=64, examples=["2026-01-01T00:00:00Z"])]
To = Annotated[str, Query(max_length=64, examples=["2026-02-01T00:00:00Z"])]


@router.post("", status_code=201, responses=_describe(ScheduledTask, _TASK, 201))
async def add(services: ServicesDep, caller: WriteCaller, task: New) -> Response:
    """Create a task: a prompt that is sent to an agent on a schedule, each time in a new session."""
    return json_response(await services.schedules.add(caller.user.id, task), 201)


@router.get("", responses=describe_list(ScheduledTask, _TASK))
async def every(
    services: ServicesDep, caller: ReadCaller, limit: Limit = None, offset: Offset = None
) -> Response:
    """List tasks, oldest first."""
    return list_response(await services.schedules.list_tasks(caller.user.id), limit, offset)


@router.get("/calendar", responses=_describe([Occurrences], [_OCCURRENCES]))
async def calendar(services: ServicesDep, caller: ReadCaller, since: From, to: To) -> Response:
    """List the times within a period at which each task ran or is to run: at most 2,000."""
    return json_response(await services.schedules.build_calendar(caller.user.id, since, to))


@router.get("/{task_id}", responses=_describe(ScheduledTask, _TASK))
async def one(services: ServicesDep, caller: ReadCaller, task_id: str) -> Response:
    """Get a task."""
    return json_response(await services.schedules.get_task(caller.user.id, task_id))


@router.patch("/{task_id}", responses=_describe(ScheduledTask, _TASK))
async def change(
    services: ServicesDep, caller: WriteCaller, task_id: str, changes: Change
) -> Response:
    """Update a task."""
    return json_response(await services.schedules.update_task(caller.user.id, task_id, changes))


@router.delete("/{task_id}", status_code=204, response_class=Response)
async def delete(services: ServicesDep, caller: WriteCaller, task_id: str) -> Response:
    """Delete a task; the sessions of its runs stay."""
    await services.schedules.delete(caller.user.id, task_id)
    return Response(status_code=204)


@router.post("/{task_id}/start", responses=_describe(ScheduledTask, _TASK))
async def start(services: ServicesDep, caller: WriteCaller, task_id: str) -> Response:
    """Enable the schedule of a task."""
    return json_response(
        await services.schedules.update_task(caller.user.id, task_id, {"enabled": True})
    )


@router.post(
    "/{task_id}/stop",
    responses=_describe(ScheduledTask, {**_TASK, "enabled": False, "next_run_at": None}),
)
async def stop(services: ServicesDep, caller: WriteCaller, task_id: str) -> Response:
    """Disable the schedule of a task; a run in progress continues."""
    return json_response(
        await services.schedules.update_task(caller.user.id, task_id, {"enabled": False})
    )


@router.post(
    "/{task_id}/run",
    status_code=201,
    responses=_describe(ScheduledTaskRun, {**_RUN, "status": "running"}, 201),
)
async def run(services: ServicesDep, caller: WriteCaller, task_id: str) -> Response:
    """Start a task now, even when it is disabled."""
    return json_response(await services.schedules.run_now(caller.user.id, task_id), 201)


@router.get("/{task_id}/runs", responses=describe_list(ScheduledTaskRun, _RUN))
async def runs(
    services: ServicesDep,
    caller: ReadCaller,
    task_id: str,
    limit: Limit = None,
    offset: Offset = None,
) -> Response:
    """List the runs of a task, newest first; without `limit` at most 500."""
    if limit is None and offset is None:
        page = await services.schedules.list_runs(caller.user.id, task_id, _MAX_LIMIT, 0)
        return json_response(page["items"])
    page = await services.schedules.list_runs(
        caller.user.id, task_id, limit or DEFAULT_LIMIT, offset or 0
    )
    return json_response(page)
