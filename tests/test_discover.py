"""What is found on a disk: every reader's places, newest first, and who is meant by an id or a folder."""

import gzip
import os
from pathlib import Path
from typing import Any

import pytest

import fake_talk
from fake_talk import write
from open_token.discover import Session, by_id, in_folder, look, of_folder, sessions


@pytest.fixture(autouse=True)
def only_fake_talks(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_talk.install(monkeypatch)


def stems(found: Any) -> list[str]:
    return [session.path.stem for session in found]


def test_the_usual_places_newest_first(tmp_path: Path) -> None:
    write(tmp_path / ".fake" / "a" / "old.jsonl", 500)
    write(tmp_path / ".fake" / "b" / "new.jsonl", 5)
    write(tmp_path / ".fake" / "b" / "same.jsonl", 500)
    write(tmp_path / "elsewhere" / "other.jsonl", 1)
    found = sessions({}, tmp_path)
    assert stems(found) == ["new", "old", "same"]
    assert found[0] == Session("new", "fake_talk", found[0].path, 1_699_999_995.0, found[0].path.stat().st_size)


def test_a_variable_names_a_place(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere" / "one.jsonl")
    env = {"FAKE_HOME": str(tmp_path / "elsewhere")}
    assert stems(sessions(env, tmp_path)) == ["one"]
    assert stems(sessions({"FAKE_HOME": ""}, tmp_path)) == []
    assert stems(sessions({"FAKE_HOME": str(tmp_path / "nowhere")}, tmp_path)) == []


def test_two_places_of_one_file_count_once(tmp_path: Path) -> None:
    write(tmp_path / ".fake" / "a" / "one.jsonl")
    assert stems(sessions({"FAKE_HOME": str(tmp_path / ".fake" / "a")}, tmp_path)) == ["one"]


def test_what_is_no_file_with_bytes_is_passed_over(tmp_path: Path) -> None:
    folder = tmp_path / ".fake" / "a"
    write(folder / "one.jsonl")
    (folder / "empty.jsonl").write_bytes(b"")
    (folder / "folder.jsonl").mkdir()
    (folder / "dangling.jsonl").symlink_to(folder / "nowhere")
    os.mkfifo(folder / "pipe.jsonl")
    assert stems(sessions({}, tmp_path)) == ["one"]


def test_parts_of_a_conversation_are_none_of_their_own(tmp_path: Path) -> None:
    write(tmp_path / ".fake" / "a" / "whole.jsonl", 10)
    write(tmp_path / ".fake" / "a" / "part-1.jsonl", 5)
    assert stems(sessions({}, tmp_path)) == ["whole"]
    assert stems(in_folder(tmp_path)) == ["whole"]


class TestLook:
    """What the first lines tell."""

    def test_id_folder_and_title(self, tmp_path: Path) -> None:
        write(tmp_path / ".fake" / "a" / "file.jsonl", id="own-id", cwd="/home/ada", title="  two\n words ")
        seen = look(sessions({}, tmp_path)[0])
        assert (seen.id, seen.cwd, seen.title) == ("own-id", "/home/ada", "two words")

    def test_a_long_first_line_is_read_whole(self, tmp_path: Path) -> None:
        write(tmp_path / ".fake" / "a" / "file.jsonl", padding="x" * 300_000, title="here")
        assert look(sessions({}, tmp_path)[0]).title == "here"

    def test_a_long_title_is_cut(self, tmp_path: Path) -> None:
        write(tmp_path / ".fake" / "a" / "file.jsonl", title="word " * 100)
        assert len(look(sessions({}, tmp_path)[0]).title or "") == 160

    @pytest.mark.parametrize("odd", [5, None, [], {"a": 1}, "", True])
    def test_odd_facts_are_no_facts(self, tmp_path: Path, odd: Any) -> None:
        path = write(tmp_path / ".fake" / "a" / "file.jsonl", cwd=odd, title=odd)
        path.write_text(path.read_text().replace('"fake_talk": "file"', '"fake_talk": 5'))
        seen = look(sessions({}, tmp_path)[0])
        assert (seen.id, seen.cwd, seen.title) == ("file", None, None)

    @pytest.mark.parametrize("data", [b"not json\n", b"\xff\xfe\0\0", b"\x1f\x8bbroken", b"[" * 100_000])
    def test_a_broken_file_tells_nothing(self, tmp_path: Path, data: bytes) -> None:
        path = write(tmp_path / ".fake" / "a" / "file.jsonl")
        path.write_bytes(data)
        assert look(sessions({}, tmp_path)[0]).title is None


ID = "019c0000-1111-7222-8333-444455556666"


class TestById:
    """An id or the start of one."""

    @pytest.fixture
    def found(self, tmp_path: Path) -> list[Session]:
        for name in ("abc", "abcdef", "xyz", f"rollout-2026-01-31T10-00-00-{ID}"):
            write(tmp_path / ".fake" / "a" / f"{name}.jsonl")
        return sessions({}, tmp_path)

    def test_the_id_is_the_end_of_a_long_name(self, found: list[Session]) -> None:
        assert {session.id for session in found} == {"abc", "abcdef", "xyz", ID}

    @pytest.mark.parametrize(
        ("word", "meant"),
        [
            ("xyz", ["xyz"]),
            ("x", ["xyz"]),
            ("XY", ["xyz"]),
            ("abcd", ["abcdef"]),
            ("ab", ["abc", "abcdef"]),
            ("abc", ["abc"]),
            ("019c", [f"rollout-2026-01-31T10-00-00-{ID}"]),
            (ID.upper(), [f"rollout-2026-01-31T10-00-00-{ID}"]),
            ("rollout-2026", [f"rollout-2026-01-31T10-00-00-{ID}"]),
            ("yz", []),
        ],
    )
    def test_who_is_meant(self, found: list[Session], word: str, meant: list[str]) -> None:
        assert sorted(stems(by_id(found, word))) == meant


def test_of_a_folder_follows_links(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "project")
    talks = tmp_path / ".fake" / "a"
    write(talks / "old.jsonl", 20, cwd=str(tmp_path / "project"))
    write(talks / "new.jsonl", 10, cwd=str(tmp_path / "link"))
    write(talks / "below.jsonl", 5, cwd=str(tmp_path / "project" / "src"))
    write(talks / "odd.jsonl", 1, cwd="\0")
    found = sessions({}, tmp_path)
    assert stems(of_folder(found, tmp_path / "project")) == ["new", "old"]
    assert stems(of_folder(found, tmp_path / "link")) == ["new", "old"]


def test_in_a_folder_content_decides(tmp_path: Path) -> None:
    write(tmp_path / "deep" / "down" / "old.json", 100)
    packed = write(tmp_path / "packed.jsonl", 50)
    (tmp_path / "packed.jsonl.gz").write_bytes(gzip.compress(packed.read_bytes()))
    os.utime(tmp_path / "packed.jsonl.gz", (10, 10))
    write(tmp_path / "node_modules" / "x" / "talk.jsonl", 1)
    (tmp_path / "package.json").write_text('{"name": "x"}')
    (tmp_path / "broken.json").write_text('{"name": ')
    (tmp_path / "notes.txt").write_text("fake_talk")
    write(tmp_path / "talk.md", 1)
    assert [session.path.name for session in in_folder(tmp_path)] == ["packed.jsonl", "old.json", "packed.jsonl.gz"]
    assert {session.reader for session in in_folder(tmp_path)} == {"fake_talk"}


def test_in_a_folder_without_any(tmp_path: Path) -> None:
    assert list(in_folder(tmp_path)) == []
