"""A file that is being written: every line once, whatever happens to the file."""

import json
import os
from collections.abc import Callable
from pathlib import Path

from open_token.tail import Tail


def line(number: int, pad: int = 0) -> bytes:
    return json.dumps({"n": number, "pad": "x" * pad}).encode() + b"\n"


def numbers(path: Path, *steps: Callable[[], object]) -> list[int]:
    """What a tail gives while things happen, one after the other, whenever it has nothing new."""
    waiting = list(steps)

    def idle() -> bool:
        if not waiting:
            return False
        waiting.pop(0)()
        return True

    tail = Tail(path, "talk", idle, lambda: None)
    return [record["n"] for _, record in tail.records()]


def append(path: Path, data: bytes) -> Callable[[], object]:
    def step() -> None:
        with path.open("ab") as out:
            out.write(data)

    return step


def test_lines_as_they_come(tmp_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    path.write_bytes(line(1))
    assert numbers(path, append(path, line(2) + line(3)), append(path, line(4))) == [1, 2, 3, 4]


def test_half_a_line_waits_for_its_other_half(tmp_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    path.write_bytes(line(1))
    half = line(2, pad=200_000)
    assert numbers(path, append(path, half[:9]), append(path, half[9:]), append(path, half[:5])) == [1, 2]


def test_a_rewritten_file_is_not_told_twice(tmp_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    path.write_bytes(line(1) + line(2) + line(2))

    def rewrite() -> None:
        path.write_bytes(line(1))

    def again() -> None:
        path.write_bytes(line(1) + line(2) + line(2) + line(2) + line(5))

    assert numbers(path, rewrite, again) == [1, 2, 2, 2, 5]


def test_a_replaced_file_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    path.write_bytes(line(1) + line(2))

    def rotate() -> None:
        (tmp_path / "new").write_bytes(line(2) + line(3))
        os.replace(tmp_path / "new", path)

    def gone() -> None:
        path.unlink()

    def back() -> None:
        path.write_bytes(line(4))

    assert numbers(path, rotate, gone, back, lambda: None) == [1, 2, 3, 4]


def test_what_lies_beside_it_is_read_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    path.write_bytes(line(1))
    (tmp_path / "beside.json").write_bytes(b'{"title": "x"}')
    tail = Tail(path, "talk", lambda: False, lambda: None)
    beside = tail.neighbour("beside.json")
    assert beside is not None
    assert beside.document == {"title": "x"}
    assert [other.name for other in tail.neighbours("*.json")] == [str(tmp_path / "beside.json")]
