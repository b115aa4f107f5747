"""Discovery finds the sessions of every reader, newest first, by id and by directory."""

import gzip
import hashlib
import json
import os
import re
import sqlite3
import threading
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import fake_format
from helpers.fake_format import write_fake_session
from helpers.fake_reader import add_reader
from open_token import registry
from open_token.errors import InputError
from open_token.library import discovery, discovery_cache, file_ends
from open_token.library.discovery import (
    Discovery,
    Session,
    find_by_id,
    find_in_folder,
    open_session,
)
from open_token.library.discovery_cache import CachedFile, CachedRow, DiscoveryCache
from open_token.library.file_ends import NOTHING, parse_json_prefix, read_first_records
from open_token.library.places import (
    Place,
    compute_stamp,
    extract_session_name,
    find_matching,
    resolve_places,
)
from open_token.model.document import Found
from open_token.sources.source import Source

EMPTY: dict[str, str] = {}


@pytest.fixture(autouse=True)
def only_fake_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_format.install_fake_format(monkeypatch)


def sessions(home: Path, env: dict[str, str] = EMPTY, cwd: Path | None = None) -> list[Session]:
    return Discovery(env, home, cwd).sessions()


def look(session: Session) -> Session:
    return Discovery({}, Path("/nowhere")).inspect(session)


def stems(found: Any) -> list[str]:
    return [session.path.stem for session in found]


class TestPlaces:
    """Where readers look."""

    def test_the_usual_places_newest_first(self, tmp_path: Path) -> None:
        write_fake_session(tmp_path / ".fake" / "a" / "old.jsonl", 500)
        write_fake_session(tmp_path / ".fake" / "b" / "new.jsonl", 5)
        write_fake_session(tmp_path / ".fake" / "b" / "same.jsonl", 500)
        write_fake_session(tmp_path / "elsewhere" / "other.jsonl", 1)
        found = sessions(tmp_path)
        assert stems(found) == ["new", "old", "same"]
        facts = found[0].path.stat()
        assert found[0] == Session(
            "new",
            "fake_session",
            found[0].path,
            1_699_999_995.0,
            facts.st_size,
            mtime_ns=facts.st_mtime_ns,
        )

    def test_a_variable_names_a_place(self, tmp_path: Path) -> None:
        write_fake_session(tmp_path / "elsewhere" / "one.jsonl")
        env = {"FAKE_HOME": str(tmp_path / "elsewhere")}
        assert stems(sessions(tmp_path, env)) == ["one"]
        assert stems(sessions(tmp_path, {"FAKE_HOME": ""})) == []
        assert stems(sessions(tmp_path, {"FAKE_HOME": str(tmp_path / "nowhere")})) == []
        assert stems(sessions(tmp_path, {"FAKE_HOME": "~/elsewhere"})) == ["one"]
        assert stems(sessions(Path("/nowhere"), {"FAKE_HOME": "elsewhere"}, cwd=tmp_path)) == [
            "one"
        ]

    def test_a_variable_may_name_the_file_itself(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        add_reader(monkeypatch, "diary", places=("$DIARY",))
        write_fake_session(tmp_path / "diary.md")
        assert stems(sessions(tmp_path, {"DIARY": str(tmp_path / "diary.md")})) == ["diary"]
        assert stems(sessions(tmp_path, {"DIARY": "\0"})) == []

    def test_a_place_in_the_working_folder(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        add_reader(monkeypatch, "diary", places=("./.diary.md",))
        write_fake_session(tmp_path / "project" / ".diary.md")
        assert sessions(tmp_path) == []
        (found,) = sessions(tmp_path, cwd=tmp_path / "project")
        assert (found.id, found.reader, look(found).cwd) == (
            "project",
            "diary",
            str(tmp_path / "project"),
        )

    def test_what_is_no_file_with_bytes_is_passed_over(self, tmp_path: Path) -> None:
        folder = tmp_path / ".fake" / "a"
        write_fake_session(folder / "one.jsonl")
        (folder / "empty.jsonl").write_bytes(b"")
        (folder / "folder.jsonl").mkdir()
        (folder / "dangling.jsonl").symlink_to(folder / "nowhere")
        os.mkfifo(folder / "pipe.jsonl")
        assert stems(sessions(tmp_path)) == ["one"]

    def test_two_names_of_one_file_count_once(self, tmp_path: Path) -> None:
        path = write_fake_session(tmp_path / ".fake" / "a" / "one.jsonl")
        assert stems(sessions(tmp_path, {"FAKE_HOME": str(path.parent)})) == ["one"]
        (tmp_path / ".fake" / "linked").symlink_to(path.parent)
        os.link(path, path.with_name("two.jsonl"))
        assert len(sessions(tmp_path)) == 1

    def test_parts_of_a_conversation_are_none_of_their_own(self, tmp_path: Path) -> None:
        write_fake_session(tmp_path / ".fake" / "a" / "whole.jsonl", 10)
        write_fake_session(tmp_path / ".fake" / "a" / "part-1.jsonl", 5)
        assert stems(sessions(tmp_path)) == ["whole"]
        assert stems(find_in_folder(tmp_path)) == ["whole"]

    def test_the_content_decides_where_two_readers_look(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[str] = []

        def sniff(source: Source) -> bool:
            asked.append(source.name)
            return b"other" in source.head

        add_reader(
            monkeypatch,
            "other_talk",
            places=(".fake/*/*.jsonl",),
            sniff=sniff,
            peek=lambda records: {},
        )
        write_fake_session(tmp_path / ".fake" / "a" / "mine.jsonl", 1)
        other = write_fake_session(tmp_path / ".fake" / "a" / "other.jsonl")
        other.write_text('{"other": 1}\n')
        os.utime(other, (1, 1))
        discovery = Discovery({}, tmp_path, None, tmp_path / "cache")
        found = discovery.sessions()
        assert [session.reader for session in found] == ["fake_session", "other_talk"]
        assert [Path(name).stem for name in asked] == ["other"]
        for session in found:
            discovery.inspect(session)
        discovery.remember()
        assert [
            session.reader
            for session in Discovery({}, tmp_path, None, tmp_path / "cache").sessions()
        ] == [
            "fake_session",
            "other_talk",
        ]
        assert len(asked) == 1

    def test_a_folder_is_one_conversation(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        add_reader(monkeypatch, "events", places=(".events/*/",))
        folder = tmp_path / ".events" / "session.1"
        write_fake_session(folder / "0.json", 100)
        write_fake_session(folder / "deep" / "1.json", 50)
        (tmp_path / ".events" / "empty").mkdir()
        write_fake_session(tmp_path / ".events" / "file")
        (found,) = sessions(tmp_path)
        size = sum(path.stat().st_size for path in folder.rglob("*.json"))
        assert (found.id, found.path, found.bytes, found.modified) == (
            "session.1",
            folder,
            size,
            1_699_999_950.0,
        )
        source = open_session(look(found))
        assert (source.shape, source.path) == ("folder", folder)

    def test_the_log_of_a_database_counts(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        add_reader(monkeypatch, "store", places=("*.db",))
        write_fake_session(tmp_path / "sessions.db", 100)
        before = sessions(tmp_path)[0]
        write_fake_session(tmp_path / "sessions.db-wal", 50)
        after = sessions(tmp_path)[0]
        assert (after.modified - before.modified, after.bytes > before.bytes) == (50.0, True)

    @pytest.mark.parametrize(
        ("pattern", "path", "name"),
        [
            ("tasks/*/history.json", "tasks/17/history.json", "17"),
            ("s/*/*/chat.jsonl", "s/p/abc/chat.jsonl", "abc"),
            ("s/*/agents/main/wire.jsonl", "s/x/agents/main/wire.jsonl", "x"),
            ("sessions.db", "sessions.db", "sessions"),
            ("s/*/", "s/2.1/", "2.1"),
        ],
    )
    def test_the_name_is_what_the_pattern_leaves_open(
        self, pattern: str, path: str, name: str
    ) -> None:
        assert extract_session_name(Path("/home") / path, Place(Path("/home"), pattern)) == name

    @pytest.mark.parametrize("reader", registry.READERS)
    def test_every_reader_names_places_for_any_system(
        self, reader: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.undo()
        definition = registry.load_reader(reader).definition
        for place in (*definition.places, *definition.part_files):
            assert re.fullmatch(r"(\$[A-Z_]+(/|$)|\./)?[^$\\:|<>\"]*", place), place
            assert ".." not in place.split("/")
            assert not PurePosixPath(place).is_absolute()
            assert not PureWindowsPath(place).is_absolute()
        for place in resolve_places(definition.places, {}, Path("/nowhere"), Path("/nowhere")):
            assert list(find_matching(place)) == []

    def test_a_folder_that_may_not_be_read(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(self: Path, pattern: str) -> list[Path]:
            raise PermissionError

        write_fake_session(tmp_path / ".fake" / "a" / "one.jsonl")
        monkeypatch.setattr(Path, "glob", refuse)
        assert sessions(tmp_path) == []

    def test_a_fingerprint_changes_with_every_change_of_the_files(self, tmp_path: Path) -> None:
        one = write_fake_session(tmp_path / "one.json", 10)
        write_fake_session(tmp_path / "more" / "two.json", 20)
        names = [str(one), f"{tmp_path / 'more'}/"]
        seen = {compute_stamp(names)[0]}
        assert compute_stamp(names) == (*seen, 1_699_999_990 * 10**9)
        write_fake_session(tmp_path / "more" / "three.json", 30)
        seen.add(compute_stamp(names)[0])
        one.unlink()
        seen.add(compute_stamp(names)[0])
        write_fake_session(tmp_path / "more" / "three.json", 31)
        seen.add(compute_stamp(names)[0])
        assert len(seen) == 4


class TestLook:
    """What the ends of a file tell."""

    def test_id_folder_and_title(self, tmp_path: Path) -> None:
        write_fake_session(
            tmp_path / ".fake" / "a" / "file.jsonl",
            id="own-id",
            cwd="/home/ada",
            title="  two\n words ",
        )
        seen = look(sessions(tmp_path)[0])
        assert (seen.id, seen.cwd, seen.title) == ("own-id", "/home/ada", "two words")

    def test_a_long_first_line_is_read_as_far_as_it_is_looked_at(self, tmp_path: Path) -> None:
        write_fake_session(
            tmp_path / ".fake" / "a" / "file.jsonl",
            title="here",
            padding="x" * 300_000,
            cwd="/late",
        )
        seen = look(sessions(tmp_path)[0])
        assert (seen.title, seen.cwd) == ("here", None)

    def test_a_title_after_the_first_look_is_found_by_a_longer_one(self, tmp_path: Path) -> None:
        for padding in (30_000, 120_000):
            write_fake_session(
                tmp_path / ".fake" / "a" / "file.jsonl", padding="x" * padding, title="here"
            )
            assert look(sessions(tmp_path)[0]).title == "here"

    def test_a_long_title_is_cut(self, tmp_path: Path) -> None:
        write_fake_session(tmp_path / ".fake" / "a" / "file.jsonl", title="word " * 100)
        assert len(look(sessions(tmp_path)[0]).title or "") == 160

    def test_what_is_too_long_to_be_one_is_none(self, tmp_path: Path) -> None:
        write_fake_session(tmp_path / ".fake" / "a" / "file.jsonl", id="i" * 201, cwd="/x" * 2100)
        seen = look(sessions(tmp_path)[0])
        assert (seen.id, seen.cwd) == ("file", None)

    @pytest.mark.parametrize("odd", [5, None, [], {"a": 1}, "", True])
    def test_odd_facts_are_no_facts(self, tmp_path: Path, odd: Any) -> None:
        path = write_fake_session(tmp_path / ".fake" / "a" / "file.jsonl", cwd=odd, title=odd)
        path.write_text(path.read_text().replace('"fake_session": "file"', '"fake_session": 5'))
        seen = look(sessions(tmp_path)[0])
        assert (seen.id, seen.cwd, seen.title) == ("file", None, None)

    @pytest.mark.parametrize(
        "data", [b"not json\n", b"\xff\xfe\0\0", b"\x1f\x8bbroken", b"[" * 100_000, b"[1, 2]"]
    )
    def test_a_broken_file_has_no_preview(self, tmp_path: Path, data: bytes) -> None:
        path = write_fake_session(tmp_path / ".fake" / "a" / "file.jsonl")
        path.write_bytes(data)
        assert look(sessions(tmp_path)[0]).title is None

    def test_a_missing_file_has_no_preview(self, tmp_path: Path) -> None:
        path = write_fake_session(tmp_path / ".fake" / "a" / "file.jsonl", title="here")
        found = sessions(tmp_path)
        path.unlink()
        assert look(found[0]).title is None

    def test_a_title_given_late(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def late(records: list[Any]) -> dict[str, Any]:
            names = [record["renamed"] for record in records if "renamed" in record]
            return {"title": names[-1]} if names else {}

        fake_format.install_fake_format(monkeypatch, peek_tail=late)
        short = write_fake_session(tmp_path / ".fake" / "a" / "short.jsonl", 2, title="first")
        long = write_fake_session(
            tmp_path / ".fake" / "a" / "long.jsonl", 1, title="first", says=("x" * 90_000,)
        )
        for path in (short, long):
            with path.open("a") as out:
                out.write('{"renamed": "second"}\n{"renamed": "third"}\n')
        write_fake_session(tmp_path / ".fake" / "a" / "plain.jsonl", 3, title="first")
        assert {look(session).id: look(session).title for session in sessions(tmp_path)} == {
            "short": "third",
            "long": "third",
            "plain": "first",
        }

    def test_what_a_document_begins_with(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def peek(records: list[Any]) -> dict[str, Any]:
            return {"id": records[0]["sessionId"], "title": records[0]["messages"][0]["content"]}

        add_reader(monkeypatch, "documents", places=("*.json",), peek=peek)
        recorded = [{"content": f"say {n} " * 30} for n in range(20_000)]
        (tmp_path / "long.json").write_text(
            json.dumps({"sessionId": "s1", "messages": recorded}, indent=2)
        )
        seen = look(sessions(tmp_path)[0])
        assert (seen.id, (seen.title or "")[:11]) == ("s1", "say 0 say 0")

    def test_words_beside_a_title(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        result = {"id": "x", "title": "a title", "words": "first words", "cwd_sha256": "a" * 64}
        monkeypatch.setattr(fake_format, "peek", lambda records: result)
        write_fake_session(tmp_path / ".fake" / "a" / "file.jsonl")
        seen = look(sessions(tmp_path)[0])
        assert (seen.title, seen.words, seen.cwd_sha256) == ("a title", "first words", "a" * 64)
        result.update(title="", cwd_sha256="short")
        seen = look(sessions(tmp_path)[0])
        assert (seen.title, seen.words, seen.cwd_sha256) == ("first words", "first words", None)


class TestSeveral:
    """Files that hold several conversations: one row each."""

    @pytest.fixture
    def store(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        def conversations(source: Source) -> list[Found]:
            rows = source.rows("SELECT id, title, updated FROM session ORDER BY rowid")
            return [
                Found(own, title=title, updated_at=at, cwd="/home/ada", messages=2)
                for own, title, at in rows
            ]

        add_reader(
            monkeypatch,
            "store",
            places=("*.db",),
            sniff=lambda source: "session" in source.tables,
            list_conversations=conversations,
        )
        path = tmp_path / "chats.db"
        made = sqlite3.connect(path)
        made.execute("CREATE TABLE session (id, title, updated)")
        made.executemany(
            "INSERT INTO session VALUES (?, ?, ?)",
            [
                ("ses_a", "bread", "2026-01-02T00:00:00Z"),
                ("ses_b", "beans", None),
                ("3", None, "not a time"),
            ],
        )
        made.commit()
        made.close()
        os.utime(path, (1_700_000_000, 1_700_000_000))
        return path

    def test_a_row_for_each(self, store: Path) -> None:
        found = sessions(store.parent)
        assert [(session.id, session.title, session.conversation) for session in found] == [
            ("ses_a", "bread", "ses_a"),
            ("chats#3", None, "3"),
            ("ses_b", "beans", "ses_b"),
        ]
        assert [session.modified for session in found] == [
            1_767_312_000.0,
            1_700_000_000.0,
            1_700_000_000.0,
        ]
        assert {(session.cwd, session.messages, session.is_one_of) for session in found} == {
            ("/home/ada", 2, 3)
        }
        assert [open_session(session).conversation for session in found] == ["ses_a", "3", "ses_b"]
        assert look(found[0]) == found[0]

    def test_the_only_one_needs_no_choice(self, store: Path) -> None:
        with sqlite3.connect(store) as made:
            made.execute("DELETE FROM session WHERE id != 'ses_b'")
        made.close()
        (found,) = sessions(store.parent)
        assert (found.id, open_session(found).conversation) == ("ses_b", None)

    def test_ids_but_not_the_name_of_the_file(self, store: Path) -> None:
        found = sessions(store.parent)
        assert [session.id for session in find_by_id(found, "ses_a")] == ["ses_a"]
        assert len(find_by_id(found, "ses")) == 2
        assert [session.id for session in find_by_id(found, "chats")] == ["chats#3"]

    def test_the_list_is_remembered(
        self, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        discovery = Discovery({}, store.parent, None, tmp_path / "cache")
        before = discovery.sessions()
        discovery.remember()
        monkeypatch.setattr(Source, "of", lambda path: pytest.fail("the file was opened"))
        assert Discovery({}, store.parent, None, tmp_path / "cache").sessions() == before

    def test_a_database_of_others_is_not_listed(self, store: Path) -> None:
        with sqlite3.connect(store) as made:
            made.execute("ALTER TABLE session RENAME TO other")
        made.close()
        assert sessions(store.parent) == []

    def test_a_database_that_cannot_be_read_is_one_row_and_looked_at_again(
        self, store: Path, tmp_path: Path
    ) -> None:
        data = store.read_bytes()
        store.write_bytes(data[:100] + b"\xff" * (len(data) - 100))
        discovery = Discovery({}, store.parent, None, tmp_path / "cache")
        (found,) = discovery.sessions()
        assert (found.id, found.conversation, found.title) == ("chats", None, None)
        discovery.remember()
        store.write_bytes(data)
        assert len(Discovery({}, store.parent, None, tmp_path / "cache").sessions()) == 3

    def test_a_long_file_of_many_is_one_row_unless_thorough(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def conversations(source: Source) -> list[Found]:
            return [Found(str(number)) for number in range(1, source.text.count("# chat") + 1)]

        add_reader(monkeypatch, "diary", places=("*.md",), list_conversations=conversations)
        (tmp_path / "diary.md").write_text("# chat\n\n" * 5)
        assert [session.id for session in sessions(tmp_path)] == [
            f"diary#{n}" for n in (5, 4, 3, 2, 1)
        ]
        monkeypatch.setattr(discovery, "_MAX_LISTED_SIZE", 30)
        assert [session.id for session in sessions(tmp_path)] == ["diary"]
        assert len(Discovery({}, tmp_path).sessions(thorough=True)) == 5

    def test_a_file_of_one_is_not_read_to_its_end(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def conversations(source: Source) -> list[Found]:
            raise AssertionError

        add_reader(
            monkeypatch,
            "either",
            places=("*.json",),
            list_conversations=conversations,
            peek=lambda records: {"id": records[0]["id"], "is_part": records[0].get("parent")},
        )
        (tmp_path / "one.json").write_text('{"id": "one"}')
        (tmp_path / "part.json").write_text('{"id": "two", "parent": "one"}')
        assert [session.id for session in sessions(tmp_path)] == ["one"]


ID = "019c0000-1111-7222-8333-444455556666"


class TestById:
    """An id or the start of one."""

    @pytest.fixture
    def found(self, tmp_path: Path) -> list[Session]:
        for name in ("abc", "abcdef", "xyz", f"rollout-2026-01-31T10-00-00-{ID}"):
            write_fake_session(tmp_path / ".fake" / "a" / f"{name}.jsonl")
        return sessions(tmp_path)

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
        assert sorted(stems(find_by_id(found, word))) == meant


class TestFolders:
    """Held in a folder, or lying in one."""

    def test_held_in_a_folder_follows_links(self, tmp_path: Path) -> None:
        (tmp_path / "project").mkdir()
        (tmp_path / "link").symlink_to(tmp_path / "project")
        conversations_found = tmp_path / ".fake" / "a"
        write_fake_session(conversations_found / "old.jsonl", 20, cwd=str(tmp_path / "project"))
        write_fake_session(conversations_found / "new.jsonl", 10, cwd=str(tmp_path / "link"))
        write_fake_session(
            conversations_found / "below.jsonl", 5, cwd=str(tmp_path / "project" / "src")
        )
        write_fake_session(conversations_found / "odd.jsonl", 1, cwd="\0")
        discovery = Discovery({}, tmp_path)
        found = discovery.sessions()
        assert stems(discovery.filter_by_folder(found, tmp_path / "project")) == ["new", "old"]
        assert stems(discovery.filter_by_folder(found, tmp_path / "link")) == ["new", "old"]

    def test_held_in_a_folder_of_which_only_the_hash_is_reported(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        result = hashlib.sha256(os.fsencode(tmp_path)).hexdigest()
        monkeypatch.setattr(fake_format, "peek", lambda records: {"cwd_sha256": result})
        write_fake_session(tmp_path / ".fake" / "a" / "one.jsonl")
        discovery = Discovery({}, tmp_path)
        assert stems(discovery.filter_by_folder(discovery.sessions(), tmp_path)) == ["one"]
        assert stems(discovery.filter_by_folder(discovery.sessions(), tmp_path / ".fake")) == []

    def test_in_a_folder_content_decides(self, tmp_path: Path) -> None:
        write_fake_session(tmp_path / "deep" / "down" / "old.json", 100)
        packed = write_fake_session(tmp_path / "packed.jsonl", 50)
        (tmp_path / "packed.jsonl.gz").write_bytes(gzip.compress(packed.read_bytes()))
        os.utime(tmp_path / "packed.jsonl.gz", (10, 10))
        write_fake_session(tmp_path / "node_modules" / "x" / "session.jsonl", 1)
        (tmp_path / "package.json").write_text('{"name": "x"}')
        (tmp_path / "broken.json").write_text('{"name": ')
        (tmp_path / "notes.txt").write_text("fake_session")
        (tmp_path / "README.md").write_text("# fake_session")
        write_fake_session(tmp_path / "session.log", 1)
        names = [session.path.name for session in find_in_folder(tmp_path)]
        assert names == ["packed.jsonl", "old.json", "packed.jsonl.gz"]
        assert {session.reader for session in find_in_folder(tmp_path)} == {"fake_session"}

    def test_in_a_folder_without_any(self, tmp_path: Path) -> None:
        assert list(find_in_folder(tmp_path)) == []


class Counter:
    """Counts the files that are opened for a look, and the bytes that are read of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened = self.bytes = 0
        real = file_ends.read_ends

        def counting(path: Path, first: int, last: int = 0) -> tuple[bytes, bytes]:
            head, tail = real(path, first, last)
            self.opened += 1
            self.bytes += len(head) + len(tail)
            return head, tail

        monkeypatch.setattr(file_ends, "read_ends", counting)
        monkeypatch.setattr(Source, "open", lambda self: pytest.fail("a whole file was opened"))


class TestMany:
    """Two thousand conversations: both ends of each, once."""

    COUNT = 2000

    @pytest.fixture
    def home(self, tmp_path: Path) -> Path:
        for number in range(self.COUNT):
            path = write_fake_session(
                tmp_path / ".fake" / f"p{number % 40}" / f"{number:06}.jsonl",
                number,
                title=f"session {number}",
            )
            os.truncate(path, 5_000_000)  # a hole: long on the disk, nothing to write
            os.utime(path, (1_700_000_000 - number, 1_700_000_000 - number))
        return tmp_path

    def test_counted(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        seen = Counter(monkeypatch)
        cold = Discovery({}, home, None, home / "cache")
        found = cold.sessions()
        assert (len(found), seen.opened) == (self.COUNT, 0)
        shown = [cold.inspect(session) for session in found]
        assert (seen.opened, seen.bytes) == (self.COUNT, self.COUNT * (1 << 14))
        assert [session.title for session in shown[:2]] == ["session 0", "session 1"]
        cold.remember()
        warm = Discovery({}, home, None, home / "cache")
        assert [warm.inspect(session) for session in warm.sessions()] == shown
        assert seen.opened == self.COUNT
        write_fake_session(home / ".fake" / "p7" / "000007.jsonl", 7, title="new title")
        assert warm.inspect(Discovery({}, home).sessions()[7]).title == "new title"
        assert seen.opened == self.COUNT + 1
        assert (home / "cache" / discovery_cache.NAME).stat().st_size < 500 * self.COUNT


class TestMemory:
    """What is remembered is a help, never a need."""

    SEEN = CachedFile(1, 2, "fake_session", [CachedRow("id", title="t")])

    def test_round_trip(self, tmp_path: Path) -> None:
        memory = DiscoveryCache(tmp_path / "cache")
        memory.keep("a", self.SEEN)
        memory.keep("b", self.SEEN)
        memory.save(["a", "unknown"])
        again = DiscoveryCache(tmp_path / "cache")
        assert again.recall("a", 1, 2) == self.SEEN
        assert [again.recall("a", 1, 3), again.recall("a", 2, 2), again.recall("b", 1, 2)] == [
            None
        ] * 3
        assert (tmp_path / "cache" / discovery_cache.NAME).stat().st_mode & 0o777 == 0o600

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"{",
            b"\0" * 100,
            b"[]",
            b"[" * 50_000,
            b'{"schema": "open-token/seen/1", "version": "0", "files": {}}',
        ],
    )
    def test_a_broken_file_is_no_memory(self, tmp_path: Path, data: bytes) -> None:
        (tmp_path / discovery_cache.NAME).write_bytes(data)
        memory = DiscoveryCache(tmp_path)
        assert memory.files == {}
        memory.keep("a", self.SEEN)
        memory.save(["a"])
        assert DiscoveryCache(tmp_path).recall("a", 1, 2) == self.SEEN

    def test_every_cut_of_the_file_is_no_memory(self, tmp_path: Path) -> None:
        memory = DiscoveryCache(tmp_path)
        memory.keep("a", self.SEEN)
        memory.save(["a"])
        whole = (tmp_path / discovery_cache.NAME).read_bytes()
        for length in range(len(whole)):
            (tmp_path / discovery_cache.NAME).write_bytes(whole[:length])
            assert DiscoveryCache(tmp_path).files == {}

    def test_no_place_to_write(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"")
        for folder in (None, tmp_path / "file" / "cache"):
            memory = DiscoveryCache(folder)
            memory.keep("a", self.SEEN)
            memory.save(["a"])
            assert memory.recall("a", 1, 2) == self.SEEN
        (tmp_path / discovery_cache.NAME).mkdir()
        memory = DiscoveryCache(tmp_path)
        memory.keep("a", self.SEEN)
        memory.save(["a"])

    def test_discovery_cache_stays_small(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(discovery_cache, "MAX_FILES", 3)
        memory = DiscoveryCache(tmp_path)
        for number in range(10):
            memory.keep(str(number), CachedFile(1, number, "fake_session", []))
        memory.save([str(number) for number in range(10)])
        assert sorted(DiscoveryCache(tmp_path).files) == ["7", "8", "9"]

    def test_nothing_new_is_not_written(self, tmp_path: Path) -> None:
        DiscoveryCache(tmp_path / "cache").save(["a"])
        assert not (tmp_path / "cache").exists()

    def test_many_at_once(self, tmp_path: Path) -> None:
        """Whoever writes last wins; nobody ever reads half a file."""
        failures: list[object] = []

        def work(name: str) -> None:
            for _ in range(20):
                memory = DiscoveryCache(tmp_path)
                if not all(seen == self.SEEN for seen in memory.files.values()):
                    failures.append(memory.files)
                memory.keep(name, self.SEEN)
                memory.save([name])

        threads = [threading.Thread(target=work, args=(str(number),)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert len(DiscoveryCache(tmp_path).files) == 1

    def test_a_name_that_is_no_unicode(self, tmp_path: Path) -> None:
        path = write_fake_session(tmp_path / ".fake" / "a" / "x.jsonl", title="here")
        path.rename(path.with_name(os.fsdecode(b"bad\xff.jsonl")))
        for _ in range(2):
            discovery = Discovery({}, tmp_path, None, tmp_path / "cache")
            assert [discovery.inspect(session).title for session in discovery.sessions()] == [
                "here"
            ]
            discovery.remember()
        assert next(iter(DiscoveryCache(tmp_path / "cache").files)).endswith("bad\\xff.jsonl")

    def test_in_the_folder_of_this_user(self, tmp_path: Path) -> None:
        write_fake_session(tmp_path / ".fake" / "a" / "one.jsonl")
        discovery = Discovery.of({"OPEN_TOKEN_HOME": str(tmp_path / "own")}, tmp_path)
        discovery.inspect(discovery.sessions()[0])
        discovery.remember()
        assert (tmp_path / "own" / "cache" / discovery_cache.NAME).is_file()


class TestOpening:
    """The first records of a file."""

    @pytest.mark.parametrize(
        ("data", "records"),
        [
            (b'{"a": 1}\n{"b": 2}\n', [{"a": 1}, {"b": 2}]),
            (b'\xef\xbb\xbf\n {"a": 1}\r\n{"b": 2}', [{"a": 1}, {"b": 2}]),
            (b'{"a": 1}\nbroken\n{"b": 2}\n', [{"a": 1}, {"b": 2}]),
            (b'{broken}\n{"b": 2}\n', [{"b": 2}]),
            (b'{\n "a": [1, 2]\n}\n', [{"a": [1, 2]}]),
            (b'[{"a": 1}, {"b": 2}]', [{"a": 1}, {"b": 2}]),
            (b"hello", []),
            (b"5", []),
            (b"", []),
        ],
    )
    def test_of_a_short_file(self, tmp_path: Path, data: bytes, records: list[Any]) -> None:
        (tmp_path / "file").write_bytes(data)
        assert read_first_records(tmp_path / "file", 1000) == records
        (tmp_path / "file.gz").write_bytes(gzip.compress(data))
        assert read_first_records(tmp_path / "file.gz", 1000) == records

    def test_a_line_that_is_cut_off_counts_as_far_as_it_goes(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(
            b'{"a": 1}\n{"b": 2, "c": [3, {"d": 4, "e": "' + b"x" * 5000
        )
        assert read_first_records(tmp_path / "file", 50) == [{"a": 1}, {"b": 2, "c": [3, {"d": 4}]}]
        assert read_first_records(tmp_path / "file", 1000)[1]["c"][1]["e"] == "x" * 958

    def test_the_last_records(self, tmp_path: Path) -> None:
        lines = [json.dumps({"n": n}).encode() for n in range(1000)]
        (tmp_path / "file").write_bytes(b"\n".join([*lines, b"broken"]))
        assert file_ends.read_last_records(tmp_path / "file", 30) == [{"n": 998}, {"n": 999}]
        assert file_ends.read_last_records(tmp_path / "nowhere", 30) == []


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


class TestPrefix:
    """A text that breaks off."""

    @pytest.mark.parametrize("end", ["1", "1.", "1.5", "1e", "1e+", "1e+1", "-1E-"])
    def test_a_number_that_breaks_off(self, end: str) -> None:
        assert parse_json_prefix(f'{{"a": "x", "b": {end}') == {"a": "x"}

    @given(VALUES, st.integers(0, 400), st.booleans())
    def test_what_is_reported_is_true(self, value: Any, length: int, pretty: bool) -> None:
        text = json.dumps(value, indent=2 if pretty else None)
        assert is_begun(parse_json_prefix(text[:length]), value)

    @pytest.mark.parametrize("text", ["", " ", "x", "5", "tru", '"short', "}", "]", ":", "NaN"])
    def test_nothing_in_it(self, text: str) -> None:
        assert parse_json_prefix(text) is NOTHING

    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("{", {}),
            ("[", []),
            ('{"a"', {}),
            ('{"a":', {}),
            ('{"a": 12', {}),
            ('{"a": 12,', {"a": 12}),
            ('{"a": tr', {}),
            ('{"a": 1 "b": 2}', {"a": 1}),
            ("[1, 2", [1]),
            ("[1 2]", [1]),
            ('[{"a": 1}, {"b": [2, {"c', [{"a": 1}, {"b": [2, {}]}]),
            ('{"a": 1}{"b": 2}', {"a": 1}),
            ('{5: 1, "a": 2}', {}),
        ],
    )
    def test_as_far_as_it_goes(self, text: str, value: Any) -> None:
        assert parse_json_prefix(text) == value

    @pytest.mark.parametrize("end", ["", "\\", "\\u", "\\u00e", "\\\\", '\\"', "é"])
    def test_a_long_text_is_cut_between_its_letters(self, end: str) -> None:
        found = parse_json_prefix('{"a": "' + "x" * 500 + end)["a"]
        assert found.startswith("x" * 494)
        assert set(found) <= set('x\\"é')

    def test_deep_and_long_ones_take_no_long_time(self) -> None:
        assert isinstance(parse_json_prefix("[" * 60_000), list)
        assert isinstance(parse_json_prefix('{"a":' * 10_000), dict)
        assert len(parse_json_prefix("[" + "1," * 30_000)) == 30_000


def is_begun(part: Any, whole: Any) -> bool:
    """Whether a value is the beginning of another, in each of its members."""
    if part is NOTHING:
        return True
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(name in whole and is_begun(value, whole[name]) for name, value in part.items())
    if isinstance(part, list) and isinstance(whole, list):
        return len(part) <= len(whole) and all(map(is_begun, part, whole))
    return bool(part == whole)


def test_a_source_that_is_gone_is_an_error_of_its_own(tmp_path: Path) -> None:
    path = write_fake_session(tmp_path / ".fake" / "a" / "one.jsonl")
    (found,) = sessions(tmp_path)
    path.unlink()
    with pytest.raises(InputError):
        open_session(found)
