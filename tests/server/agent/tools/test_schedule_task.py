"""The tool with which an agent sets up work for later."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from helpers.server.scheduling import ANNA, scheduling
from open_token.server.agent.tools.interface import Tool, ToolContext, ToolError
from open_token.server.agent.tools.schedule_task import ScheduleTask
from open_token.server.core.workspace import Workspace

TASK = {"title": "Report", "prompt": "Write it", "cron": "0 9 * * *"}


def called(tmp_path: Path, *calls: dict[str, Any]) -> list[Any]:
    """What each call gave, or its fault; `task_id` of the first one goes into the others."""

    async def whole() -> list[Any]:
        async with scheduling(tmp_path) as (services, _, _):
            place = ToolContext(
                services, ANNA, "sess_1", "turn_1", "call_1", "root", Workspace(tmp_path)
            )
            tool: Tool = ScheduleTask()
            given: list[Any] = []
            for arguments in calls:
                known = {"task_id": given[0]["id"]} if given and "task_id" not in arguments else {}
                try:
                    given.append(await tool.run({**known, **arguments}, place))
                except ToolError as fault:
                    given.append(fault)
            return given

    return asyncio.run(whole())


def test_an_agent_sets_up_looks_at_and_ends_a_task(tmp_path: Path) -> None:
    actions = ["list", "stop", "start", "run", "runs", "delete", "list"]
    made, listed, stopped, started, ran, runs, gone, empty = called(
        tmp_path, {"action": "create", **TASK}, *({"action": action} for action in actions)
    )
    assert listed == {"tasks": [made]}
    assert (stopped["enabled"], started["enabled"], ran["status"]) == (False, True, "running")
    assert (runs["items"], gone, empty) == ([ran], {"deleted": True}, {"tasks": []})


def test_an_agent_changes_a_task(tmp_path: Path) -> None:
    _, changed = called(
        tmp_path, {"action": "create", **TASK}, {"action": "change", "cron": "0 10 * * *"}
    )
    assert changed["next_run_at"] == "2026-01-31T10:00:00.000Z"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "task_id is missing"),
        ({"action": "create", **TASK, "cron": "never"}, "five fields"),
        ({"action": "create", "title": 5}, "title"),
        ({"action": "delete"}, "task_id is missing"),
        ({"action": "run", "task_id": "task_x"}, "no such task"),
        ({"action": "eat", "task_id": "task_x"}, "action must be one of"),
        ({"action": "change", "task_id": ["x"]}, "task_id is missing"),
    ],
)
def test_the_model_is_reported_what_is_wrong(
    tmp_path: Path, arguments: dict[str, Any], words: str
) -> None:
    (fault,) = called(tmp_path, arguments)
    assert isinstance(fault, ToolError)
    assert words in str(fault)
