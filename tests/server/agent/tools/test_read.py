"""Read: lines, pictures, and what is neither."""

from pathlib import Path
from typing import Any

import pytest

from helpers.server.tool_server import ToolServer, run_with_tools
from open_token.server.agent.tools.interface import ToolError
from open_token.server.agent.tools.read import MAX_BYTES, MAX_IMAGE, Read

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


def read(folder: Path, files: dict[str, bytes], **arguments: Any) -> Any:
    async def do(shop: ToolServer) -> Any:
        for name, data in files.items():
            shop.workspace.write(name, data)
        return await Read().run(arguments, shop.place())

    return run_with_tools(folder, do)


def test_lines_come_as_they_are(tmp_path: Path) -> None:
    got = read(tmp_path, {"a.txt": "eins\r\nzwei ä\n".encode()}, file_path="a.txt")
    assert got == {
        "file_path": "a.txt",
        "content": "eins\r\nzwei ä\n",
        "start_line": 1,
        "bytes": 14,
    }


def test_a_part_of_the_lines(tmp_path: Path) -> None:
    data = b"".join(b"%d\n" % number for number in range(1, 11))
    got = read(tmp_path, {"a": data}, path="a", offset="3", limit=2)
    assert (got["content"], got["start_line"], got["truncated"], got["next_line"]) == (
        "3\n4\n",
        3,
        True,
        5,
    )
    (tmp_path / "2").mkdir()
    assert "truncated" not in read(tmp_path / "2", {"a": data}, file_path="a", offset=9)


def test_behind_the_end_there_is_nothing(tmp_path: Path) -> None:
    assert read(tmp_path, {"a": b"x"}, file_path="a", offset=5)["note"] == "the file has no line 5"


@pytest.mark.parametrize(
    "data", [b"x" * (3 * MAX_BYTES), b"x" * MAX_BYTES + b"\ny\n", b"ab\n" * MAX_BYTES]
)
def test_answers_are_bounded(tmp_path: Path, data: bytes) -> None:
    got = read(tmp_path, {"a": data}, file_path="a")
    assert len(got["content"]) <= MAX_BYTES
    assert got["truncated"]
    assert got["next_line"] > 1


def test_a_picture_comes_as_media(tmp_path: Path) -> None:
    media = read(tmp_path, {"a.png": PNG}, file_path="a.png")["media"]
    assert (media["media_type"], media["bytes"], media["encoding"]) == ("image/png", 28, "base64")


@pytest.mark.parametrize(
    ("files", "arguments", "words"),
    [
        ({"a": b"\0\1"}, {"file_path": "a"}, "binary file of 2 bytes"),
        ({"a": PNG + bytes(MAX_IMAGE)}, {"file_path": "a"}, "at most"),
        ({}, {"file_path": "a"}, "no such file"),
        ({}, {"file_path": "../../server.db"}, "invalid workspace path"),
        ({}, {"file_path": "/etc/passwd"}, "must be relative"),
        ({"d/a": b""}, {"file_path": "d"}, "a folder"),
        ({}, {}, "missing required field `file_path`"),
        ({}, {"file_path": 7}, "invalid arguments"),
        ({}, {"file_path": "a", "offset": 0}, "invalid arguments"),
        ({}, {"file_path": "a", "limit": 10**30}, "invalid arguments"),
        ({}, {"file_path": "a", "more": 1}, "unknown field"),
        ({}, {"file_path": "\ud800"}, "not valid JSON"),
    ],
)
def test_what_cannot_be_read_says_why(
    tmp_path: Path, files: Any, arguments: Any, words: str
) -> None:
    with pytest.raises(ToolError, match=words):
        read(tmp_path, files, **arguments)
