"""Glob: files by pattern, in the order of their names."""

from pathlib import Path
from typing import Any

import pytest

from helpers.server.tool_server import ToolServer, run_with_tools
from open_token.server.agent.tools.glob import MAX_FILES, Glob
from open_token.server.agent.tools.interface import ToolError

FILES = [
    "a.py",
    "b.txt",
    "src/c.py",
    "src/deep/d.py",
    "src/deep/e.md",
    ".git/config",
    "x[1].py",
    "a+b.txt",
]


def glob(folder: Path, **arguments: Any) -> Any:
    async def do(shop: ToolServer) -> Any:
        for name in FILES:
            shop.workspace.write(name, b"")
        (shop.workspace.folder / "link.py").symlink_to("a.py")
        return await Glob().run(arguments, shop.place())

    return run_with_tools(folder, do)


@pytest.mark.parametrize(
    ("pattern", "path", "found"),
    [
        ("*.py", "", ["a.py", "x[1].py"]),
        ("**/*.py", "", ["a.py", "src/c.py", "src/deep/d.py", "x[1].py"]),
        ("*.py", "src", ["src/c.py"]),
        ("**/*.{md,txt}", ".", ["a+b.txt", "b.txt", "src/deep/e.md"]),
        ("[ab].*", "", ["a.py", "b.txt"]),
        ("[!a].*", "", ["b.txt"]),
        ("?.py", "./src/", ["src/c.py"]),
        ("src/**", "", ["src/c.py", "src/deep/d.py", "src/deep/e.md"]),
        (".git/*", "", [".git/config"]),
        ("a+b.*", "", ["a+b.txt"]),
        ("nothing", "", []),
    ],
)
def test_patterns(tmp_path: Path, pattern: str, path: str, found: list[str]) -> None:
    assert glob(tmp_path, pattern=pattern, path=path) == {"files": found, "count": len(found)}


@pytest.mark.parametrize(
    "arguments",
    [
        {"pattern": "{a,b"}, {"pattern": "[z-a]"}, {"pattern": ""}, {"pattern": "*" * 2000}, {"pattern": "a}"}, {},
        {"pattern": "*", "path": ".."}, {"pattern": "*", "path": "none"}, {"pattern": "*", "path": "a.py"},
        {"pattern": 3},
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_said(tmp_path: Path, arguments: Any) -> None:
    with pytest.raises(ToolError):
        glob(tmp_path, **arguments)


def test_many_files_are_cut(tmp_path: Path) -> None:
    async def do(shop: ToolServer) -> Any:
        folder = shop.workspace.make()
        for number in range(MAX_FILES + 5):
            (folder / str(number)).touch()
        return await Glob().run({"pattern": "*" * 500}, shop.place())

    got = run_with_tools(tmp_path, do)
    assert (len(got["files"]), got["count"], got["truncated"]) == (MAX_FILES, MAX_FILES + 5, True)
