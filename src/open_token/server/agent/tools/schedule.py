"""The tool with which an agent sets up work for later: scheduled tasks of the one it talks with."""

from typing import Any

from open_token.server.agent.tools.interface import Json, Place, ToolFault, ToolSpec
from open_token.server.refusals import Refused

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
            "description": "What the agent is told each time, in a new session that knows no other.",
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
_MOST_RUNS = 20


class ScheduleTask:
    """Sets up, lists, changes and ends scheduled tasks."""

    spec = ToolSpec(
        name="ScheduleTask",
        description="Set up a task that an agent carries out by the clock, or look at and change such tasks.",
        parameters=_PARAMETERS,
        display_name="Schedule a task",
    )
    is_idempotent = False

    async def run(self, arguments: Json, place: Place) -> Any:
        """Do what the arguments say; gives the task, the tasks or the runs."""
        action = arguments.get("action")
        values = {
            name: value for name, value in arguments.items() if name not in ("action", "task_id")
        }
        try:
            return await _done(action, arguments.get("task_id"), values, place)
        except Refused as refusal:
            raise ToolFault(refusal.detail) from None


async def _done(action: Any, task_id: Any, values: Json, place: Place) -> Any:
    schedules, owner = place.services.schedules, place.owner
    if action == "create":
        return await schedules.add(owner, values)
    if action == "list":
        return {"tasks": await schedules.all(owner)}
    if not isinstance(task_id, str) or not task_id:
        raise ToolFault("task_id is missing")
    if action == "change":
        return await schedules.change(owner, task_id, values)
    if action in ("start", "stop"):
        return await schedules.change(owner, task_id, {"enabled": action == "start"})
    if action == "run":
        return await schedules.run_now(owner, task_id)
    if action == "runs":
        return await schedules.runs(owner, task_id, _MOST_RUNS, 0)
    if action == "delete":
        await schedules.delete(owner, task_id)
        return {"deleted": True}
    raise ToolFault("action is one of create, list, change, delete, start, stop, run, runs")
