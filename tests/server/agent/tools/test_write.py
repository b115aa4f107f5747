"""Write: whole files, inside the workspace only."""

from pathlib import Path
from typing import Any

import pytest

from helpers.server.tool_server import ToolServer, run_with_tools
from open_token.server.agent.tools.interface import ToolError
from open_token.server.agent.tools.write import Write
from open_token.server.config import Limits


def test_a_file_is_written_and_those_who_watch_are_reported(tmp_path: Path) -> None:
    async def do(shop: ToolServer) -> None:
        got = await Write().run({"file_path": "d/a.txt", "content": "ä"}, shop.place())
        assert got == {"file_path": "d/a.txt", "bytes": 2}
        assert shop.workspace.read("d/a.txt") == "ä".encode()
        await Write().run({"path": "d/a.txt", "content": ""}, shop.place())
        assert shop.workspace.read("d/a.txt") == b""
        assert [one["paths"] for one in await shop.signals("workspace:files_changed")] == [
            ["d/a.txt"]
        ] * 2

    run_with_tools(tmp_path, do)


@pytest.mark.parametrize(
    "arguments",
    [
        {"file_path": "../a", "content": "x"},
        {"file_path": "", "content": "x"},
        {"file_path": "a", "content": "\ud800"},
        {"file_path": "a", "content": None},
        {"file_path": "a"},
        {"file_path": "a", "content": "x" * 2000},
    ],
)
def test_what_cannot_be_written_leaves_nothing(tmp_path: Path, arguments: Any) -> None:
    async def do(shop: ToolServer) -> None:
        with pytest.raises(ToolError):
            await Write().run(arguments, shop.place())
        assert shop.workspace.list() == []
        assert await shop.signals("workspace:files_changed") == []

    run_with_tools(tmp_path, do, limits=Limits(workspace_bytes=1000))
