"""ScheduleTask: manage scheduled tasks of the user."""

from typing import Any

from open_token.server.agent.tools.interface import Json, ToolContext, ToolError, ToolSpec
from open_token.server.errors import ApiError

_TEXT = {"type": "string"}
_PARAMETERS = {
    "type": "object",
    "properties": {
        "action": {
            "type": "string",
            "enum": ["create", "list", "change", "delete", "start", "stop", "run", "runs"],
            "description": "What to do; `run` starts a task now, `runs` lists what became of it.",
        },
        "task_id": {**_TEXT, "description": "The task; not for `create` and `list`."},
        "title": {**_TEXT, "description": "A few words by which the person knows the task."},
        "prompt": {
            **_TEXT,
            "description": "What the agent is told each time, in a new session that knows no "
            "other.",
        },
        "cron": {
            **_TEXT,
            "description": "Five fields: minute, hour, day of month, month, day of week.",
        },
        "timezone": {
            **_TEXT,
            "description": "In which the cron line is read, as Europe/Berlin; UTC by default.",
        },
        "expires_at": {
            **_TEXT,
            "description": "After which it no longer runs, as 2026-01-31T08:00:00Z.",
        },
        "skip_confirmations": {
            "type": "boolean",
            "description": "Nobody will be there to answer questions.",
        },
        "model": _TEXT,
        "allow_overlap": {
            "type": "boolean",
            "description": "Begin although the run before goes on.",
        },
    },
    "required": ["action"],
}
_MAX_RUNS = 20


class ScheduleTask:
    """Creates, lists, changes and deletes scheduled tasks."""

    spec = ToolSpec(
        name="ScheduleTask",
        description="Set up a task that an agent carries out by the clock, "
        "or look at and change such tasks.",
        parameters=_PARAMETERS,
        display_name="Schedule a task",
    )
    is_idempotent = False

    async def run(self, arguments: Json, context: ToolContext) -> Any:
        """Execute an action; return the task, the tasks or the runs."""
        action = arguments.get("action")
        values = {
            name: value for name, value in arguments.items() if name not in ("action", "task_id")
        }
        try:
            return await _execute(action, arguments.get("task_id"), values, context)
        except ApiError as refusal:
            raise ToolError(refusal.detail) from None


async def _execute(action: Any, task_id: Any, values: Json, context: ToolContext) -> Any:
    schedules = context.services.schedules
    owner = context.owner
    if action == "create":
        return await schedules.add(owner, values)
    if action == "list":
        return {"tasks": await schedules.list_tasks(owner)}
    if not isinstance(task_id, str) or not task_id:
        raise ToolError("task_id is missing")
    if action == "change":
        return await schedules.update_task(owner, task_id, values)
    if action in ("start", "stop"):
        return await schedules.update_task(owner, task_id, {"enabled": action == "start"})
    if action == "run":
        return await schedules.run_now(owner, task_id)
    if action == "runs":
        return await schedules.list_runs(owner, task_id, _MAX_RUNS, 0)
    if action == "delete":
        await schedules.delete(owner, task_id)
        return {"deleted": True}
    raise ToolError("action must be one of create, list, change, delete, start, stop, run, runs")
