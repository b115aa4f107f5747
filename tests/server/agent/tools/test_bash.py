"""Bash: what a command says, how it ends, and when it does not run at all."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from helpers.server.tool_server import ToolServer, run_with_tools
from open_token.server.agent.tools.bash import MAX_OUTPUT, Bash
from open_token.server.agent.tools.interface import ToolError
from open_token.server.core.sandbox import Sandbox, find_sandbox

FREE = Sandbox(shell="/bin/bash")


def bash(folder: Path, box: Sandbox = FREE, seconds: float = 20, **arguments: Any) -> Any:
    async def do(shop: ToolServer) -> Any:
        return await Bash(box, seconds).run(arguments, shop.place(PLACE="here"))

    return run_with_tools(folder, do)


def test_what_it_wrote_and_how_it_ended(tmp_path: Path) -> None:
    got = bash(tmp_path, command="echo $PLACE; echo oops >&2; exit 4", description="try it")
    assert got == {"output": "here\noops\n", "exit_code": 4}


@pytest.mark.full
def test_the_same_in_the_sandbox(tmp_path: Path) -> None:
    box = asyncio.run(find_sandbox(False))
    if box.disabled_reason:
        pytest.skip(f"{box.disabled_reason}; `make test-full` installs bubblewrap")
    assert bash(tmp_path, box, command="pwd; echo $PLACE") == {
        "output": "/workspace\nhere\n",
        "exit_code": 0,
    }
    (tmp_path / "2").mkdir()
    with pytest.raises(ToolError, match="stopped after 1 seconds"):
        bash(tmp_path / "2", box, command="sleep 200 & sleep 200", timeout=1)


def test_files_that_it_made_are_reported_and_counted(tmp_path: Path) -> None:
    async def do(shop: ToolServer) -> None:
        shop.workspace.write("a", b"x" * 100)
        await Bash(FREE, 20).run({"command": "echo new > b; rm a"}, shop.place())
        assert [entry.name for entry in shop.workspace.list()] == ["b"]
        assert [one["action"] for one in await shop.signals("workspace:files_changed")] == [
            "command"
        ]

    run_with_tools(tmp_path, do)


def test_long_output_is_cut_in_the_middle(tmp_path: Path) -> None:
    got = bash(
        tmp_path, command="echo begin; head -c 1000000 /dev/zero | tr '\\0' x; echo; echo end"
    )
    assert len(got["output"]) < MAX_OUTPUT + 100
    assert got["output"].startswith("begin\nxxx")
    assert got["output"].endswith("xxx\nend\n")
    assert "bytes omitted" in got["output"]
    assert got["truncated"]


def test_time_is_limited_and_what_was_said_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"stopped after 1 seconds; output until then:\nbegun"):
        bash(tmp_path, seconds=1, command="echo begun; sleep 300", timeout=3000)


@pytest.mark.spec("tool-result-meta")
def test_what_is_for_the_page_is_taken_out_of_the_output(tmp_path: Path) -> None:
    card = '{"rows": 3, "_meta": {"ui": {"resourceHTML": "<b>x</b>"}}}'
    got = bash(tmp_path, command=f"echo '{card}'")
    assert got == {
        "output": '{"rows":3}',
        "exit_code": 0,
        "_meta": {"ui": {"resourceHTML": "<b>x</b>"}},
    }
    for other in ('{"_meta": 1}', '{"_meta": {}} x', '["_meta"]', "{" * 3000 + '"_meta"'):
        folder = tmp_path / str(len(other))
        folder.mkdir()
        assert "_meta" not in bash(folder, command=f"echo '{other}'")


def test_output_that_is_no_text(tmp_path: Path) -> None:
    assert bash(tmp_path, command="printf '\\xff\\x00a'")["output"] == "�\0a"


@pytest.mark.spec("background-tasks")
def test_in_the_background_the_answer_is_a_task(tmp_path: Path) -> None:
    async def do(shop: ToolServer) -> None:
        tool = Bash(FREE, 20)
        got = await tool.run(
            {"command": "echo $PLACE", "run_in_background": True}, shop.place("call_7", PLACE="x")
        )
        (task,) = await shop.services.tasks.list_tasks(shop.session_id)
        assert (got["task_id"], task.tool_call_id, task.command) == (
            task.id,
            "call_7",
            "echo $PLACE",
        )

    run_with_tools(tmp_path, do)


@pytest.mark.parametrize(
    ("box", "arguments", "words"),
    [
        (FREE, {}, "missing required field `command`"),
        (FREE, {"command": ""}, "invalid arguments"),
        (FREE, {"command": "a\0b"}, "a command must be text"),
        (FREE, {"command": "x" * 200_000}, "a command must be text"),
        (FREE, {"command": "true", "timeout": -1}, "invalid arguments"),
        (FREE, {"command": "true", "timeout": float("nan")}, "invalid arguments|not valid JSON"),
        (FREE, {"command": "\ud800"}, "not valid JSON"),
        (FREE, {"command": ["ls"]}, "invalid arguments"),
        (Sandbox(disabled_reason="commands are off"), {"command": "ls"}, "commands are off"),
        (Sandbox(shell="/nowhere/bash"), {"command": "ls"}, "could not be started"),
    ],
)
def test_what_does_not_run_says_why(
    tmp_path: Path, box: Sandbox, arguments: Any, words: str
) -> None:
    with pytest.raises(ToolError, match=words):
        bash(tmp_path, box, **arguments)
