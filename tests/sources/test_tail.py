"""A file that is being written: every line once, also if the file is replaced or cut."""

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest

from open_token.sources.tail import Tail


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

    tail = Tail(path, "session", idle, lambda: None)
    return [record["n"] for _, record in tail.records()]


def append(path: Path, data: bytes) -> Callable[[], object]:
    def step() -> None:
        with path.open("ab") as out:
            out.write(data)

    return step


def test_lines_as_they_come(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(line(1))
    assert numbers(path, append(path, line(2) + line(3)), append(path, line(4))) == [1, 2, 3, 4]


def test_a_packed_file_ends_though_its_lines_are_longer_than_it(tmp_path: Path) -> None:
    """Found by the fuzzer: what was unpacked was taken for more than there is, and read for
    ever."""
    path = tmp_path / "session.jsonl.gz"
    path.write_bytes(gzip.compress(line(1, pad=5000) + line(2, pad=5000)))
    assert numbers(path) == [1, 2]


def test_half_a_line_waits_for_its_other_half(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(line(1))
    half = line(2, pad=200_000)
    assert numbers(
        path, append(path, half[:9]), append(path, half[9:]), append(path, half[:5])
    ) == [1, 2]


def test_a_rewritten_file_is_not_reported_twice(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(line(1) + line(2) + line(2))

    def rewrite() -> None:
        path.write_bytes(line(1))

    def again() -> None:
        path.write_bytes(line(1) + line(2) + line(2) + line(2) + line(5))

    assert numbers(path, rewrite, again) == [1, 2, 2, 2, 5]


def test_a_replaced_file_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(line(1) + line(2))

    def rotate() -> None:
        (tmp_path / "new").write_bytes(line(2) + line(3))
        os.replace(tmp_path / "new", path)

    def gone() -> None:
        path.unlink()

    def back() -> None:
        path.write_bytes(line(4))

    assert numbers(path, rotate, gone, back, lambda: None) == [1, 2, 3, 4]


def test_a_file_written_anew_that_became_longer_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(line(1) + line(2))
    longer = line(1, pad=50) + line(2) + line(3)
    assert numbers(path, lambda: path.write_bytes(longer), append(path, line(4))) == [1, 2, 1, 3, 4]


def test_a_file_written_anew_with_as_many_bytes_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(line(1) + line(2))

    def rewrite() -> None:
        path.write_bytes(line(1) + line(3))
        os.utime(path, (2_000_000_000, 2_000_000_000))

    assert numbers(path, rewrite, append(path, line(4))) == [1, 2, 3, 4]


def test_half_a_line_that_was_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(line(1))
    other = line(1) + line(3, pad=9)
    assert numbers(
        path, append(path, line(2)[:7]), lambda: path.write_bytes(other), lambda: None
    ) == [1, 3]


def test_the_last_lines_of_a_file_that_was_moved_away_count(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(line(1))

    def rotate() -> None:
        path.rename(tmp_path / "old")
        append(tmp_path / "old", line(2))()
        path.write_bytes(line(3))

    assert numbers(path, rotate, append(path, line(4))) == [1, 2, 3, 4]


def test_file_missing_while_it_is_reopened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(line(1))
    (tmp_path / "new").write_bytes(line(2))
    opened = Tail.open
    away: list[int] = []

    def not_at_once(tail: Tail) -> BinaryIO:
        if path.stat().st_ino != first and len(away) < 3:
            away.append(1)
            raise FileNotFoundError(2, "No such file or directory")
        return opened(tail)

    first = path.stat().st_ino
    monkeypatch.setattr(Tail, "open", not_at_once)
    assert numbers(path, lambda: os.replace(tmp_path / "new", path), *[lambda: None] * 4) == [1, 2]
    assert len(away) == 3


def test_what_goes_wrong_while_it_waits_is_no_fault_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(line(1))

    def full() -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        numbers(path, full)


def test_what_lies_beside_it_is_read_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(line(1))
    (tmp_path / "beside.json").write_bytes(b'{"title": "x"}')
    tail = Tail(path, "session", lambda: False, lambda: None)
    beside = tail.open_sibling("beside.json")
    assert beside is not None
    assert beside.document == {"title": "x"}
    assert [other.name for other in tail.find_siblings("*.json")] == [str(tmp_path / "beside.json")]
