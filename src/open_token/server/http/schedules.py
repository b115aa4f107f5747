"""Routes of scheduled tasks: set up, change, start and stop, run now, look at what ran and what is
planned."""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Query
from fastapi.responses import Response
from msgspec import Struct

from open_token.model.session_types import ScheduledTask, ScheduledTaskRun
from open_token.server.http.answers import answer
from open_token.server.http.auth import Reader, Serving, Writer
from open_token.server.http.openapi import gives

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
_PLANNED = {
    "task_id": _TASK["id"],
    "title": "Morning report",
    "fire_at": _TASK["next_run_at"],
    "status": "planned",
}


class TaskList(Struct):
    """A part of a user's tasks, oldest first."""

    items: list[ScheduledTask]
    total: int
    limit: int
    offset: int


class RunList(Struct):
    """A part of the runs of a task, newest first."""

    items: list[ScheduledTaskRun]
    total: int
    limit: int
    offset: int


def _shows(kind: Any, example: Any, status: int = 200) -> dict[int | str, dict[str, Any]]:
    refused = {"detail": "cron: bad minute", "code": "bad_cron"}
    bad = {"description": "Bad values", "content": {"application/json": {"example": refused}}}
    return {**gives(kind, example, status=status), 422: bad}


New = Annotated[Any, Body(openapi_examples={"weekdays": {"value": _NEW}})]
Change = Annotated[Any, Body(openapi_examples={"later": {"value": {"cron": "0 10 * * *"}}})]
Limit = Annotated[int, Query(ge=1, le=500)]
Offset = Annotated[int, Query(ge=0, le=10**9)]
From = Annotated[str, Query(alias="from", max_length=64, examples=["2026-01-01T00:00:00Z"])]
To = Annotated[str, Query(max_length=64, examples=["2026-02-01T00:00:00Z"])]


@router.post("", status_code=201, responses=_shows(ScheduledTask, _TASK, 201))
async def add(services: Serving, caller: Writer, task: New) -> Response:
    """Set a task up: words that go to an agent by the clock, each time in a session of their
    own."""
    return answer(await services.schedules.add(caller.user.id, task), 201)


@router.get(
    "", responses=_shows(TaskList, {"items": [_TASK], "total": 1, "limit": 20, "offset": 0})
)
async def every(
    services: Serving, caller: Reader, limit: Limit = 20, offset: Offset = 0
) -> Response:
    """A part of the tasks, oldest first."""
    items = await services.schedules.all(caller.user.id)
    return answer(
        {
            "items": items[offset : offset + limit],
            "total": len(items),
            "limit": limit,
            "offset": offset,
        }
    )


@router.get(
    "/calendar",
    responses=_shows(
        {"type": "object"}, {"items": [_RUN, _PLANNED], "total": 2, "truncated": False}
    ),
)
async def calendar(services: Serving, caller: Reader, since: From, to: To) -> Response:
    """What ran between two times, and what is planned between them."""
    return answer(await services.schedules.calendar(caller.user.id, since, to))


@router.get("/{task_id}", responses=_shows(ScheduledTask, _TASK))
async def one(services: Serving, caller: Reader, task_id: str) -> Response:
    """One task."""
    return answer(await services.schedules.one(caller.user.id, task_id))


@router.patch("/{task_id}", responses=_shows(ScheduledTask, _TASK))
async def change(services: Serving, caller: Writer, task_id: str, changes: Change) -> Response:
    """Give a task other values."""
    return answer(await services.schedules.change(caller.user.id, task_id, changes))


@router.delete("/{task_id}", responses=_shows({"type": "object"}, {"deleted": True}))
async def delete(services: Serving, caller: Writer, task_id: str) -> Response:
    """Take a task away; the sessions of its runs stay."""
    await services.schedules.delete(caller.user.id, task_id)
    return answer({"deleted": True})


@router.post("/{task_id}/start", responses=_shows(ScheduledTask, _TASK))
async def start(services: Serving, caller: Writer, task_id: str) -> Response:
    """Let a task run by the clock, from now on."""
    return answer(await services.schedules.change(caller.user.id, task_id, {"enabled": True}))


@router.post(
    "/{task_id}/stop",
    responses=_shows(ScheduledTask, {**_TASK, "enabled": False, "next_run_at": None}),
)
async def stop(services: Serving, caller: Writer, task_id: str) -> Response:
    """Keep a task from running by the clock; what is under way goes on."""
    return answer(await services.schedules.change(caller.user.id, task_id, {"enabled": False}))


@router.post(
    "/{task_id}/run",
    status_code=201,
    responses=_shows(ScheduledTaskRun, {**_RUN, "status": "running"}, 201),
)
async def run(services: Serving, caller: Writer, task_id: str) -> Response:
    """Start a task now, whether or not it is enabled."""
    return answer(await services.schedules.run_now(caller.user.id, task_id), 201)


@router.get(
    "/{task_id}/runs",
    responses=_shows(RunList, {"items": [_RUN], "total": 1, "limit": 20, "offset": 0}),
)
async def runs(
    services: Serving, caller: Reader, task_id: str, limit: Limit = 20, offset: Offset = 0
) -> Response:
    """A part of the runs of a task, newest first."""
    return answer(await services.schedules.runs(caller.user.id, task_id, limit, offset))
