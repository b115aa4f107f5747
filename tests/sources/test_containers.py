"""Untrusted databases and archives: read, never run, never unpacked, never without bounds."""

import contextlib
import io
import sqlite3
import struct
import zipfile
from pathlib import Path

import pytest

from open_token.errors import InputError
from open_token.sources import containers
from open_token.sources.containers import Database, ZipArchive, quote_identifier


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with contextlib.closing(sqlite3.connect(tmp_path / "session.db")) as made:
        made.executescript(
            """
            CREATE TABLE session (id TEXT PRIMARY KEY, "odd ""name" TEXT, data BLOB);
            CREATE INDEX by_name ON session ("odd ""name");
            CREATE VIEW endless AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n;
            INSERT INTO session VALUES ('a', 'hello', x'00ff');
            """
        )
    return tmp_path / "session.db"


class TestDatabase:
    def test_tables_columns_and_rows(self, path: Path) -> None:
        database = Database(path, "session.db")
        assert database.tables == {"session": ["id", 'odd "name', "data"]}
        column = quote_identifier('odd "name')
        assert list(database.rows(f"SELECT {column} FROM session WHERE id = ?", ("a",))) == [
            ("hello",)
        ]
        assert [sql.split()[1] for sql in database.schema] == ["TABLE", "INDEX"]

    def test_database_is_opened_read_only(self, path: Path) -> None:
        with pytest.raises(InputError):
            list(Database(path, "session.db").rows("DELETE FROM session"))
        assert list(Database(path, "session.db").rows("SELECT count(*) FROM session")) == [(1,)]

    def test_a_broken_schema_whose_name_is_no_text(self, path: Path) -> None:
        raw = path.read_bytes().replace(b"CREATE INDEX by_name", b"CREATE INDXX by_name")
        path.write_bytes(raw.replace(b"indexby_name", b"index\x9e\x93_name"))
        with pytest.raises(InputError) as caught:
            Database(path, "session.db")
        assert caught.value.code == "input.sqlite"

    def test_an_index_over_json(self, path: Path) -> None:
        with contextlib.closing(sqlite3.connect(path)) as made:
            made.execute(
                "CREATE INDEX by_kind ON session (json_extract(data, '$.kind')) WHERE id <> 'a'"
            )
        assert list(Database(path, "session.db").rows("SELECT count(*) FROM session")) == [(1,)]

    def test_what_is_still_in_the_log_beside_it_is_seen(self, path: Path) -> None:
        with contextlib.closing(sqlite3.connect(path)) as running:
            running.execute("PRAGMA journal_mode = wal")
            running.execute("INSERT INTO session VALUES ('b', 'new', NULL)")
            running.commit()
            assert list(Database(path, "session.db").rows("SELECT count(*) FROM session")) == [(2,)]

    def test_text_that_is_none_is_replaced(self, path: Path) -> None:
        with contextlib.closing(sqlite3.connect(path)) as made:
            made.execute("UPDATE session SET id = CAST(x'ff41' AS TEXT)")
            made.commit()
        assert list(Database(path, "session.db").rows("SELECT id FROM session")) == [("�A",)]

    @pytest.mark.parametrize("keep", [16, 40, 3000])
    def test_a_damaged_one_is_an_error_with_a_remedy(self, path: Path, keep: int) -> None:
        path.write_bytes(path.read_bytes()[:keep] + b"\xaa" * 2000)
        with pytest.raises(InputError) as caught:
            list(Database(path, "session.db").rows("SELECT * FROM session"))
        assert (caught.value.code, caught.value.where) == ("input.sqlite", "session.db")


def packed(**members: bytes) -> io.BytesIO:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in members.items():
            made.writestr(name, data)
    out.seek(0)
    return out


def problem_of(stream: io.BytesIO, name: str = "a") -> InputError:
    with pytest.raises(InputError) as caught:
        ZipArchive(stream, "session.zip").read_member(name)
    assert caught.value.code == "input.zip"
    return caught.value


class TestArchive:
    def test_members_in_their_order(self) -> None:
        archive = ZipArchive(packed(b=b"2", a=b"1"), "session.zip")
        assert archive.names == ["b", "a"]
        assert archive.read_member("a") == b"1"
        assert archive.read_member("../../etc/passwd") is None

    def test_a_bomb_is_stopped(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(containers, "MAX_UNPACKED_BYTES", 1 << 21)
        assert "larger than 2 MiB" in problem_of(packed(a=bytes(1 << 22))).what

    def test_one_cut_off(self) -> None:
        assert "damaged" in problem_of(io.BytesIO(packed(a=b"hello" * 99).getvalue()[:-30])).what

    def test_one_with_wrong_bytes(self) -> None:
        data = bytearray(packed(a=b"hello" * 99).getvalue())
        data[35:45] = b"0123456789"
        assert "damaged" in problem_of(io.BytesIO(bytes(data))).what

    @pytest.mark.parametrize(
        ("place", "value", "word"), [(8, 96, "method 96"), (6, 1, "encrypted")]
    )
    def test_what_this_python_cannot_open_is_said(self, place: int, value: int, word: str) -> None:
        data = bytearray(packed(a=b"hello").getvalue())
        central = data.index(b"PK\x01\x02")
        struct.pack_into("<H", data, central + place + 2, value)
        assert word in problem_of(io.BytesIO(bytes(data))).what

    def test_a_member_said_to_lie_before_the_file(self, tmp_path: Path) -> None:
        """Found by the fuzzer: Python seeks there, which the system refuses."""
        data = bytearray(packed(a=b"hello").getvalue())
        struct.pack_into("<L", data, data.index(b"PK\x05\x06") + 16, len(data) * 2)
        (tmp_path / "session.zip").write_bytes(data)
        with (tmp_path / "session.zip").open("rb") as stream, pytest.raises(InputError) as caught:
            ZipArchive(stream, "session.zip").read_member("a")
        assert caught.value.code == "input.zip"
