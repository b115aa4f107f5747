"""An archive exports every session once, again when it grows, and survives crashes."""

import contextlib
import itertools
import json
import os
import re
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers import fake_format
from helpers.fake_format import write_fake_session
from helpers.fake_reader import add_reader
from open_token.builder.draft import Draft
from open_token.context import Context
from open_token.errors import InputError, OutputError
from open_token.integrity.verify import VERIFIED, verify_bytes
from open_token.library import archive as module
from open_token.library import jobs
from open_token.library.archive import Archive, Change, exporter, index
from open_token.library.archive.names import choose_day, choose_file_name, slugify
from open_token.library.discovery import Discovery
from open_token.model.document import Found
from open_token.options import ExportOptions
from open_token.pipeline import export
from open_token.sources.source import Source
from open_token.storage import files

NOW = "2026-01-02T03:04:05Z"
LATER = 2_000_000_000.0


class World:
    """A home with conversations, and an archive of them."""

    def __init__(self, root: Path) -> None:
        self.home, self.folder = root / "home", root / "archive"
        self.sessions = self.home / ".fake" / "a"
        self.options: dict[str, str] = {}
        self.now = LATER
        self.env: dict[str, str] = {}

    def context(self) -> Context:
        return Context(ExportOptions.of(self.options), now=NOW)

    def archive(self, **how: bool) -> Archive:
        return Archive(self.folder, self.context, lambda: self.now, **how)

    def run(self, archive: Archive | None = None) -> list[Change]:
        """One pass of a new archive, or of a given one."""
        archive = archive or self.archive()
        with archive.lock():
            return list(archive.run(Discovery(self.env, self.home).sessions(thorough=True)))

    def done(self, archive: Archive | None = None) -> list[tuple[str, str]]:
        return [
            (change.kind, Path(change.entry.file or change.entry.source or "").stem)
            for change in self.run(archive)
        ]

    def index(self) -> dict[str, dict[str, Any]]:
        """The lines of the index by the name of the source, or of the file where there is no
        source."""
        head, *lines = (self.folder / "index.ndjson").read_text().splitlines()
        assert json.loads(head) == {"schema": "open-token/archive/1"}
        entries = [json.loads(line) for line in lines]
        found = {
            Path(e.get("source", e.get("file"))).stem + e.get("conversation", ""): e
            for e in entries
        }
        assert len(found) == len(entries)
        return found

    def exports(self) -> dict[str, Any]:
        """What was said, by the name of the file; every file is a whole export."""
        found = {}
        for path in sorted(self.folder.glob("*/*")):
            data = path.read_bytes()
            assert verify_bytes(data).status == VERIFIED
            found[path.name] = [event["content"]["text"] for event in json.loads(data)["events"]]
        return found

    def check(self) -> None:
        """Index and files agree, nothing else lies about."""
        files = {
            str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file()
        }
        listed = [entry["file"] for entry in self.index().values() if "file" in entry]
        assert sorted(files - {"index.ndjson", ".lock"}) == sorted(listed)
        assert "pending" not in {entry["state"] for entry in self.index().values()}
        self.exports()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    fake_format.install_fake_format(monkeypatch)
    return World(tmp_path)


def grow(path: Path, *says: str, age: int = 0) -> None:
    with path.open("a") as out:
        out.writelines(json.dumps({"say": text}) + "\n" for text in says)
    os.utime(path, (1_700_000_000 - age, 1_700_000_000 - age))


class TestPass:
    """What one pass does."""

    def test_new_ones_oldest_first(self, world: World) -> None:
        write_fake_session(world.sessions / "one.jsonl", 10)
        write_fake_session(world.sessions / "two.jsonl", 20, says=("a", "b"))
        assert world.done() == [("new", "2023-11-14_two"), ("new", "2023-11-14_one")]
        assert world.exports() == {
            "2023-11-14_one.json": ["hello"],
            "2023-11-14_two.json": ["a", "b"],
        }
        world.check()

    def test_the_index_describes_each_session(self, world: World) -> None:
        path = write_fake_session(world.sessions / "one.jsonl", 10)
        world.run()
        data = json.loads((world.folder / "fake_session" / "2023-11-14_one.json").read_bytes())
        assert world.index()["one"] == {
            "heading": "hello",
            "reader": "fake_session",
            "state": "current",
            "file": "fake_session/2023-11-14_one.json",
            "source": str(path),
            "id": "one",
            "archived_at": NOW,
            "exported_at": NOW,
            "events": 1,
            "events_hash": data["integrity"]["events_hash"],
            "bytes": (world.folder / "fake_session" / "2023-11-14_one.json").stat().st_size,
            "sha256": Source.of(path).sha256,
            "source_bytes": path.stat().st_size,
            "source_mtime_ns": path.stat().st_mtime_ns,
        }

    @pytest.mark.parametrize("mode", ["json", "ndjson"])
    def test_the_index_says_of_an_export_what_its_file_says(self, world: World, mode: str) -> None:
        world.options["mode"] = mode
        write_fake_session(world.sessions / "one.jsonl")
        [change] = world.run()
        entry = change.entry
        facts = index.read_export_facts(world.folder / str(entry.file))
        assert facts is not None
        conversation, events_hash, exported_at = facts
        assert conversation == index.ExportFacts(str(entry.id), entry.title, entry.started_at)
        assert (events_hash, exported_at) == (entry.events_hash, entry.exported_at)
        assert events_hash

    def test_what_is_as_it_was_is_not_read_again(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for number in range(5):
            write_fake_session(world.sessions / f"{number}.jsonl", number)
        world.run()
        before = (world.folder / "index.ndjson").stat()
        monkeypatch.setattr(Source, "open", lambda self: pytest.fail("a source was opened"))
        monkeypatch.setattr(
            exporter, "open_session", lambda session: pytest.fail("a source was opened")
        )
        archive = world.archive()
        assert world.done(archive) == []
        assert archive.counts == {"unchanged": 5}
        assert (world.folder / "index.ndjson").stat().st_mtime_ns == before.st_mtime_ns

    def test_a_touched_one_is_known_by_its_hash(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = write_fake_session(world.sessions / "one.jsonl", 10)
        world.run()
        os.utime(path, (5, 5))
        with monkeypatch.context() as patch:
            patch.setattr(exporter, "export", lambda *_: pytest.fail("it was exported again"))
            assert world.done() == []
        assert world.index()["one"]["source_mtime_ns"] == 5 * 10**9
        world.check()

    def test_a_grown_one_is_exported_again_in_its_place(self, world: World) -> None:
        path = write_fake_session(world.sessions / "one.jsonl", 10)
        world.run()
        grow(path, "more", age=5)
        assert world.done() == [("changed", "2023-11-14_one")]
        assert world.exports() == {"2023-11-14_one.json": ["hello", "more"]}
        assert world.done() == []
        world.check()

    def test_a_change_of_the_same_size_and_another_time(self, world: World) -> None:
        path = write_fake_session(world.sessions / "one.jsonl", 10)
        world.run()
        path.write_text(path.read_text().replace("hello", "hallo"))
        os.utime(path, (1_700_000_001, 1_700_000_001))
        assert world.done() == [("earlier", "2023-11-14_one"), ("new", "2023-11-14_one-2")]

    @pytest.mark.parametrize("mode", ["json", "ndjson"])
    def test_a_source_that_was_rewritten_does_not_take_what_is_archived(
        self, world: World, mode: str
    ) -> None:
        world.options = {"mode": mode}
        path = write_fake_session(world.sessions / "one.jsonl", 10, says=("a", "b"))
        world.run()
        old = (world.folder / "fake_session" / f"2023-11-14_one.{mode}").read_bytes()
        write_fake_session(
            world.sessions / "one.jsonl", 5, says=("a", "rewritten and longer than before")
        )
        assert world.done() == [("earlier", "2023-11-14_one"), ("new", "2023-11-14_one-2")]
        assert (world.folder / "fake_session" / f"2023-11-14_one.{mode}").read_bytes() == old
        assert sorted(entry["state"] for entry in world.index().values()) == ["current", "earlier"]
        grow(path, "c")
        assert world.done() == [("changed", "2023-11-14_one-2")]
        assert (world.folder / "fake_session" / f"2023-11-14_one.{mode}").read_bytes() == old

    def test_a_text_that_goes_on_is_the_same_text(self, world: World) -> None:
        write_fake_session(world.sessions / "one.jsonl", 10, says=("a", "the answer beg"))
        world.run()
        write_fake_session(
            world.sessions / "one.jsonl", 5, says=("a", "the answer begins and ends")
        )
        assert world.done() == [("changed", "2023-11-14_one")]
        assert world.exports() == {"2023-11-14_one.json": ["a", "the answer begins and ends"]}
        world.check()

    def test_the_same_text_said_less_often_is_a_loss(self, world: World) -> None:
        write_fake_session(world.sessions / "one.jsonl", 10, says=("yes", "yes"))
        world.run()
        write_fake_session(world.sessions / "one.jsonl", 5, says=("yes", "no, and more than that"))
        assert world.done()[0] == ("earlier", "2023-11-14_one")

    def test_a_file_keeps_its_name_when_the_title_changes(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def read(source: Source, draft: Draft) -> None:
            original(source, draft)
            draft.conversation["title"] = source.text.count("say") * "word "

        original = fake_format.read
        path = write_fake_session(world.sessions / "one.jsonl", 10)
        world.run()
        monkeypatch.setattr(fake_format, "read", read)
        grow(path, "more")
        assert world.done() == [("changed", "2023-11-14_one")]
        assert world.index()["one"]["title"] == "word word "

    def test_a_title_in_the_name_is_a_masked_one(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        secret = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7cF0hJ3kL6"

        def read(source: Source, draft: Draft) -> None:
            original(source, draft)
            draft.conversation["title"] = f"Use {secret} now"

        original = fake_format.read
        monkeypatch.setattr(fake_format, "read", read)
        write_fake_session(world.sessions / "one.jsonl", 10, title=f"Use {secret} now")
        world.run()
        (name,) = world.exports()
        assert name.startswith("2023-11-14_use-redacted-")
        everything = b"".join(
            path.read_bytes() for path in world.folder.rglob("*") if path.is_file()
        )
        assert secret.encode() not in everything
        assert secret.lower() not in name

    def test_options_are_those_of_an_export(self, world: World) -> None:
        path = write_fake_session(world.sessions / "one.jsonl", 10)
        path.write_text(path.read_text() + '{"think": "hm"}\n')
        os.utime(path, (1_700_000_000, 1_700_000_000))
        world.run()
        assert world.exports() == {"2023-11-14_one.json": ["hello"]}
        world.options = {"include": "include-internal", "internal": "full"}
        assert world.done() == [("changed", "2023-11-14_one")]
        assert world.exports() == {"2023-11-14_one.json": ["hello", "hm"]}
        assert world.index()["one"]["options"] == "include=include-internal internal=full"
        assert world.done() == []

    def test_another_form_takes_the_place_of_the_first(self, world: World) -> None:
        write_fake_session(world.sessions / "one.jsonl", 10)
        world.run()
        world.options = {"mode": "ndjson"}
        assert world.done() == [("changed", "2023-11-14_one")]
        assert [path.name for path in world.folder.glob("*/*")] == ["2023-11-14_one.ndjson"]
        assert world.index()["one"]["file"] == "fake_session/2023-11-14_one.ndjson"
        world.options = {}
        world.run()
        world.check()

    def test_again_means_all_and_once(self, world: World) -> None:
        write_fake_session(world.sessions / "one.jsonl", 10)
        world.run()
        archive = world.archive(again=True)
        (world.folder / "fake_session" / "2023-11-14_one.json").write_text("spoilt")
        assert world.done(archive) == []
        assert archive.counts["unchanged"] == 1
        world.options = {"integrity": "none"}
        archive = world.archive(again=True)
        assert world.done(archive) == [("changed", "2023-11-14_one")]
        assert world.done(archive) == []

    def test_two_conversations_of_one_name(self, world: World) -> None:
        write_fake_session(world.sessions / "one.jsonl", 10, id="Same")
        write_fake_session(world.sessions / "two.jsonl", 20, id="same")
        world.run()
        assert list(world.exports()) == ["2023-11-14_same-2.json", "2023-11-14_same.json"]
        world.check()

    def test_ids_that_are_one_name_to_some_disks_are_two_files(self, world: World) -> None:
        write_fake_session(world.sessions / "one.jsonl", 20, id="Session")
        write_fake_session(world.sessions / "two.jsonl", 10, id="tALK")
        write_fake_session(
            world.sessions / "three.jsonl", 5, id="../../ta\u212a/l\x00k" + "x" * 5000
        )
        world.run()
        names = [
            path.relative_to(world.folder).as_posix() for path in world.folder.glob("**/*.json")
        ]
        assert len({name.casefold() for name in names}) == 3
        assert all(
            re.fullmatch(r"fake_session/[0-9]{4}-[0-9]{2}-[0-9]{2}_[-a-z0-9]{4,42}\.json", name)
            for name in names
        )

    def test_what_is_said_during_a_pass_is_there_after_the_next(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = write_fake_session(world.sessions / "one.jsonl", 10)

        def slow(*args: Any) -> Any:
            receipt = export(*args)
            grow(path, "meanwhile", age=5)
            return receipt

        with monkeypatch.context() as patch:
            patch.setattr(exporter, "export", slow)
            assert world.done() == [("new", "2023-11-14_one")]
        assert world.done() == [("changed", "2023-11-14_one")]
        (file,) = world.folder.glob("fake_session/*.json")
        assert texts(file) == ["hello", "meanwhile"]

    def test_a_file_of_somebody_else_is_not_touched(self, world: World) -> None:
        write_fake_session(world.sessions / "one.jsonl", 10)
        other = world.folder / "fake_session" / "2023-11-14_one.json"
        other.parent.mkdir(parents=True)
        other.write_text("mine")
        assert world.done() == [("new", "2023-11-14_one-2")]
        assert other.read_text() == "mine"
        assert world.done() == []

    @pytest.mark.parametrize("mode", ["json", "ndjson"])
    def test_an_export_that_somebody_put_there_is_not_taken_over(
        self, world: World, mode: str
    ) -> None:
        write_fake_session(world.sessions / "one.jsonl", 10)
        world.run()
        (made,) = world.folder.glob("fake_session/*.json")
        mine = made.rename(made.with_name("mine.json"))
        before = mine.read_bytes()
        (world.folder / "index.ndjson").unlink()
        world.options = {"mode": mode}
        assert world.done() == [("new", "2023-11-14_one")]
        grow(world.sessions / "one.jsonl", "more")
        assert world.done() == [("changed", "2023-11-14_one")]
        assert mine.read_bytes() == before

    def test_files_are_private(self, world: World) -> None:
        write_fake_session(world.sessions / "one.jsonl", 10)
        world.run()
        for path in [world.folder, *world.folder.rglob("*")]:
            assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path

    def test_what_a_source_leaves_out_is_noted(self, world: World) -> None:
        path = write_fake_session(world.sessions / "one.jsonl", 10)
        with path.open("a") as out:
            out.write('{"say": "ha')
        world.run()
        assert world.index()["one"]["notes"] == {"half-line": 1}


class TestGone:
    """What a runtime deletes stays."""

    def test_deleted_session_stays_and_is_marked(self, world: World) -> None:
        path = write_fake_session(world.sessions / "one.jsonl", 10)
        write_fake_session(world.sessions / "two.jsonl", 20)
        world.run()
        path.unlink()
        assert world.done() == [("gone", "2023-11-14_one")]
        assert world.index()["one"]["state"] == "gone"
        assert world.index()["one"]["gone_at"] == NOW
        assert len(world.exports()) == 2
        assert world.done() == []
        world.check()

    def test_session_deleted_during_a_pass(self, world: World) -> None:
        for name in ("known", "unknown"):
            write_fake_session(world.sessions / f"{name}.jsonl", 10)
            if name == "known":
                world.run()
        grow(world.sessions / "known.jsonl", "more", age=5)
        found = Discovery(world.env, world.home).sessions(thorough=True)
        for name in ("known", "unknown"):
            (world.sessions / f"{name}.jsonl").unlink()
        archive = world.archive()
        changes = list(archive.run(found))
        assert [(change.kind, change.entry.id) for change in changes] == [("gone", "known")]
        assert archive.counts["failed"] == 0
        assert list(world.index()) == ["known"]

    def test_deleted_session_comes_back(self, world: World) -> None:
        path = write_fake_session(world.sessions / "one.jsonl", 10)
        world.run()
        path.unlink()
        world.run()
        write_fake_session(world.sessions / "one.jsonl", 10)
        assert world.done() == []
        assert world.index()["one"]["state"] == "current"
        assert "gone_at" not in world.index()["one"]

    def test_deleted_session_comes_back_as_another(self, world: World) -> None:
        path = write_fake_session(world.sessions / "one.jsonl", 10)
        world.run()
        path.unlink()
        world.run()
        write_fake_session(world.sessions / "one.jsonl", 5, id="other", says=("all", "new"))
        assert world.done() == [("earlier", "2023-11-14_one"), ("new", "2023-11-14_other")]
        assert world.exports() == {
            "2023-11-14_one.json": ["hello"],
            "2023-11-14_other.json": ["all", "new"],
        }
        assert [entry["state"] for entry in world.index().values()] == ["current", "earlier"]
        assert world.done() == []
        world.check()

    def test_a_source_that_was_made_shorter_does_not_take_what_is_archived(
        self, world: World
    ) -> None:
        write_fake_session(world.sessions / "one.jsonl", 10, says=("a", "b", "c"))
        world.run()
        write_fake_session(world.sessions / "one.jsonl", 5, says=("c",))
        assert world.done() == [("earlier", "2023-11-14_one"), ("new", "2023-11-14_one-2")]
        assert world.exports() == {
            "2023-11-14_one.json": ["a", "b", "c"],
            "2023-11-14_one-2.json": ["c"],
        }
        grow(world.sessions / "one.jsonl", "d")
        assert world.done() == [("changed", "2023-11-14_one-2")]
        world.check()

    def test_a_source_that_was_emptied_does_not_either(self, world: World) -> None:
        path = write_fake_session(world.sessions / "one.jsonl", 10)
        world.run()
        path.write_text('{"fake_session": "one"}\n')
        for done in ([("earlier", "2023-11-14_one")], []):
            assert world.done() == done
            assert sorted(entry["state"] for entry in world.index().values()) == [
                "earlier",
                "empty",
            ]
        grow(path, "more")
        assert world.done() == [("new", "2023-11-14_one-2")]
        world.check()

    def test_ids_made_of_the_content_may_change_as_it_grows(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def read(source: Source, draft: Draft) -> None:
            original(source, draft)
            del draft.conversation["id"]

        original = fake_format.read
        monkeypatch.setattr(fake_format, "read", read)
        path = write_fake_session(world.sessions / "one.jsonl", 10)
        world.run()
        before = world.index()["one"]
        grow(path, "more")
        assert [kind for kind, _ in world.done()] == ["changed"]
        after = world.index()["one"]
        assert before["file"] == after["file"]
        assert before["id"] != after["id"]

    def test_a_source_in_another_place_than_this_one_looks_is_not_gone(self, world: World) -> None:
        world.env = {"FAKE_HOME": str(world.home / "elsewhere")}
        write_fake_session(world.home / "elsewhere" / "one.jsonl", 10)
        world.run()
        world.env = {}
        assert world.done() == []
        assert world.index()["one"]["state"] == "current"

    @pytest.mark.parametrize("marked", [False, True])
    def test_a_source_that_was_moved_keeps_its_export(self, world: World, marked: bool) -> None:
        path = write_fake_session(world.sessions / "one.jsonl", 10)
        world.run()
        moved = path.rename(world.home / "one.jsonl")
        if marked:
            world.run()
        (world.home / ".fake" / "b").mkdir()
        moved.rename(world.home / ".fake" / "b" / "one.jsonl")
        assert world.done() == []
        assert world.index()["one"]["source"] == str(world.home / ".fake" / "b" / "one.jsonl")
        assert world.index()["one"]["state"] == "current"
        world.check()


class TestFailures:
    """What cannot be read does not stop the rest."""

    def test_unreadable_session_is_reported_each_time_and_noted(self, world: World) -> None:
        path = write_fake_session(world.sessions / "bad.jsonl", 30)
        path.write_text('{"fake_session": "x"}\n{"say": ' + "[" * 9999 + "]" * 9999 + "}\n")
        write_fake_session(world.sessions / "good.jsonl", 10)
        for expected in (["failed", "new"], ["failed"]):
            changes = world.run()
            assert sorted(change.kind for change in changes) == expected
            (problem,) = [change.problem for change in changes if change.problem]
            assert isinstance(problem, InputError)
            assert problem.where == f"{path}:2"
        assert world.index()["bad"]["state"] == "failed"
        assert world.index()["bad"]["error"] == "input.deep"
        assert len(world.exports()) == 1
        write_fake_session(world.sessions / "bad.jsonl", 5)
        assert world.done() == [("new", "2023-11-14_bad")]
        assert "error" not in world.index()["bad"]
        world.check()

    def test_while_watching_it_is_reported_once(self, world: World) -> None:
        path = write_fake_session(world.sessions / "bad.jsonl")
        path.write_text('{"fake_session": "x"}\n{"say": ' + "[" * 9999 + "]" * 9999 + "}\n")
        archive = world.archive()
        assert world.done(archive) == [("failed", "bad")]
        assert world.done(archive) == []
        path.unlink()
        assert world.done(archive) == []
        assert world.index() == {}

    def test_an_earlier_export_stays(self, world: World) -> None:
        path = write_fake_session(world.sessions / "one.jsonl", 10)
        world.run()
        path.write_text("{broken\n{}\n")
        assert world.done() == [("failed", "2023-11-14_one")]
        assert world.exports() == {"2023-11-14_one.json": ["hello"]}
        path.unlink()
        assert world.done() == [("gone", "2023-11-14_one")]

    def test_a_fault_of_a_reader_is_one_of_its_source(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def read(source: Source, draft: Draft) -> None:
            raise ZeroDivisionError

        write_fake_session(world.sessions / "one.jsonl", 10)
        monkeypatch.setattr(fake_format, "read", read)
        (change,) = world.run()
        assert change.problem is not None
        assert change.problem.what == "internal error (ZeroDivisionError)"
        world.check()

    def test_one_without_events_is_no_failure(self, world: World) -> None:
        write_fake_session(world.sessions / "one.jsonl", 10, says=())
        archive = world.archive()
        assert world.done(archive) == []
        assert archive.counts == {"empty": 1}
        archive = world.archive()
        assert world.done(archive) == []
        assert archive.counts == {"empty": 1}

    def test_a_full_disk_ends_the_pass(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        write_fake_session(world.sessions / "one.jsonl", 10)
        world.run()
        grow(world.sessions / "one.jsonl", "more")

        def full(descriptor: int) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(OutputError, match="No space left"):
                world.run()
        assert world.done() == [("changed", "2023-11-14_one")]
        world.check()

    def test_no_folder_to_write_into(self, world: World) -> None:
        world.folder.write_text("a file")
        with pytest.raises(OutputError, match="cannot write to this directory"):
            world.run()

    def test_two_at_once_exclude_each_other(self, world: World) -> None:
        with world.archive().lock():
            with pytest.raises(OutputError) as caught:
                world.run()
            assert caught.value.code == "archive.busy"
        assert world.run() == []


class TestSeveral:
    """Sources of several conversations."""

    @pytest.fixture
    def store(self, world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[sqlite3.Connection]:
        def conversations(source: Source) -> list[Found]:
            return [
                Found(name, updated_at=at)
                for name, at in source.rows("SELECT id, max(at) FROM said GROUP BY id")
            ]

        def read(source: Source, draft: Draft) -> None:
            self.read.append(source.conversation)
            person = draft.get_actor("human", "user")
            draft.conversation["id"] = f"ses_{source.conversation}"
            for (text,) in source.rows(
                "SELECT text FROM said WHERE ? IN (id, '')", (source.conversation or "",)
            ):
                draft.add_message("user", text, person)

        self.read: list[str | None] = []
        add_reader(
            monkeypatch, "store", places=("*.db",), list_conversations=conversations, read=read
        )
        world.home.mkdir(parents=True)
        made = sqlite3.connect(world.home / "sessions.db")
        made.execute("PRAGMA journal_mode = WAL")
        made.execute("CREATE TABLE said (id, text, at)")
        for name, day in (("a", 1), ("b", 2), ("c", 20)):
            made.execute(
                "INSERT INTO said VALUES (?, 'hello', ?)", (name, f"2023-11-{day:02}T00:00:00Z")
            )
        made.commit()
        yield made
        made.close()

    def test_an_export_for_each(self, world: World, store: sqlite3.Connection) -> None:
        assert sorted(world.done()) == [
            ("new", "2023-11-01_ses-a"),
            ("new", "2023-11-02_ses-b"),
            ("new", "2023-11-20_ses-c"),
        ]
        assert {entry["conversation"] for entry in world.index().values()} == {"a", "b", "c"}
        self.read.clear()
        assert world.done() == []
        assert self.read == []
        world.check()

    def test_a_database_is_hashed_if_all_of_it_is_in_one_file_of_some_size(
        self, world: World, store: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        world.run()
        assert "sha256" not in world.index()["sessionsa"]
        store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        world.run(world.archive(again=True))
        assert world.index()["sessionsa"]["sha256"] == Source.of(world.home / "sessions.db").sha256
        monkeypatch.setattr(exporter, "_MAX_HASHED_DATABASE", 1000)
        world.run(world.archive(again=True))
        assert "sha256" not in world.index()["sessionsa"]

    def test_only_what_may_have_changed_is_read_again(
        self, world: World, store: sqlite3.Connection
    ) -> None:
        world.run()
        self.read.clear()
        store.execute("INSERT INTO said VALUES ('b', 'more', '2026-01-01T00:00:00Z')")
        store.commit()
        archive = world.archive()
        assert world.done(archive) == [("changed", "2023-11-02_ses-b")]
        assert self.read == ["b"]
        assert archive.counts == {"changed": 1, "unchanged": 2}
        assert world.exports()["2023-11-02_ses-b.json"] == ["hello", "more"]

    def test_one_that_was_deleted(self, world: World, store: sqlite3.Connection) -> None:
        world.run()
        store.execute("DELETE FROM said WHERE id = 'a'")
        store.commit()
        assert world.done() == [("gone", "2023-11-01_ses-a")]
        assert world.index()["sessionsa"]["state"] == "gone"
        store.execute("DELETE FROM said WHERE id = 'b'")
        store.commit()
        assert world.done() == [("gone", "2023-11-02_ses-b")]
        world.check()

    def test_a_database_that_cannot_be_read_for_once_takes_nothing_away(
        self, world: World, store: sqlite3.Connection
    ) -> None:
        world.run()
        store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        store.close()
        path = world.home / "sessions.db"
        data = path.read_bytes()
        path.write_bytes(data[:100] + b"\xff" * (len(data) - 100))
        assert [kind for kind, _ in world.done()] == ["failed"]
        assert [entry["state"] for entry in world.index().values()].count("current") == 3
        path.write_bytes(data)
        assert world.done() == []
        world.check()

    def test_a_folder(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        def read(source: Source, draft: Draft) -> None:
            person = draft.get_actor("human", "user")
            draft.conversation["id"] = "folder"
            for part in source.find_files("*.json"):
                draft.add_message("user", part.document["say"], person)

        add_reader(monkeypatch, "events", places=(".events/*/",), read=read)
        folder = world.home / ".events" / "x"
        folder.mkdir(parents=True)
        (folder / "1.json").write_text('{"say": "one"}')
        assert [kind for kind, _ in world.done()] == ["new"]
        (folder / "2.json").write_text('{"say": "two"}')
        assert [kind for kind, _ in world.done()] == ["changed"]
        assert list(world.exports().values()) == [["one", "two"]]
        os.utime(folder / "1.json", (LATER, LATER))
        assert world.done() == []
        assert world.done() == []


class TestBeside:
    """Sources that lie in several files."""

    @pytest.fixture
    def main(self, world: World, monkeypatch: pytest.MonkeyPatch) -> Path:
        def read(source: Source, draft: Draft) -> None:
            original(source, draft)
            person = draft.get_actor("human", "user")
            for part in [
                *source.find_siblings("part-*.jsonl"),
                *source.find_siblings("agents/*.jsonl"),
            ]:
                for _, record in part.records():
                    draft.add_message("user", record.get("say", "nothing"), person)

        original = fake_format.read
        monkeypatch.setattr(fake_format, "read", read)
        write_fake_session(world.sessions / "part-1.jsonl", 100, says=())
        write_fake_session(world.sessions / "agents" / "1.jsonl", 100, says=())
        return write_fake_session(world.sessions / "one.jsonl", 10)

    def test_a_change_in_any_of_them(self, world: World, main: Path) -> None:
        assert world.done() == [("new", "2023-11-14_one")]
        assert world.done() == []
        assert world.index()["one"]["beside"] == [
            f"{main.parent / 'agents'}/",
            str(main.parent / "part-1.jsonl"),
        ]
        grow(main.parent / "part-1.jsonl", "more", age=90)
        assert world.done() == [("changed", "2023-11-14_one")]
        write_fake_session(main.parent / "agents" / "2.jsonl", 80)
        assert world.done() == [("changed", "2023-11-14_one")]
        assert world.done() == []

    def test_what_may_have_changed_meanwhile_is_looked_at_again(
        self, world: World, main: Path
    ) -> None:
        world.now = 1_700_000_000 - 100
        archive = world.archive()
        world.run(archive)
        assert "beside_stamp" not in world.index()["one"]
        world.now = LATER
        assert world.done() == []
        assert world.index()["one"]["beside_stamp"]


class TestIndex:
    """The index is lost or spoilt, the files are not."""

    def spoil(self, world: World, how: Callable[[bytes], bytes]) -> None:
        path = world.folder / "index.ndjson"
        path.write_bytes(how(path.read_bytes()))

    @pytest.fixture
    def kept(self, world: World) -> dict[str, Any]:
        """Three conversations, the source of one of which is gone."""
        for number in range(3):
            write_fake_session(
                world.sessions / f"{number}.jsonl", number, says=(f"session {number}", "end")
            )
        world.run()
        (world.sessions / "1.jsonl").unlink()
        world.run()
        return world.index()

    @pytest.mark.parametrize(
        "how",
        [
            lambda data: b"",
            lambda data: b"\0" * len(data),
            lambda data: data[: len(data) // 2],
            lambda data: data[:-1],
            lambda data: data[:-2],
            lambda data: data.replace(b"events", b"\xff\xfe"),
            lambda data: data.replace(b'"state"', b'"status"'),
            lambda data: b"\n".join(data.split(b"\n")[1:]),
            lambda data: data.replace(b"fake_session/", b"../"),
        ],
    )
    def test_index_is_rebuilt(
        self, world: World, kept: dict[str, Any], how: Callable[[bytes], bytes]
    ) -> None:
        before = world.exports()
        self.spoil(world, how)
        assert world.done() == []
        assert world.exports() == before
        again = world.index()
        assert {entry["file"] for entry in again.values()} == {
            entry["file"] for entry in kept.values()
        }
        assert {Path(e["file"]).stem: e["state"] for e in again.values()} == {
            "2023-11-14_0": "current",
            "2023-11-14_1": "gone",
            "2023-11-14_2": "current",
        }
        hashes = {entry["file"]: entry["events_hash"] for entry in kept.values()}
        assert {entry["file"]: entry["events_hash"] for entry in again.values()} == hashes
        world.check()

    def test_index_is_rebuilt_from_nothing(self, world: World, kept: dict[str, Any]) -> None:
        (world.folder / "index.ndjson").unlink()
        assert world.done() == []
        world.check()

    def test_what_changed_too_is_kept_in_both_forms(
        self, world: World, kept: dict[str, Any]
    ) -> None:
        """Nobody knows any more which file was of which source: better one too many than one too
        few."""
        (world.folder / "index.ndjson").unlink()
        grow(world.sessions / "0.jsonl", "more")
        assert world.done() == [("new", "2023-11-14_0-2")]
        assert world.done() == []
        assert len(world.exports()) == 4
        world.check()

    def test_files_that_were_taken_away(self, world: World, kept: dict[str, Any]) -> None:
        for path in world.folder.glob("*/*.json"):
            path.unlink()
        assert world.done() == [
            ("lost", "2023-11-14_1"),
            ("new", "2023-11-14_2"),
            ("new", "2023-11-14_0"),
        ]
        assert world.done() == []
        world.check()

    def test_an_index_of_another_version_is_refused(
        self, world: World, kept: dict[str, Any]
    ) -> None:
        self.spoil(
            world, lambda data: data.replace(b"open-token/archive/1", b"open-token/archive/2")
        )
        with pytest.raises(InputError) as caught:
            world.run()
        assert caught.value.code == "archive.version"

    def test_an_export_of_another_form_is_adopted_and_written_anew(
        self, world: World, kept: dict[str, Any]
    ) -> None:
        (world.folder / "index.ndjson").unlink()
        world.options = {"mode": "ndjson"}
        world.run()
        names = sorted(path.name for path in world.folder.glob("*/*"))
        assert names == ["2023-11-14_0.ndjson", "2023-11-14_1.json", "2023-11-14_2.ndjson"]
        assert world.done() == []
        assert len(world.index()) == 3

    def test_archive_deletes_no_file_of_others(self, world: World, kept: dict[str, Any]) -> None:
        before = world.exports()
        mine, other = kept["0"], kept["1"]
        lines = [
            {"schema": "open-token/archive/1"},
            other,
            {**mine, "state": "pending", "replaces": other["file"]},
        ]
        self.spoil(
            world, lambda data: b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        )
        assert not [change for change in world.done() if change[0] in ("lost", "gone")]
        assert world.exports() == before

    def test_one_export_is_adopted_by_one_source(self, world: World, kept: dict[str, Any]) -> None:
        (world.folder / "index.ndjson").unlink()
        data = (world.sessions / "0.jsonl").read_bytes()
        (world.sessions / "copy.jsonl").write_bytes(data)
        assert [kind for kind, _ in world.done()] == ["new"]
        assert world.done() == []
        world.check()

    def test_incomplete_exports_are_left_unchanged(
        self, world: World, kept: dict[str, Any]
    ) -> None:
        for name, text in (
            ("a.json", "{}"),
            ("b.ndjson", "x"),
            ("c.json", '{"open_token_version": "0.1"}'),
        ):
            (world.folder / "fake_session" / name).write_text(text)
        assert world.done() == []
        assert len(world.index()) == 3


class Killed(BaseException):
    """The process ends here."""


class TestKilled:
    """A pass may end at any step on the disk; the next one makes all well."""

    def run_until(
        self, world: World, monkeypatch: pytest.MonkeyPatch, last: int, *, after: bool
    ) -> int:
        """Let a pass end before or after a step; gives how many steps there were."""
        count = 0

        def dying(step: Callable[..., Any]) -> Callable[..., Any]:
            def run(*args: Any, **kwargs: Any) -> Any:
                nonlocal count
                count += 1
                if count == last and not after:
                    raise Killed
                done = step(*args, **kwargs)
                if count == last:
                    raise Killed
                return done

            return run

        with monkeypatch.context() as patch:
            patch.setattr(index, "append_bytes", dying(files.append_bytes))
            patch.setattr(index, "write_atomic", dying(files.write_atomic))
            patch.setattr(module, "remove_file", dying(files.remove_file))
            patch.setattr(module, "remove_leftovers", dying(files.remove_leftovers))
            patch.setattr(files.PendingFile, "commit", dying(files.PendingFile.commit))
            with contextlib.suppress(Killed):
                world.run()
        return count

    def prepare(self, root: Path) -> World:
        """An archive with all that can happen to it: grown, new, gone, shorter, another form."""
        world = World(root)
        world.options = {"redact": "none"}
        for name in ("grows", "goes", "shrinks"):
            write_fake_session(world.sessions / f"{name}.jsonl", 50, says=("a", "b"))
        world.run()
        write_fake_session(world.sessions / "new.jsonl", 10)
        write_fake_session(world.sessions / "shrinks.jsonl", 5, says=("c",))
        grow(world.sessions / "grows.jsonl", "more")
        (world.sessions / "goes.jsonl").unlink()
        return world

    @pytest.mark.parametrize("after", [False, True])
    @pytest.mark.parametrize("options", [{"redact": "none"}, {"redact": "none", "mode": "ndjson"}])
    def test_at_any_step(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, str], after: bool
    ) -> None:
        fake_format.install_fake_format(monkeypatch)
        for last in itertools.count(1):
            world = self.prepare(tmp_path / str(last))
            world.options = options
            steps = self.run_until(world, monkeypatch, last, after=after)
            grow(world.sessions / "new.jsonl", "went on", age=9)
            world.run()
            assert world.done() == []
            self.check(world, options)
            if steps < last:
                break
        assert last > 10

    def check(self, world: World, options: dict[str, str]) -> None:
        entries = list(world.index().values())
        files = {str(path.relative_to(world.folder)) for path in world.folder.glob("*/*")}
        assert sorted(entry["file"] for entry in entries) == sorted(files)
        said: dict[str, list[Any]] = {}
        for entry in entries:
            words = texts(world.folder / entry["file"])
            said.setdefault(entry["id"], []).append((entry["state"], words))
        assert said == {
            "grows": [("current", ["a", "b", "more"])],
            "goes": [("gone", ["a", "b"])],
            "shrinks": [("current", ["c"]), ("earlier", ["a", "b"])],
            "new": [("current", ["hello", "went on"])],
        } or said == said | {"shrinks": [("earlier", ["a", "b"]), ("current", ["c"])]}


def texts(path: Path) -> list[str]:
    if path.suffix == ".json":
        return [event["content"]["text"] for event in json.loads(path.read_bytes())["events"]]
    events = [json.loads(line) for line in path.read_bytes().splitlines()]
    return [event["content"]["text"] for event in events if event["type"] == "event"]


class TestResting:
    """While watching, a long conversation is not exported over and over."""

    def test_watch_waits_between_passes(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = write_fake_session(world.sessions / "one.jsonl", 10)
        now = 100.0
        monkeypatch.setattr(module, "monotonic", lambda: now)
        archive = world.archive()
        real = exporter.export

        def slow(*args: Any) -> Any:
            nonlocal now
            now += 3
            return real(*args)

        monkeypatch.setattr(jobs, "monotonic", lambda: now)
        monkeypatch.setattr(exporter, "export", slow)
        assert [kind for kind, _ in world.done(archive)] == ["new"]
        grow(path, "more")
        now = 103 + 59
        assert world.done(archive) == []
        assert archive.counts == {"resting": 1}
        now = 103 + 61
        assert [kind for kind, _ in world.done(archive)] == ["changed"]


class TestNames:
    """Readable, and safe everywhere."""

    @pytest.mark.parametrize(
        ("text", "name"),
        [
            ("Fix the parser!", "fix-the-parser"),
            ("../../etc/passwd", "etc-passwd"),
            ("a\0b\n\x1b[2J/c\\d:e", "a-b-2j-c-d-e"),
            ("__x__", "x"),
            ("启动 app", "启动-app"),
            ("\u202etxt", "txt"),
            ("", ""),
            ("...", ""),
            ("\ud800x", "x"),
            ("é" * 40, "é" * 15),
        ],
    )
    def test_plain(self, text: str, name: str) -> None:
        assert slugify(text, 30) == name

    @pytest.mark.parametrize(
        ("title", "own", "name"),
        [
            (
                None,
                "c0b3488f-1111-7222-8333-444455556666",
                "2026-01-02_c0b3488f-1111-7222-8333-444455556666.json",
            ),
            ("A title", "C0B3488F-1111-7222-8333-444455556666", "2026-01-02_a-title_c0b3488f.json"),
            ("A title", "ses_x/y", "2026-01-02_a-title_ses-x-y.json"),
            (None, "conv_20260102_0123abcd", "2026-01-02_0123abcd.json"),
            ("!", "!", "2026-01-02.json"),
            ("x" * 500, "y" * 500, f"2026-01-02_{'x' * 60}_{'y' * 40}.json"),
        ],
    )
    def test_name(self, title: str | None, own: str, name: str) -> None:
        assert choose_file_name("2026-01-02", title, own, "json", lambda name: True) == name

    def test_day(self) -> None:
        assert choose_day("x", "2026-01-02T00:00:00Z", "2023-01-01T00:00:00Z") == "2026-01-02"
        assert choose_day("conv_20240506_0123abcd", None, "2023-01-01T00:00:00Z") == "2024-05-06"
        assert (
            choose_day("conv_00000000_0123abcd", "nonsense", "2023-01-01T00:00:00Z") == "2023-01-01"
        )
        assert choose_day("x", None, None) == "undated"


def read_tree(folder: Path) -> dict[str, bytes]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def test_several_processes_write_the_same_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "_MIN_BYTES_PER_JOB", 1)
    home = tmp_path / "home"
    for number in range(6):
        path = home / ".claude" / "projects" / "p" / f"{number}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        record = {
            "type": "user",
            "sessionId": f"s{number}",
            "uuid": f"u{number}",
            "timestamp": "2026-01-02T03:04:05Z",
            "message": {"role": "user", "content": f"question {number}"},
        }
        path.write_text("{broken\n" if number == 3 else json.dumps(record) + "\n")
        os.utime(path, (1e9 + number, 1e9 + number))
    results = []
    for count in (1, 2):
        folder = tmp_path / f"archive{count}"
        context = Context(ExportOptions.of({}), now=NOW, key=b"k" * 32)
        archive = Archive(folder, lambda context=context: context, time.time, jobs=count)
        with archive.lock():
            changes = list(archive.run(Discovery({}, home).sessions(thorough=True)))
        kinds = [(change.kind, change.entry.source) for change in changes]
        results.append((kinds, read_tree(folder)))
    assert results[0] == results[1]
    assert [kind for kind, _ in results[0][0]] == ["new", "new", "new", "failed", "new", "new"]
