"""The search index: what it finds, how it follows the sessions, and that it survives a kill."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from library.index.sessions import SessionFile
from open_token.api import build_index_context
from open_token.library.discovery import Discovery, Session
from open_token.library.index import Filters, SearchIndex, remove_index
from open_token.library.index.database import FILE_NAME
from open_token.library.index.update import Progress
from open_token.settings import load_settings

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def find_sessions(home: Path) -> list[Session]:
    return Discovery({"HOME": str(home)}, home).sessions()


def update(folder: Path, home: Path) -> Progress:
    context = build_index_context(load_settings(os.environ, home.parent), os.environ)
    with SearchIndex(folder) as index:
        progress = index.update(find_sessions(home), context)
    assert progress is not None
    return progress


def search(folder: Path, text: str, /, **filters: object) -> list[tuple[str, list[int]]]:
    """Return the ids of the sessions that match, and the numbers of their events."""
    with SearchIndex(folder) as index:
        result = index.search(text, Filters(**filters), max_hits=100)  # type: ignore[arg-type]
    return [(found.id, [hit.seq for hit in found.hits]) for found in result.sessions]


@pytest.fixture
def two_sessions(home: Path, folder: Path) -> tuple[SessionFile, SessionFile]:
    tide = SessionFile(home, "aaaaaaaa-0000-4000-8000-000000000001")
    tide.ask("Why does the tide table jump in March?")
    tide.think("Probably daylight saving.")
    tide.call(
        "Bash", {"command": "pytest tests/test_tides.py"}, "1 failed: clock jumps", fails=True
    )
    tide.answer("The clock changes; I fix get_tide in src/tides.py.")
    tide.touch(1)
    bread = SessionFile(
        home, "bbbbbbbb-0000-4000-8000-000000000002", cwd="/home/sam/bread", branch="oven"
    )
    bread.ask("Bake bread with the new clock")
    bread.call("Read", {"file_path": "/home/sam/bread/oven.py"}, "def heat(): pass")
    bread.answer("Done.")
    bread.touch(2)
    update(folder, home)
    return tide, bread


def test_events_are_found_newest_session_first(
    two_sessions: tuple[SessionFile, SessionFile], folder: Path
) -> None:
    tide, bread = two_sessions
    found = search(folder, "clock")
    assert [session_id for session_id, _ in found] == [bread.id, tide.id]
    assert len(found[1][1]) == 2  # the output and the answer


@pytest.mark.parametrize(
    ("text", "filters", "expected"),
    [
        ("clock", {"role": "person"}, ["b"]),
        ("clock", {"role": "output"}, ["a"]),
        ("daylight", {"role": "thinking"}, ["a"]),
        ("pytest", {"role": "command"}, ["a"]),
        ("", {"tool": "read"}, ["b"]),
        ("", {"path": "OVEN.py"}, ["b"]),
        ("clock", {"folder": "/home/sam/bread"}, ["b"]),
        ("clock", {"folder": "/home/sam"}, ["b", "a"]),
        ("clock", {"folder": "/home/sa"}, []),
        ("clock", {"project": "TID"}, ["a"]),
        ("clock", {"agent": "codex"}, []),
        ("clock", {"pattern": "clock (jumps|stops)"}, ["a"]),
        ("get_tide", {}, ["a"]),
        ("tide get", {}, ["a"]),
        ('"tide get"', {}, []),
        ("clock -bread", {}, ["a"]),
    ],
)
def test_filters_select_events(
    two_sessions: tuple[SessionFile, SessionFile],
    folder: Path,
    text: str,
    filters: dict[str, str],
    expected: list[str],
) -> None:
    assert [session_id[0] for session_id, _ in search(folder, text, **filters)] == expected


def test_times_select_events(two_sessions: tuple[SessionFile, SessionFile], folder: Path) -> None:
    tide, _ = two_sessions
    middle = 1793523900.0  # 09:05 on the first day: after all but the last events of `tide`
    assert [found for found, _ in search(folder, "clock", since=middle)] == [tide.id]
    assert len(search(folder, "clock", until=middle)) == 2


def test_only_what_changed_is_read(
    two_sessions: tuple[SessionFile, SessionFile], home: Path, folder: Path
) -> None:
    tide, _ = two_sessions
    assert update(folder, home).sessions == 0
    tide.ask("And the moon?")
    assert update(folder, home).sessions == 1
    assert search(folder, "moon") == [(tide.id, [8])]


def test_a_grown_session_keeps_its_finished_blocks(home: Path, folder: Path) -> None:
    session = SessionFile(home, "cccccccc-0000-4000-8000-000000000003")
    for number in range(6):
        session.answer(f"part{number} " + "some words here " * 1500)
    update(folder, home)
    with sqlite3.connect(folder / FILE_NAME) as database:
        before = database.execute("SELECT id, digest FROM block ORDER BY number").fetchall()
    session.answer("the end")
    update(folder, home)
    with sqlite3.connect(folder / FILE_NAME) as database:
        after = database.execute("SELECT id, digest FROM block ORDER BY number").fetchall()
    assert len(before) > 1
    assert after[: len(before) - 1] == before[:-1]
    assert [events for _, events in search(folder, "part5 OR")] == []
    assert len(search(folder, "part5")[0][1]) == 1


def test_a_rewritten_session_is_found_by_its_new_words_only(home: Path, folder: Path) -> None:
    session = SessionFile(home, "dddddddd-0000-4000-8000-000000000004")
    session.ask("the old question about pears")
    update(folder, home)
    session.path.unlink()
    session.ask("a new question about plums")
    update(folder, home)
    assert search(folder, "pears") == []
    assert len(search(folder, "plums")) == 1


def test_a_deleted_session_is_forgotten(
    two_sessions: tuple[SessionFile, SessionFile], home: Path, folder: Path
) -> None:
    tide, bread = two_sessions
    bread.path.unlink()
    assert update(folder, home).removed == 1
    assert [found for found, _ in search(folder, "clock")] == [tide.id]
    with sqlite3.connect(folder / FILE_NAME) as database:
        for table in ("block", "event", "usage", "call"):
            assert database.execute(f"SELECT count(*) FROM {table}").fetchone()[0] < 10


def test_secrets_are_not_in_the_index(home: Path, folder: Path) -> None:
    session = SessionFile(home, "eeeeeeee-0000-4000-8000-000000000005")
    session.ask(f"use the token {SECRET} for the push")
    session.call("Bash", {"command": f"curl -H 'token: {SECRET}'"}, f"sent {SECRET}")
    update(folder, home)
    assert search(folder, SECRET) == []
    assert len(search(folder, "push")) == 1
    with sqlite3.connect(folder / FILE_NAME) as database:
        dump = "\n".join(map(str, database.execute("SELECT * FROM session").fetchall()))
        assert SECRET not in dump
    assert SECRET.encode() not in (folder / FILE_NAME).read_bytes()


def test_a_stronger_level_reads_everything_again(
    home: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = SessionFile(home, "ffffffff-0000-4000-8000-000000000006")
    session.ask("write to jane.roe@example.org about it")
    update(folder, home)
    assert len(search(folder, "roe")) == 1
    monkeypatch.setenv("OPEN_TOKEN_REDACT", "pii")
    assert update(folder, home).sessions == 1
    assert search(folder, "roe") == []
    monkeypatch.setenv("OPEN_TOKEN_REDACT", "none")
    update(folder, home)
    session.ask(f"and {SECRET}")
    update(folder, home)
    assert search(folder, SECRET) == []


def test_a_broken_session_is_reported_and_does_not_stop_the_others(
    two_sessions: tuple[SessionFile, SessionFile], home: Path, folder: Path
) -> None:
    broken = SessionFile(home, "99999999-0000-4000-8000-000000000009")
    broken.path.write_text("no json at all\nneither here\n")
    assert update(folder, home).failed == 1
    assert update(folder, home).sessions == 0  # not tried again until it changes
    with SearchIndex(folder) as index:
        assert [path for path, _ in index.list_failures()] == [str(broken.path)]
    assert len(search(folder, "clock")) == 2


@pytest.mark.parametrize("damage", [b"not a database", b"SQLite format 3\0" + b"\xff" * 4096])
def test_a_damaged_index_is_rebuilt(home: Path, folder: Path, damage: bytes) -> None:
    SessionFile(home, "aaaaaaaa-0000-4000-8000-000000000007").ask("still here")
    update(folder, home)
    remove_index(folder)
    (folder / FILE_NAME).write_bytes(damage)
    update(folder, home)
    assert len(search(folder, "still")) == 1


def test_an_index_of_another_version_is_rebuilt(home: Path, folder: Path) -> None:
    SessionFile(home, "aaaaaaaa-0000-4000-8000-000000000008").ask("still here")
    update(folder, home)
    with sqlite3.connect(folder / FILE_NAME) as database:
        database.execute("PRAGMA user_version = 999")
    update(folder, home)
    assert len(search(folder, "still")) == 1


def test_the_index_is_private(home: Path, folder: Path) -> None:
    SessionFile(home, "aaaaaaaa-0000-4000-8000-00000000000a").ask("mine")
    update(folder, home)
    assert (folder / FILE_NAME).stat().st_mode & 0o077 == 0


def test_two_updates_at_once_do_the_work_once(
    two_sessions: tuple[SessionFile, SessionFile], home: Path, folder: Path
) -> None:
    context = build_index_context(load_settings(os.environ, home.parent), os.environ)
    with SearchIndex(folder) as first, SearchIndex(folder) as second:
        with first._lock() as is_locked:
            assert is_locked
            assert second.update(find_sessions(home), context) is None
        assert second.update(find_sessions(home), context) is not None


KILLED_UPDATE = """
import os, sys
from pathlib import Path
from open_token.api import build_index_context
from open_token.library.discovery import Discovery
from open_token.library.index import SearchIndex
from open_token.settings import load_settings
home, folder = Path(sys.argv[1]), Path(sys.argv[2])
context = build_index_context(load_settings(os.environ, home), os.environ)
with SearchIndex(folder) as index:
    sessions = Discovery({"HOME": str(home)}, home).sessions()
    print("ready", flush=True)
    index.update(sessions, context)
"""


def kill_updates(home: Path, folder: Path, rounds: int) -> None:
    """Kill an update at another moment in each round, then check every session."""
    files = [SessionFile(home, f"{number:08x}-0000-4000-8000-000000000000") for number in range(12)]
    for turn in range(rounds):
        for number, session in enumerate(files):
            session.ask(f"turn{turn} of file{number} " + "filler " * 200)
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED_UPDATE, str(home), str(folder)], stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep((turn % 20) * 0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    update(folder, home)
    for turn in {0, rounds // 2, rounds - 1}:
        assert len(search(folder, f"turn{turn}")) == len(files)
    found = search(folder, "filler")
    assert all(len(events) == min(rounds, 100) for _, events in found)
    with sqlite3.connect(folder / FILE_NAME) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        events = database.execute("SELECT count(*) FROM event").fetchone()[0]
    assert events == len(files) * rounds


def test_killed_updates_lose_and_double_nothing(home: Path, folder: Path) -> None:
    kill_updates(home, folder, 6)


@pytest.mark.full
def test_two_hundred_killed_updates_lose_and_double_nothing(home: Path, folder: Path) -> None:
    kill_updates(home, folder, 200)


def dump_index(folder: Path) -> dict[str, list[tuple[object, ...]]]:
    with sqlite3.connect(folder / FILE_NAME) as database:
        tables = ("session", "block", "event", "usage", "call")
        rows = {table: database.execute(f"SELECT * FROM {table}").fetchall() for table in tables}
        rows["word"] = database.execute("SELECT rowid FROM word('clock')").fetchall()
    return rows


def test_several_processes_write_the_same_index(home: Path, tmp_path: Path) -> None:
    for number in range(8):
        session = SessionFile(home, f"{number:08d}-0000-4000-8000-000000000001")
        session.ask(f"Question {number}: why does the clock jump?")
        for step in range(8):
            output = f"line {step} of part {number}\n" * 1500
            session.call("Bash", {"command": "make"}, output, fails=step == number)
        session.answer("The clock changes.", tokens=number)
        session.touch(number)
    (home / ".claude/projects/-home-sam-tide/broken.jsonl").write_bytes(b'{"sessionId": "b\xff')
    context = build_index_context(load_settings(os.environ, tmp_path), os.environ)
    dumps = []
    for jobs in (1, 2):
        folder = tmp_path / f"cache{jobs}"
        with SearchIndex(folder) as index:
            reported: list[str] = []
            progress = index.update(
                find_sessions(home),
                context,
                report=lambda session, reported=reported: reported.append(session.id),
                jobs=jobs,
            )
        assert progress is not None
        dumps.append((dump_index(folder), reported, progress))
    assert len(dumps[0][0]["session"]) >= 8
    assert len(dumps[0][0]["word"]) == 16
    assert dumps[0] == dumps[1]


def test_blocks_of_a_large_session_go_through_a_file(
    home: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = SessionFile(home, "aaaaaaaa-0000-4000-8000-000000000001")
    for number in range(6):
        session.ask(f"part{number} " * 10_000 + "more " * 2000)
    update(folder, home)
    expected = dump_index(folder)
    assert len(expected["block"]) == 6
    remove_index(folder)
    monkeypatch.setattr("open_token.library.index.blocks._MAX_IN_MEMORY", 100)
    update(folder, home)
    assert dump_index(folder) == expected
    assert list(folder.glob("*.part")) == []
    session.ask("the clock")
    update(folder, home)
    assert dump_index(folder)["block"][:6] == expected["block"]
    assert search(folder, "clock") == [(session.id, [8])]
