"""Edit: exact, unique, and nothing else changes."""

from pathlib import Path
from typing import Any

import pytest

from helpers.server.tool_server import ToolServer, run_with_tools
from open_token.server.agent.tools.edit import Edit
from open_token.server.agent.tools.interface import ToolError


def edit(folder: Path, data: bytes, old: Any, new: Any, **more: Any) -> tuple[Any, bytes]:
    async def do(shop: ToolServer) -> Any:
        shop.workspace.write("f", data, executable=True)
        got = await Edit().run(
            {"file_path": "f", "old_string": old, "new_string": new, **more}, shop.place()
        )
        assert shop.workspace.resolve("f").stat().st_mode & 0o100
        return got, shop.workspace.read("f")

    return run_with_tools(folder, do)


def test_a_passage_is_replaced_to_the_letter(tmp_path: Path) -> None:
    got, data = edit(tmp_path, b"a\r\nb\r\nc", "b\r\n", "ä$1\\1\n")
    assert got == {"file_path": "f", "replaced": 1}
    assert data == "a\r\nä$1\\1\nc".encode()


def test_wherever_it_stands(tmp_path: Path) -> None:
    got, data = edit(tmp_path, b"aaa", "a", "bb", replace_all=True)
    assert (got["replaced"], data) == (3, b"bbbbbb")


@pytest.mark.parametrize(
    ("data", "old", "new", "more", "words"),
    [
        (b"abc", "x", "y", {}, "not found"),
        (b"abab", "ab", "y", {}, "more than once"),
        (b"aaa", "aa", "y", {}, "more than once"),
        (b"abc", "a", "a", {}, "the same"),
        (b"abc", "", "a", {}, "invalid arguments"),
        (b"\xff", "a", "b", {}, "not UTF-8"),
        (b"a" * 1000, "a", "b" * 100_000, {"replace_all": True}, "too large"),
        (b"a" * (11 << 20), "a", "b", {}, "can be edited"),
        (b"a", "a", "b", {"file_path": "../f"}, "invalid workspace path"),
        (b"a", "a", "b", {"file_path": "g"}, "no such file"),
        (b"a", "a", ["b"], {}, "invalid arguments"),
    ],
)
def test_what_cannot_be_changed_stays(
    tmp_path: Path, data: bytes, old: Any, new: Any, more: Any, words: str
) -> None:
    with pytest.raises(ToolError, match=words):
        edit(tmp_path, data, old, new, **more)
    assert (tmp_path / "data" / "workspaces" / "sess_1" / "f").read_bytes() == data
