"""`open-token export --follow` as a process: events at once, a footer on a signal, going on after a
kill."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from open_token.cli import main

SLOWEST = 30.0


def record(number: int, text: str = "") -> bytes:
    message = {"role": "user", "content": text or f"text {number}"}
    return (
        json.dumps(
            {"type": "user", "uuid": f"u{number}", "sessionId": "s", "message": message}
        ).encode()
        + b"\n"
    )


@contextlib.contextmanager
def start(*words: str) -> "Iterator[subprocess.Popen[bytes]]":
    command = [sys.executable, "-m", "open_token", "export", "--follow", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def lines(path: Path) -> list[Any]:
    """All that is whole, but for what a session says of itself."""
    whole = [line for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
    return [line for line in map(json.loads, whole) if line.get("event_type") != "annotation"]


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + SLOWEST
    while not is_so():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.01)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_events_at_once_and_a_footer_at_the_end(tmp_path: Path, how: signal.Signals) -> None:
    session, out = tmp_path / "session.jsonl", tmp_path / "out.ndjson"
    session.write_bytes(record(1))
    with start(str(session), "-o", str(out)) as process:
        until(lambda: out.exists() and len(lines(out)) == 2)
        with session.open("ab") as stream:
            stream.write(record(2))
        until(lambda: len(lines(out)) == 3)
        process.send_signal(how)
        assert process.wait(SLOWEST) == 0
    assert [line["type"] for line in lines(out)] == ["header", "event", "event", "footer"]
    assert main(["verify", str(out)]) == 0
    assert main(["validate", str(out)]) == 0


def test_after_a_kill_the_stream_can_be_read_and_goes_on(tmp_path: Path) -> None:
    session, out = tmp_path / "session.jsonl", tmp_path / "out.ndjson"
    session.write_bytes(record(1))
    with start(str(session), "-o", str(out)) as process:
        until(lambda: out.exists() and len(lines(out)) == 2)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(SLOWEST)
    assert main(["export", str(out), "--quiet", "-o", str(tmp_path / "read.json")]) == 0
    out.write_bytes(out.read_bytes() + b'{"type":"event","id":"evt_')
    session.write_bytes(record(1) + record(2))
    with start(str(session), "--append", "-o", str(out)) as process:
        until(lambda: len(lines(out)) == 3)
        process.terminate()
        assert process.wait(SLOWEST) == 0
    assert [line["type"] for line in lines(out)] == ["header", "event", "event", "footer"]
    assert main(["verify", str(out)]) == 0


def test_stdout_carries_the_stream(tmp_path: Path) -> None:
    session = tmp_path / "session.jsonl"
    session.write_bytes(record(1) + b'{"type":"hologram","uuid":"u2","sessionId":"s"}\n')
    with start(str(session)) as process:
        assert process.stdout
        assert process.stderr
        assert json.loads(process.stdout.readline())["type"] == "header"
        assert json.loads(process.stdout.readline())["event_type"] == "annotation"
        assert json.loads(process.stdout.readline())["event_type"] == "message"
        process.terminate()
        assert json.loads(process.stdout.readline())["type"] == "footer"
        assert process.wait(SLOWEST) == 0
        result = process.stderr.read().decode().splitlines()
        assert [
            line
            for line in result
            if line.startswith("note ") and "hologram" in line and "line 2" in line
        ]


def test_a_pipe_that_nobody_reads_any_more(tmp_path: Path) -> None:
    session = tmp_path / "session.jsonl"
    session.write_bytes(record(1))
    with start(str(session)) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.readline()
        process.stdout.close()
        with session.open("ab") as stream:
            stream.write(record(2))
        assert process.wait(SLOWEST) == 141
        assert b"rror" not in process.stderr.read()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["max_bytes=1000"], "max_bytes cannot be combined with --follow"),
        (["native=full"], "native cannot be combined with --follow"),
        (["integrity=source"], "integrity=source cannot be combined with --follow"),
        (["mode=json"], "--follow needs mode=ndjson"),
        (["--append"], "use --follow --append -o FILE"),
        (["--report"], "--report cannot be combined with --follow"),
        (["--conversation", "all", "-o", "new"], "--follow exports one conversation at a time"),
        (["-o", "there"], "--append, or name a new file"),
        (["--append", "-o", "there"], "not a stream that --follow wrote"),
    ],
)
def test_what_cannot_be_is_said(
    tmp_path: Path,
    words: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "session.jsonl").write_bytes(record(1))
    (tmp_path / "there").write_text("mine\n")
    assert main(["export", "session.jsonl", "--follow", *words]) in (2, 3)
    assert said in capsys.readouterr().err
    assert (tmp_path / "there").read_text() == "mine\n"


def test_append_alone_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "x.jsonl", "--append"]) == 2
    assert "--append needs --follow" in capsys.readouterr().err
