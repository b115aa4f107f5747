"""Grep: lines that match, bounded, and no pattern that hangs."""

from pathlib import Path
from typing import Any

import pytest

from helpers.server.tool_server import ToolServer, run_with_tools
from open_token.server.agent.tools import grep
from open_token.server.agent.tools.interface import ToolError

FILES = {
    "a.py": b"import os\nprint(1)\nprint(2)\r\n",
    "src/b.py": b"print(3)\n",
    "src/c.txt": "Größe\n".encode(),
    "bin": b"print\0",
    ".hidden/x": b"print(4)\n",
}


def search(folder: Path, files: dict[str, bytes] | None = None, **arguments: Any) -> Any:
    async def do(shop: ToolServer) -> Any:
        for name, data in (files or FILES).items():
            shop.workspace.write(name, data)
        return await grep.Grep().run(arguments, shop.place())

    return run_with_tools(folder, do)


def test_lines_are_found(tmp_path: Path) -> None:
    assert search(tmp_path, pattern=r"print\(\d\)$")["matches"] == [
        {"path": "a.py", "line": 2, "text": "print(1)"},
        {"path": "a.py", "line": 3, "text": "print(2)"},
        {"path": "src/b.py", "line": 1, "text": "print(3)"},
    ]


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (
            {"pattern": "print", "output_mode": "files_with_matches"},
            {"files": ["a.py", "src/b.py"]},
        ),
        ({"pattern": "print", "output_mode": "count"}, {"counts": {"a.py": 2, "src/b.py": 1}}),
        (
            {"pattern": "print", "output_mode": "files_with_matches", "path": "src"},
            {"files": ["src/b.py"]},
        ),
        (
            {"pattern": "print", "output_mode": "files_with_matches", "path": "a.py"},
            {"files": ["a.py"]},
        ),
        (
            {"pattern": "print", "output_mode": "files_with_matches", "path": ".hidden"},
            {"files": [".hidden/x"]},
        ),
        (
            {"pattern": ".", "output_mode": "files_with_matches", "glob": "*.txt"},
            {"files": ["src/c.txt"]},
        ),
        (
            {"pattern": "PRINT", "output_mode": "count", "ignore_case": True, "glob": "src/*"},
            {"counts": {"src/b.py": 1}},
        ),
        (
            {"pattern": "größe", "ignore_case": True},
            {"matches": [{"path": "src/c.txt", "line": 1, "text": "Größe"}]},
        ),
        ({"pattern": "nowhere"}, {"matches": []}),
    ],
)
def test_ways_to_ask(tmp_path: Path, arguments: Any, answer: Any) -> None:
    assert search(tmp_path, **arguments) == answer


def test_lines_around_are_shown_once(tmp_path: Path) -> None:
    got = search(tmp_path, {"f": b"1\nx\n3\nx\n5"}, pattern="x", context=1)
    assert [match["around"] for match in got["matches"]] == [
        ["1: 1", "2: x", "3: 3"],
        ["4: x", "5: 5"],
    ]


def test_enough_is_enough(tmp_path: Path) -> None:
    got = search(tmp_path, {"f": b"x" * 5000 + b"\n" + b"x\n" * 5000}, pattern="x", limit=3)
    assert (len(got["matches"]), len(got["matches"][0]["text"]), got["truncated"]) == (3, 500, True)
    assert got["note"] == "there are more than 3"


def test_a_search_that_takes_too_long_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grep, "MAX_SECONDS", -1.0)
    assert "took too long" in search(tmp_path, pattern="x")["note"]


def test_a_pattern_that_hangs_elsewhere_does_not_here(tmp_path: Path) -> None:
    assert search(tmp_path, {"f": b"a" * 100_000}, pattern="(a*)*b", limit=1) == {"matches": []}


@pytest.mark.parametrize(
    "arguments",
    [
        {"pattern": "("}, {"pattern": "(?=x)"}, {"pattern": "x{1000}{1000}"}, {"pattern": ""}, {"pattern": "x" * 3000},
        {"pattern": "x", "path": "../.."}, {"pattern": "x", "path": "none"}, {"pattern": "x", "glob": "{"}, {},
        {"pattern": "x", "limit": 0}, {"pattern": "x", "output_mode": "all"}, {"pattern": "x", "context": 99},
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_said(tmp_path: Path, arguments: Any) -> None:
    with pytest.raises(ToolError):
        search(tmp_path, **arguments)
