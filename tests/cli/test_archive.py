"""`open-token archive`: what it prints, how it watches and stops, and that nothing can break it."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers import fake_format
from helpers.fake_format import write_fake_session
from open_token.cli import archive as module
from open_token.cli import main
from open_token.integrity.verify import VERIFIED, verify_bytes
from open_token.storage.files import try_lock

TIMEOUT = 30.0


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two conversations; we stand in `here`."""
    fake_format.install_fake_format(monkeypatch)
    (tmp_path / "here").mkdir()
    write_fake_session(tmp_path / ".fake" / "a" / "one.jsonl", 10)
    write_fake_session(tmp_path / ".fake" / "a" / "two.jsonl", 20)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


def run_archive(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["archive", *words])
    out, err = capsys.readouterr()
    return code, out, err


class TestOnePass:
    """Without --watch."""

    def test_what_is_new_is_printed(self, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, err = run_archive(capsys, "sessions")
        assert code == 0
        assert [line.split()[:2] for line in out.splitlines()] == [
            ["new", "fake_session/2023-11-14_two.json"],
            ["new", "fake_session/2023-11-14_one.json"],
        ]
        assert err == f"2 new.  Index: {home / 'here' / 'sessions' / 'index.ndjson'}\n"
        assert run_archive(capsys, "sessions")[:2] == (0, "")
        (home / ".fake" / "a" / "one.jsonl").unlink()
        code, out, err = run_archive(capsys, "sessions")
        assert (code, out.split()[:2]) == (0, ["gone", "fake_session/2023-11-14_one.json"])
        assert err.startswith("1 unchanged, 1 gone.  Index: ")

    def test_without_a_folder_it_goes_to_the_data_folder(
        self, home: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run_archive(capsys, "-q")[0] == 0
        assert (Path(os.environ["OPEN_TOKEN_HOME"]) / "data" / "archive" / "index.ndjson").is_file()

    def test_a_folder_in_the_home(self, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run_archive(capsys, "~/all/sessions", "-q")[::2] == (0, "")
        assert len(list((home / "all" / "sessions" / "fake_session").iterdir())) == 2

    def test_options_as_for_export(self, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert (
            run_archive(capsys, "mode=ndjson", "sessions", "--include", "include-internal")[0] == 0
        )
        paths = sorted((home / "here" / "sessions" / "fake_session").iterdir())
        assert [path.suffix for path in paths] == [".ndjson", ".ndjson"]
        code, _, err = run_archive(capsys, "sessions", "drop=oldest")
        assert code == 0
        assert "warning: drop has no effect without max_bytes" in err

    def test_secrets_are_masked_as_in_an_export(
        self, home: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        secret = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7cF0hJ3kL6"
        write_fake_session(home / ".fake" / "a" / "three.jsonl", 5, says=(f"use {secret}",))
        run_archive(capsys, "sessions")
        assert (
            "REDACTED"
            in (home / "here" / "sessions" / "fake_session" / "2023-11-14_three.json").read_text()
        )
        everything = b"".join(
            path.read_bytes() for path in (home / "here").rglob("*") if path.is_file()
        )
        assert secret.encode() not in everything

    def test_what_cannot_be_read_is_reported_and_does_not_stop_the_rest(
        self, home: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = home / ".fake" / "a" / "bad\x1b.jsonl"
        path.write_text('{"fake_session": "x"}\n{"say": ' + "[" * 9999 + "]" * 9999 + "}\n")
        code, out, err = run_archive(capsys, "sessions")
        assert (code, out.count("new")) == (1, 2)
        assert f"warning: the JSON is nested too deep\n  --> {path.parent}/bad\\x1b.jsonl:2" in err
        assert "2 new, 1 failed." in err
        assert run_archive(capsys, "sessions")[0] == 1

    def test_as_json(self, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        bad = home / ".fake" / "a" / "bad.jsonl"
        bad.write_text("{broken\n{}\n")
        code, out, _ = run_archive(capsys, "sessions", "--json")
        answer = json.loads(out)
        assert code == 1
        assert list(answer) == [
            *(
                "schema",
                "folder",
                "new",
                "changed",
                "earlier",
                "gone",
                "lost",
                "failed",
                "unchanged",
                "copy",
                "empty",
                "resting",
            ),
        ]
        assert answer["schema"] == "open-token/archive-pass/1"
        assert answer["new"][0] == {
            "source": str(home / ".fake" / "a" / "two.jsonl"),
            "reader": "fake_session",
            "conversation": None,
            "id": "two",
            "file": "fake_session/2023-11-14_two.json",
            "title": None,
            "events": 1,
        }
        (failed,) = answer["failed"]
        assert (failed["source"], failed["code"]) == (str(bad), "input.json")

    def test_nothing_to_archive(self, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        for path in (home / ".fake" / "a").iterdir():
            path.unlink()
        code, out, err = run_archive(capsys, "sessions")
        assert (code, out) == (0, "")
        assert err.startswith("no sessions found")

    @pytest.mark.parametrize(
        "words",
        [
            ["a", "b"],
            ["--every", "x"],
            ["--every", "0"],
            ["--every", "-5"],
            ["redcat=pii"],
            ["file"],
            ["redact=x"],
        ],
    )
    def test_wrong_words(
        self, home: Path, words: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        (home / "here" / "file").write_text("")
        code, out, err = run_archive(capsys, *words)
        assert (code, out) == (2, "")
        assert "help: " in err
        assert ("from 0.1 to 999999" in err) == ("--every" in words)
        assert os.listdir(home / "here") == ["file"]

    def test_archive_in_use_is_reported(
        self, home: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (home / "here" / "sessions").mkdir()
        with try_lock(home / "here" / "sessions" / ".lock"):
            code, _, err = run_archive(capsys, "sessions")
        assert code == 3
        assert "this archive is in use by another process" in err
        assert run_archive(capsys, "sessions")[0] == 0

    def test_an_interrupted_pass(
        self, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def interrupt(change: Any, console: Any) -> None:
            os.kill(os.getpid(), signal.SIGTERM)

        with monkeypatch.context() as patch:
            patch.setattr(module, "_print_change", interrupt)
            code, _, err = run_archive(capsys, "sessions")
        assert code == 130
        assert "interrupted; the next pass continues" in err
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
        code, out, _ = run_archive(capsys, "sessions")
        assert (code, out.count("new")) == (0, 1)


def claude_session(home: Path, number: int, words: tuple[str, ...] = ("hello",)) -> Path:
    """A real runtime's session, for processes of their own."""
    path = home / ".claude" / "projects" / "-p" / f"{number:08}-1111-4222-8333-444455556666.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    facts = {
        "sessionId": path.stem,
        "cwd": "/p",
        "version": "2.0.0",
        "type": "user",
        "isSidechain": False,
    }
    with path.open("a") as out:
        for place, text in enumerate(words):
            record = {
                **facts,
                "uuid": f"{path.stem}-{text}-{place}",
                "parentUuid": None,
                "timestamp": "2026-01-02T03:04:05Z",
                "message": {"role": "user", "content": text},
            }
            out.write(json.dumps(record) + "\n")
    return path


@contextlib.contextmanager
def process(home: Path, *words: str) -> Iterator["subprocess.Popen[str]"]:
    """The command as a process of its own, which is ended when it takes too long."""
    command = [
        sys.executable,
        "-m",
        "open_token",
        "archive",
        str(home / "sessions"),
        "redact=none",
        *words,
    ]
    paths = {
        "HOME": str(home),
        "OPEN_TOKEN_HOME": str(home / "own"),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    with subprocess.Popen(
        command,
        env=os.environ | paths,
        cwd=home,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell lets what runs in the background ignore Ctrl-C, and so perhaps this test.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as running:
        watchdog = threading.Timer(TIMEOUT, running.kill)
        watchdog.start()
        try:
            yield running
        finally:
            watchdog.cancel()
            running.kill()


def exports(home: Path) -> dict[str, int]:
    """How many prompts each conversation has in the archive; every file is whole."""
    found = {}
    for path in (home / "sessions").rglob("*.json"):
        data = path.read_bytes()
        assert verify_bytes(data).status == VERIFIED
        document = json.loads(data)
        found[document["conversation"]["id"]] = [
            event["type"] for event in document["events"]
        ].count("message")
    return found


class TestWatching:
    """With --watch."""

    @pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
    def test_watch_archives_new_sessions_and_stops(
        self, tmp_path: Path, how: signal.Signals
    ) -> None:
        path = claude_session(tmp_path, 1)
        with process(tmp_path, "--watch", "--every", "0.1", "--json") as running:
            assert running.stdout
            first = json.loads(running.stdout.readline())
            assert [len(first[kind]) for kind in ("new", "changed", "failed")] == [1, 0, 0]
            claude_session(tmp_path, 2)
            assert len(json.loads(running.stdout.readline())["new"]) == 1
            claude_session(tmp_path, 1, ("and so on",))
            (changed,) = json.loads(running.stdout.readline())["changed"]
            assert changed["source"] == str(path)
            path.unlink()
            assert len(json.loads(running.stdout.readline())["gone"]) == 1
            running.send_signal(how)
            out, err = running.communicate(timeout=TIMEOUT)
        assert (running.returncode, out) == (0, "")
        assert err.endswith("\nstopped\n")
        assert exports(tmp_path) == {f"{n:08}-1111-4222-8333-444455556666": 3 - n for n in (1, 2)}
        assert not list((tmp_path / "sessions").rglob("*.part"))

    def test_a_second_one_is_sent_away(self, tmp_path: Path) -> None:
        claude_session(tmp_path, 1)
        with process(tmp_path, "--watch", "--json") as running:
            assert running.stdout
            running.stdout.readline()
            with process(tmp_path) as second:
                _, err = second.communicate(timeout=TIMEOUT)
            assert (second.returncode, "this archive is in use by another process" in err) == (
                3,
                True,
            )
            running.kill()
            running.communicate(timeout=TIMEOUT)
        with process(tmp_path) as third:
            third.communicate(timeout=TIMEOUT)
        assert third.returncode == 0


class TestKilled:
    """kill -9 at random moments of its work, while sessions go on being written."""

    ROUNDS, SESSIONS, LONGEST = 8, 24, 0.25

    def test_a_pass_repairs_what_an_interrupted_one_left(self, tmp_path: Path) -> None:
        chance = random.Random(8)
        said = dict.fromkeys(range(self.SESSIONS), 1)
        for number in said:
            claude_session(tmp_path, number)
        for turn in range(self.ROUNDS):
            with process(tmp_path, "--every", "0.1") as running:
                assert running.stdout
                assert running.stdout.readline()
                time.sleep(chance.random() * self.LONGEST)
                running.kill()
                running.communicate(timeout=TIMEOUT)
            assert exports(tmp_path)
            for number in chance.sample(list(said), self.SESSIONS // 2):
                claude_session(tmp_path, number, (f"more {turn:03}{'x' * turn}",))
                said[number] += 1
        with process(tmp_path, "--json") as last:
            out, err = last.communicate(timeout=TIMEOUT)
        assert last.returncode == 0, err
        assert not json.loads(out)["failed"]
        self.check(
            tmp_path,
            {f"{number:08}-1111-4222-8333-444455556666": count for number, count in said.items()},
        )
        with process(tmp_path, "--json") as again:
            out, _ = again.communicate(timeout=TIMEOUT)
        assert json.loads(out)["unchanged"] == self.SESSIONS

    def check(self, home: Path, wanted: dict[str, int]) -> None:
        assert exports(home) == wanted
        head, *lines = (home / "sessions" / "index.ndjson").read_text().splitlines()
        entries = [json.loads(line) for line in lines]
        assert json.loads(head) == {"schema": "open-token/archive/1"}
        assert sorted(entry["id"] for entry in entries) == sorted(wanted)
        assert {entry["state"] for entry in entries} == {"current"}
        files = {
            str(path.relative_to(home / "sessions"))
            for path in (home / "sessions").rglob("*")
            if path.is_file()
        }
        assert files == {"index.ndjson", ".lock", *(entry["file"] for entry in entries)}
