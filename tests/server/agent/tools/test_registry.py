"""The catalogue: which tools a session has."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from helpers.server.tool_server import ToolServer, run_with_tools
from open_token.server.agent.tools.registry import RenamedTool, list_session_tools
from open_token.server.store.interface import NotFoundError

OURS = {"Bash", "Edit", "Glob", "Grep", "Read", "Remember", "ScheduleTask", "Skill", "Write"}


def test_all_our_tools_with_schemas_and_names_for_people(tmp_path: Path) -> None:
    async def do(shop: ToolServer) -> None:
        tools = await list_session_tools(shop.services, shop.owner, shop.session_id)
        assert set(tools) == OURS
        for name, tool in tools.items():
            assert tool.spec.name == name
            assert tool.spec.description
            assert tool.spec.display_name
            assert tool.spec.parameters["type"] == "object"
            assert "$ref" not in str(tool.spec.parameters)
        with pytest.raises(NotFoundError):
            await list_session_tools(shop.services, "user_other", shop.session_id)

    run_with_tools(tmp_path, do, allow_unsandboxed=True)


@pytest.mark.parametrize(
    ("off", "gone"),
    [
        (["Bash", "Write"], {"Bash", "Write"}),
        ("Read", {"Read"}),
        ([1, None, "Nothing"], set()),
        ({"a": 1}, set()),
    ],
)
def test_what_a_session_does_without(tmp_path: Path, off: Any, gone: set[str]) -> None:
    async def do(shop: ToolServer) -> None:
        session = {"id": "sess_2", "disable_tools": off, "memory_enabled": False}
        await shop.services.journal.create(shop.owner, session)
        assert set(await list_session_tools(shop.services, shop.owner, "sess_2")) == OURS - gone - {
            "Remember"
        }

    run_with_tools(tmp_path, do, allow_unsandboxed=True)


def test_names_for_people_can_be_translated(tmp_path: Path) -> None:
    async def do(shop: ToolServer) -> None:
        tools = await list_session_tools(shop.services, shop.owner, shop.session_id)
        assert (tools["Read"].spec.display_name, tools["Read"].spec.name) == ("Datei lesen", "Read")
        assert isinstance(tools["Read"], RenamedTool)
        shop.workspace.write("a", b"x")
        assert (await tools["Read"].run({"file_path": "a"}, shop.place()))["content"] == "x"

    run_with_tools(tmp_path, do, display_names={"Read": "Datei lesen", "Unknown": "?"})


def test_without_a_sandbox_there_is_no_bash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("open_token.server.core.sandbox.shutil.which", lambda name, path: None)

    async def do(shop: ToolServer) -> None:
        both = await asyncio.gather(
            *(list_session_tools(shop.services, shop.owner, shop.session_id) for _ in range(2))
        )
        assert set(both[0]) == OURS - {"Bash"}

    run_with_tools(tmp_path, do)
