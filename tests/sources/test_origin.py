"""Where input comes from: folders, databases and archives as a Source, and what was read of a
family of files."""

import contextlib
import gzip
import hashlib
import io
import sqlite3
import zipfile
from pathlib import Path

import pytest

from open_token.errors import InputError
from open_token.sources.source import Source


def database() -> bytes:
    with contextlib.closing(sqlite3.connect(":memory:")) as made:
        made.executescript(
            "CREATE TABLE session (said TEXT); INSERT INTO session VALUES ('hello');"
        )
        return made.serialize()


def archive() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        made.writestr("session.jsonl", '{"a": 1}\n{"b": 2}\n')
    return out.getvalue()


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("on_disk", [True, False])
class TestHolders:
    def test_a_database(self, tmp_path: Path, pack: type[bytes], on_disk: bool) -> None:
        source = _source(tmp_path, pack(database()), on_disk)
        assert (source.shape, source.tables) == ("sqlite", {"session": ["said"]})
        assert list(source.rows("SELECT said FROM session")) == [("hello",)]

    def test_a_zip(self, tmp_path: Path, pack: type[bytes], on_disk: bool) -> None:
        source = _source(tmp_path, pack(archive()), on_disk)
        assert (source.shape, source.members) == ("zip", ["session.jsonl"])
        member = source.member("session.jsonl")
        assert member
        assert [record for _, record in member.records()] == [{"a": 1}, {"b": 2}]
        assert member.name.endswith("!session.jsonl")
        assert source.member("other") is None


def _source(folder: Path, data: bytes, on_disk: bool) -> Source:
    if not on_disk:
        return Source("session", data=data)
    (folder / "session").write_bytes(data)
    return Source.of(folder / "session")


def test_other_sources_have_no_tables_members_or_files() -> None:
    source = Source("session", data=b'{"a": 1}\n')
    assert (source.tables, source.members, source.find_files("*")) == ({}, [], [])


def test_a_folder_gives_its_files_and_no_others(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "secret.json").write_text("{}")
    home = tmp_path / "home"
    (home / "deep").mkdir(parents=True)
    (home / "deep" / "b.json").write_text('{"b": 2}')
    (home / "a.json").write_text('{"a": 1}')
    (home / "link.json").symlink_to(tmp_path / "out" / "secret.json")
    source = Source.of_folder(home)
    assert (source.shape, source.head, source.size) == ("folder", b"", 0)
    assert [Path(found.name).name for found in source.find_files("**/*.json")] == [
        "a.json",
        "b.json",
    ]


def test_a_folder_is_known_by_the_files_that_were_read(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_text(f'{{"name": "{name}"}}\n')
    source = Source.of_folder(tmp_path)
    first, second = source.find_files("*")
    list(second.records())
    assert [found.is_read for found in source.family] == [True, False, True]
    result = hashlib.sha256(bytes.fromhex(second.sha256)).hexdigest()
    assert (source.sha256, first.is_read) == (result, False)


def test_to_look_at_a_neighbour_is_not_to_read_it(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n')
    (tmp_path / "b.jsonl").write_text('{"b": 2}\n')
    source = Source.of(tmp_path / "a.jsonl")
    beside = source.open_sibling("b.jsonl")
    assert beside
    assert beside.sample == [{"b": 2}]
    assert not beside.is_read
    list(beside.records())
    assert [found.is_read for found in source.family] == [True, True]


def test_text_is_repaired_and_that_is_noted() -> None:
    source = Source("session", data="# grüße\n".encode() + b"\xff\n")
    assert source.text == "# grüße\n�\n"
    assert list(source.repaired) == [2]


@pytest.mark.parametrize("use", ["rows", "whole"])
def test_a_folder_is_neither_file_nor_database(tmp_path: Path, use: str) -> None:
    source = Source.of_folder(tmp_path)
    steps = {
        "rows": lambda: list(source.rows("SELECT 1")),
        "whole": lambda: source.whole,
    }
    with pytest.raises(InputError, match="this is a folder"):
        steps[use]()
