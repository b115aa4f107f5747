"""The routes of skills."""

from pathlib import Path
from typing import Any

import pytest

from helpers.server.tool_server import ToolServer, run_with_tools

MAIN = {"path": "SKILL.md", "content": "---\nname: greet\ndescription: Greets.\n---\nHello.\n"}


@pytest.mark.spec("skill-upload", "skills-changed-event")
def test_a_skill_is_uploaded_and_listed(tmp_path: Path) -> None:
    async def do(shop: ToolServer) -> None:
        files = [
            MAIN,
            {"path": "bin/x", "content": "AP8=", "encoding": "base64", "executable": True},
        ]
        stored = {
            "name": "team/greet",
            "skill_dir": ".skills/team/greet",
            "file_count": 2,
            "overwritten": False,
        }
        assert (
            await shop.ask("POST", "skills:upload", {"name": "team/greet", "files": files})
        ).json() == stored
        again = await shop.ask("POST", "skills:upload", {"name": "team/greet", "files": files})
        assert again.json()["overwritten"] is True
        assert shop.workspace.read(".skills/team/greet/bin/x") == b"\x00\xff"
        listed = (await shop.ask("GET", "skills")).json()
        assert len(listed) == 2
        assert listed[0] == {
            "id": "team/greet", "name": "team/greet", "description": "Greets.", "source": "session", "skill_dir": ".skills/team/greet",
        }  # fmt: skip
        assert (listed[1]["name"], listed[1]["skill_dir"]) == (
            "stream-of-consciousness",
            None,
        )
        part = (await shop.ask("GET", "skills?limit=1&offset=1")).json()
        assert part == {"items": listed[1:], "total": 2, "limit": 1, "offset": 1}
        assert [one["overwritten"] for one in await shop.signals("skills:changed")] == [False, True]

    run_with_tools(tmp_path, do)


@pytest.mark.spec("skill-upload")
@pytest.mark.parametrize(
    "body",
    [
        {}, [], {"name": "a"}, {"name": "a", "files": []}, {"name": "A b", "files": [MAIN]},
        {"name": "..", "files": [MAIN]},
        {"name": "a", "files": [{**MAIN, "path": "skill.md"}]}, {"name": "a", "files": [MAIN, MAIN]},
        {"name": "a", "files": [MAIN, {"path": "../x", "content": ""}]},
        {"name": "a", "files": [MAIN, {"path": "x", "content": "!", "encoding": "base64"}]},
        {"name": "a", "files": [MAIN, {"path": "x", "content": "", "encoding": "rot13"}]},
        {"name": "a", "files": [{**MAIN, "content": 5}]}, {"name": ["a"], "files": [MAIN]}, {"name": "a", "files": "x"},
        {"name": "a", "files": [{"path": str(n), "content": ""} for n in range(201)]},
    ],
)  # fmt: skip
def test_what_is_no_skill_leaves_nothing(tmp_path: Path, body: Any) -> None:
    async def do(shop: ToolServer) -> None:
        got = await shop.ask("POST", "skills:upload", body)
        assert got.status in (400, 422)
        assert got.json()["detail"]
        assert [entry.path for entry in shop.workspace.files()] in ([], [".skills"])

    run_with_tools(tmp_path, do)


def test_whose_skills(tmp_path: Path) -> None:
    async def do(shop: ToolServer) -> None:
        body = {"name": "a", "files": [MAIN]}
        for who, status in (("other", 404), ("nobody", 401), ("reader", 403)):
            assert (await shop.ask("POST", "skills:upload", body, who=who)).status == status
        for who, status in (("other", 404), ("nobody", 401), ("reader", 200)):
            assert (await shop.ask("GET", "skills", who=who)).status == status

    run_with_tools(tmp_path, do)
