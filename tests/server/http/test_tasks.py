"""The routes of background tasks."""

import asyncio
from pathlib import Path

import pytest

from helpers.server.tool_server import ToolServer, run_with_tools
from open_token.server.core.sandbox import CommandLimits, Sandbox


async def begin(shop: ToolServer, script: str) -> str:
    command = Sandbox(shell="/bin/bash").command(
        shop.workspace.make(), script, {}, 60, CommandLimits(disk_bytes=1 << 20)
    )
    return (
        await shop.services.tasks.start(shop.owner, shop.session_id, "call_1", script, command)
    ).id


@pytest.mark.spec("background-task-routes", "type-background-task", "type-task-status")
def test_tasks_are_listed_read_and_stopped(tmp_path: Path) -> None:
    async def do(shop: ToolServer) -> None:
        assert (await shop.ask("GET", "background-tasks")).json() == []
        task = await begin(shop, "echo one; echo two; sleep 300")
        while "two" not in (await shop.ask("GET", f"background-tasks/{task}")).json()["output"]:
            await asyncio.sleep(0.01)
        got = (await shop.ask("GET", f"background-tasks/{task}?tail=1")).json()
        assert (got["output"], got["status"], got["session_id"]) == (
            "two\n",
            "running",
            shop.session_id,
        )
        fields = (
            "id session_id tool_call_id command status started_at finished_at exit_code".split()
        )
        assert set(fields) <= got.keys()
        assert (got["id"], got["tool_call_id"], got["finished_at"], got["exit_code"]) == (
            task,
            "call_1",
            None,
            None,
        )
        listed = (await shop.ask("GET", "background-tasks?limit=1")).json()
        (item,) = listed.pop("items")
        assert listed == {"total": 1, "limit": 1, "offset": 0}
        assert item == {
            "id": task,
            "session_id": shop.session_id,
            "tool_call_id": "call_1",
            "command": "echo one; echo two; sleep 300",
            "status": "running",
            "started_at": got["started_at"],
            "finished_at": None,
            "exit_code": None,
        }
        stopped = (await shop.ask("POST", f"background-tasks/{task}/stop")).json()
        assert stopped == {
            **item,
            "status": "stopped",
            "finished_at": stopped["finished_at"],
            "exit_code": stopped["exit_code"],
        }
        assert stopped["finished_at"] >= stopped["started_at"]
        assert (await shop.ask("POST", f"background-tasks/{task}/stop")).json() == stopped
        again = (await shop.ask("GET", f"background-tasks/{task}")).json()
        assert again == {**stopped, "output": "one\ntwo\n"}

    run_with_tools(tmp_path, do)


def test_what_is_not_there_or_not_ones_own(tmp_path: Path) -> None:
    async def do(shop: ToolServer) -> None:
        task = await begin(shop, "true")
        for name in ("none", "..%2F..%2Fx", "%00", "x" * 3000):
            assert (await shop.ask("GET", f"background-tasks/{name}")).status == 404
            assert (await shop.ask("POST", f"background-tasks/{name}/stop")).status == 404
        for tail in ("0", "-1", "x", "99999999999999999999"):
            assert (await shop.ask("GET", f"background-tasks/{task}?tail={tail}")).status == 422
        for who, status in (("other", 404), ("nobody", 401)):
            for method, route in (("GET", ""), ("GET", f"/{task}"), ("POST", f"/{task}/stop")):
                assert (
                    await shop.ask(method, f"background-tasks{route}", who=who)
                ).status == status
        assert (await shop.ask("POST", f"background-tasks/{task}/stop", who="reader")).status == 403

    run_with_tools(tmp_path, do)
