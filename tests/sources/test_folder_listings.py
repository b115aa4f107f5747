"""A run that reads many sessions lists each of their folders once."""

import os
from collections import Counter
from pathlib import Path

import pytest

from library.index.sessions import SessionFile
from open_token.cli import main
from open_token.sources.folder_listings import FolderListings
from open_token.sources.source import Source


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> Counter[Path]:
    """How often the names of each folder were listed."""
    counts: Counter[Path] = Counter()
    list_names = os.listdir

    def count(folder: Path) -> list[str]:
        counts[Path(folder)] += 1
        return list_names(folder)

    monkeypatch.setattr("open_token.sources.folder_listings.os.listdir", count)
    return counts


def set_mtime(folder: Path, seconds: int) -> None:
    os.utime(folder, (seconds, seconds))


def test_a_folder_is_listed_once_for_all_its_files(tmp_path: Path, listed: Counter[Path]) -> None:
    for name in ("a.json", "b.json", "agent-c.json"):
        (tmp_path / name).write_text("{}")
    listings = FolderListings()
    assert sorted(listings.find_names(tmp_path, "*.json")) == ["a.json", "agent-c.json", "b.json"]
    assert listings.find_names(tmp_path, "agent-*") == ["agent-c.json"]
    assert listings.find_names(tmp_path, "agent-*") == ["agent-c.json"]
    assert listed == {tmp_path: 1}


def test_a_folder_that_changed_is_listed_again(tmp_path: Path, listed: Counter[Path]) -> None:
    listings = FolderListings()
    set_mtime(tmp_path, 1)
    assert listings.find_names(tmp_path, "*") == []
    (tmp_path / "a.json").write_text("{}")
    set_mtime(tmp_path, 2)
    assert listings.find_names(tmp_path, "*") == ["a.json"]
    assert listed == {tmp_path: 2}


def test_a_folder_that_cannot_be_listed_has_no_names(tmp_path: Path) -> None:
    assert FolderListings().find_names(tmp_path / "missing", "*") == []


def test_a_file_that_was_removed_since_is_not_found(tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text("{}")
    source = Source.of(tmp_path / "a.json")
    source.listings = FolderListings()
    set_mtime(tmp_path, 1)
    assert len(source.find_siblings("*.json")) == 2
    (tmp_path / "b.json").unlink()
    set_mtime(tmp_path, 1)
    assert [file.path for file in source.find_siblings("*.json")] == [tmp_path / "a.json"]


@pytest.mark.parametrize(
    "words",
    [
        ["archive", "archive"],
        ["index"],
        ["dataset", "home/.claude/projects", "-o", "dataset"],
    ],
    ids=lambda words: words[0],
)
def test_a_command_lists_the_folder_of_its_sessions_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listed: Counter[Path], words: list[str]
) -> None:
    if words[0] == "dataset":
        pytest.importorskip("pyarrow")
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(tmp_path)
    for number in range(5):
        session = SessionFile(home, f"aaaaaaaa-0000-4000-8000-00000000000{number}")
        session.ask(f"question {number}")
        session.answer("answer")
    assert main([*words, "--jobs", "1", "--quiet"]) == 0
    counts = {folder.resolve(): count for folder, count in listed.items()}
    assert counts[session.path.parent.resolve()] == 1
