"""What is special about the store in a folder: one process, one thread that writes, and disks that
fail."""

import asyncio
import contextlib
import os
import resource
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.server.stores import (
    ANNA,
    BlockingStore,
    create_session,
    entries,
    open_store,
    session_row,
    turn_row,
)
from open_token.errors import StoreError
from open_token.server.store.errors import translate_error
from open_token.server.store.rows import SessionWrite
from open_token.server.store.sqlite import log, sessions
from open_token.server.store.sqlite.database import Database
from open_token.server.store.sqlite.schema import MIGRATIONS, migrate
from open_token.server.store.sqlite.store import SqliteStore


def step(**more: object) -> SessionWrite:
    return SessionWrite(owner=ANNA, session_id="sess_1", **more)  # type: ignore[arg-type]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[BlockingStore]:
    opened_store = open_store(tmp_path / "data")
    yield opened_store
    opened_store.close()


def database(store: BlockingStore) -> Database:
    assert isinstance(store.store, SqliteStore)
    return store.store.database


class TestFolder:
    def test_a_second_server_is_refused_in_words(self, tmp_path: Path) -> None:
        store = open_store(tmp_path / "data")
        with pytest.raises(StoreError) as caught:
            SqliteStore(tmp_path / "data")
        store.close()
        assert caught.value.code == "store.locked"
        assert f"(process {os.getpid()})" in caught.value.what
        open_store(tmp_path / "data").close()

    def test_another_process_is_refused_too(self, tmp_path: Path) -> None:
        store = open_store(tmp_path / "data")
        code = "import sys, pathlib, open_token.server.store.sqlite.store as it; it.open_sqlite(pathlib.Path(sys.argv[1]))"
        command = [sys.executable, "-c", code, str(tmp_path / "data")]
        env = {"PYTHONPATH": ":".join(sys.path)}
        done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
        store.close()
        assert "another server uses this data folder" in done.stderr

    def test_its_files_are_private(self, tmp_path: Path) -> None:
        store = open_store(tmp_path / "data")
        store.put_blob(b"x", "text/plain")
        modes = {path.name: path.stat().st_mode & 0o077 for path in (tmp_path / "data").rglob("*")}
        store.close()
        assert {name for name, mode in modes.items() if mode} == set()

    def test_what_was_kept_is_there_again(self, tmp_path: Path) -> None:
        store = open_store(tmp_path / "data")
        create_session(store)
        store.append(step(entries=entries(3)))
        _, plaintext = store.add_key(ANNA, "laptop", "full", "2026-01-31T00:00:00.000Z")
        store.close()
        store = open_store(tmp_path / "data")
        assert store.session(ANNA, "sess_1").stream_sequence == 3
        assert store.check_key(plaintext, "2026-01-31T00:00:01.000Z").user.id == ANNA
        store.close()
        assert sorted(path.name for path in (tmp_path / "data").iterdir()) == [
            "blobs",
            "lock",
            "pepper",
            "server.db",
        ]

    @pytest.mark.parametrize("pepper", [None, b"2" * 32])
    def test_without_its_pepper_it_does_not_start(
        self, tmp_path: Path, pepper: bytes | None
    ) -> None:
        open_store(tmp_path / "data").close()
        (tmp_path / "data" / "pepper").unlink()
        if pepper:
            (tmp_path / "data" / "pepper").write_bytes(pepper)
        with pytest.raises(StoreError) as caught:
            SqliteStore(tmp_path / "data")
        assert caught.value.code == "store.damaged"

    def test_a_folder_that_cannot_be_is_said(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(StoreError) as caught:
            SqliteStore(tmp_path / "file" / "data")
        assert caught.value.code == "store.read-only"

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
    def test_a_folder_that_may_not_be_written_is_said(self, tmp_path: Path) -> None:
        tmp_path.chmod(0o500)
        with pytest.raises(StoreError) as caught:
            SqliteStore(tmp_path)
        tmp_path.chmod(0o700)
        assert caught.value.code == "store.read-only"

    def test_a_damaged_database_is_refused_and_left_as_it_is(self, tmp_path: Path) -> None:
        open_store(tmp_path / "data").close()
        path = tmp_path / "data" / "server.db"
        for image in (
            b"not a database" * 1000,
            path.read_bytes()[:4096] + b"\xa5" * (path.stat().st_size - 4096),
        ):
            path.write_bytes(image)
            with pytest.raises(StoreError) as caught:
                open_store(tmp_path / "data")
            assert (caught.value.code, bool(caught.value.help)) == ("store.damaged", True)
            assert path.read_bytes() == image

    def test_half_written_blobs_are_swept_at_the_start(self, tmp_path: Path) -> None:
        store = open_store(tmp_path / "data")
        store.put_blob(b"x", "text/plain")
        store.close()
        (folder,) = (tmp_path / "data" / "blobs").iterdir()
        (folder / ".half.part").write_bytes(b"ha")
        open_store(tmp_path / "data").close()
        assert [path.name for path in folder.iterdir() if path.name.endswith(".part")] == []


class TestCore:
    def test_functions_run_without_an_event_loop(self, tmp_path: Path) -> None:
        open_store(tmp_path / "data").close()
        core = Database(tmp_path / "data")
        core.write(log.append_write, log.prepare_write(step(session=session_row(), expected=0)))
        assert core.write(log.append_write, log.prepare_write(step(entries=entries(2)))).last == 2
        assert core.read(sessions.list_sessions, ANNA, limit=5).total == 1
        core.close()
        for late in (
            lambda: core.write(sessions.list_sessions, ANNA),
            lambda: core.read(sessions.list_sessions, ANNA),
        ):
            with pytest.raises(StoreError, match="closed"):
                late()

    def test_many_threads_may_write(self, tmp_path: Path) -> None:
        store = open_store(tmp_path / "data")
        create_session(store)
        core = database(store)
        prepared = log.prepare_write(step(entries=entries(1)))
        threads = [
            threading.Thread(target=core.write, args=(log.append_write, prepared))
            for _ in range(30)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert store.session(ANNA, "sess_1").stream_sequence == 30
        store.close()

    def test_what_waits_is_written_in_one_commit(self, store: BlockingStore) -> None:
        create_session(store)
        commits: list[str] = []
        core = database(store)
        core.write(
            lambda db: db.set_trace_callback(
                lambda sql: commits.append(sql) if sql == "COMMIT" else None
            )
        )
        store.together(*(store.store.append(step(entries=entries(1))) for _ in range(50)))
        core.write(lambda db: db.set_trace_callback(None))
        assert len(commits) < 10

    def test_nobody_hears_before_the_commit(self, store: BlockingStore) -> None:
        create_session(store)
        store.append(step(entries=entries(5)))
        with sqlite3.connect(database(store).folder / "server.db") as other:
            assert other.execute("SELECT stream_sequence FROM sessions").fetchone() == (5,)
        other.close()

    def test_a_bug_in_a_function_hurts_nobody_else(self, store: BlockingStore) -> None:
        create_session(store)

        def broken(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM users")
            raise ZeroDivisionError

        async def work() -> list[object]:
            writer = database(store).writer
            jobs = [
                writer.submit(log.append_write, log.prepare_write(step(entries=entries(1)))),
                writer.submit(broken),
            ]
            return await asyncio.gather(*jobs, return_exceptions=True)

        good, bad = store.loop.run_until_complete(work())
        assert isinstance(bad, ZeroDivisionError)
        assert getattr(good, "last", None) == 1
        assert len(store.users()) == 2

    def test_one_who_gave_up_waiting_does_no_harm(self, store: BlockingStore) -> None:
        create_session(store)

        async def give_up() -> None:
            task = asyncio.ensure_future(store.store.append(step(entries=entries(1))))
            await asyncio.sleep(0)
            task.cancel()

        store.loop.run_until_complete(give_up())
        assert store.append(step(entries=entries(1))).last == 2

    def test_readers_may_not_write(self, store: BlockingStore) -> None:
        with pytest.raises(StoreError) as caught:
            database(store).read(lambda db: db.execute("DELETE FROM users"))
        assert caught.value.code == "store.read-only"


class TestFaults:
    def test_a_full_disk_is_said_and_outlived(self, store: BlockingStore) -> None:
        create_session(store)
        store.append(step(entries=entries(1)))
        _, plaintext = store.add_key(ANNA, "laptop", "full", "2026-01-31T08:00:00.000Z")
        core = database(store)
        core.write(lambda db: db.execute("PRAGMA max_page_count = 1").fetchall())
        with pytest.raises(StoreError) as caught:
            store.append(step(entries=entries(1, words="x" * 100_000), turns=[turn_row(0)]))
        assert (caught.value.code, "x" * 9 in str(caught.value)) == ("store.full", False)
        assert store.session(ANNA, "sess_1").stream_sequence == 1
        assert store.check_key(plaintext, "2026-01-31T09:00:00.000Z") is not None
        core.write(lambda db: db.execute("PRAGMA max_page_count = 1073741823").fetchall())
        assert (
            store.append(step(entries=entries(1, words="x" * 100_000), turns=[turn_row(0)])).last
            == 2
        )
        assert store.check() == []

    def test_a_read_only_disk_is_said_and_outlived(self, store: BlockingStore) -> None:
        create_session(store)
        db = database(store).writer._db  # it is idle
        db.execute("PRAGMA query_only = ON")
        answers = store.together(*(store.store.append(step(entries=entries(1))) for _ in range(3)))
        assert [getattr(answer, "code", None) for answer in answers] == ["store.read-only"] * 3
        db.execute("PRAGMA query_only = OFF")
        assert store.append(step(entries=entries(1))).last == 1

    def test_a_disk_that_stops_writing_is_said_and_outlived(self, store: BlockingStore) -> None:
        """The system refuses files beyond a size: a real write fails, in the log of SQLite and in a
        blob."""
        create_session(store)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
        try:
            with pytest.raises(StoreError) as caught:
                store.append(step(entries=entries(1, words="x" * 1_000_000)))
            with pytest.raises(StoreError) as blob:
                store.put_blob(b"x" * 1_000_000, "text/plain")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert caught.value.code in ("store.disk", "store.full")
        assert blob.value.code == "store.blob"
        assert store.session(ANNA, "sess_1").stream_sequence == 0
        assert store.append(step(entries=entries(1, words="x" * 1_000_000))).last == 1
        assert store.check(is_deep=True) == []

    def test_errors_of_other_kinds_are_reported_by_name_only(self, tmp_path: Path) -> None:
        problem = translate_error(sqlite3.OperationalError("near secret: syntax error"), tmp_path)
        assert (getattr(problem, "code", None), "secret" in str(problem)) == ("store.sql", False)
        mine = ValueError("as it is")
        assert translate_error(mine, tmp_path) is mine


class TestMigrations:
    """Each version that is out has a dump beside this file; opening one brings it to the newest."""

    DUMPS = Path(__file__).parent / "versions"

    @pytest.mark.parametrize("version", range(1, len(MIGRATIONS) + 1))
    def test_data_of_every_version_are_read(self, tmp_path: Path, version: int) -> None:
        folder = tmp_path / "data"
        folder.mkdir()
        (folder / "pepper").write_bytes(bytes(32))
        db = sqlite3.connect(folder / "server.db")
        migrate(db, MIGRATIONS[:version])
        db.executescript((self.DUMPS / f"{version}.sql").read_text(encoding="utf-8"))
        db.close()
        store = open_store(folder)
        assert [entry.data["text"] for entry in store.read_log(ANNA, "sess_old")] == [
            "kept",
            "数据",
        ]
        assert [session.id for session in store.sessions(ANNA, "数据").items] == ["sess_old"]
        assert (
            store.append(SessionWrite(owner=ANNA, session_id="sess_old", entries=entries(1))).last
            == 3
        )
        assert store.check() == []
        store.close()

    def test_a_newer_version_is_left_alone(self, tmp_path: Path) -> None:
        open_store(tmp_path / "data").close()
        db = sqlite3.connect(tmp_path / "data" / "server.db")
        db.execute("PRAGMA user_version = 999")
        db.close()
        with pytest.raises(StoreError) as caught:
            SqliteStore(tmp_path / "data")
        assert caught.value.code == "store.version"

    def test_a_step_that_fails_leaves_the_version_before(self) -> None:
        db = sqlite3.connect(":memory:", isolation_level=None)
        migrate(db, ["CREATE TABLE a (x);"])
        with pytest.raises(sqlite3.OperationalError):
            migrate(db, ["CREATE TABLE a (x);", "CREATE TABLE b (x); CREATE TABLE a (x);"])
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
        assert db.execute("SELECT name FROM sqlite_schema").fetchall() == [("a",)]
        assert migrate(db, ["CREATE TABLE a (x);", "CREATE TABLE b (x);"]) == 1
        assert db.execute("PRAGMA user_version").fetchone() == (2,)
        db.close()

    def test_a_task_fires_once_at_a_time(self, store: BlockingStore) -> None:
        """The tables of schedules hold what the scheduler will rely on."""

        def twice(db: sqlite3.Connection) -> None:
            at = "2026-01-31T09:00:00.000Z"
            db.execute(
                """INSERT INTO scheduled_tasks (id, owner, title, prompt, cron, timezone, enabled, skip_confirmations,
                created_at, body) VALUES ('t', ?, '', '', '0 9 * * *', 'UTC', 1, 0, ?, x'')""",
                (ANNA, at),
            )
            for run in ("r1", "r2"):
                db.execute(
                    """INSERT INTO scheduled_runs (id, task_id, fire_at, status, triggered_at)
                    VALUES (?, 't', ?, 'running', ?)""",
                    (run, at, at),
                )

        with pytest.raises(StoreError, match="violates a constraint"):
            database(store).write(twice)


def test_an_answer_holds_until_anybody_commits(tmp_path: Path) -> None:
    asked: list[str] = []

    def find(db: sqlite3.Connection, key: str) -> str | None:
        asked.append(key)
        row = db.execute("SELECT value FROM settings WHERE key = ?", (key,)).fetchone()
        return row and str(row[0])

    async def play() -> None:
        store = SqliteStore(tmp_path / "data")
        assert [await store.look_up_cached(find, "a") for _ in range(3)] == [None, None, None]
        await store.set_setting("a", "1")
        assert [await store.look_up_cached(find, "a") for _ in range(3)] == ["1", "1", "1"]
        with contextlib.closing(sqlite3.connect(tmp_path / "data" / "server.db")) as other, other:
            other.execute("UPDATE settings SET value = '2' WHERE key = 'a'")
        assert await store.look_up_cached(find, "a") == "2"
        assert asked == ["a", "a", "a"]
        for number in range(3000):
            await store.look_up_cached(find, f"key {number}")
        assert len(store.database.readers._connection()._cache) <= 1000
        await store.close()

    asyncio.run(play())


def test_a_row_that_cannot_be_had_at_once_is_waited_for(tmp_path: Path) -> None:
    seen: list[str] = []

    def find(db: sqlite3.Connection, key: int) -> int:
        seen.append(threading.current_thread().name)
        if len(seen) == 1:
            problem = sqlite3.OperationalError("database is locked")
            problem.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise problem
        found: int = db.execute("SELECT ?", (key,)).fetchone()[0]
        return found

    async def play() -> None:
        store = SqliteStore(tmp_path / "data")
        assert await store.look_up(find, 7) == 7
        assert seen[1].startswith("open-token-reader")
        assert await store.look_up(find, 8) == 8
        assert seen[2] == seen[0]
        with pytest.raises(StoreError):
            await store.look_up(lambda db: db.execute("SELECT nothing"))
        with pytest.raises(StoreError):
            await store.look_up(lambda db: db.execute("SELECT CAST(x'ff' AS TEXT)").fetchall())
        assert await store.look_up(find, 9) == 9
        await store.close()
        with pytest.raises(StoreError, match="closed"):
            await store.look_up(find, 10)

    asyncio.run(play())
