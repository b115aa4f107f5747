"""`open-token hook run`: silent, quick, never an error; and all the way into the archive by
processes of their own."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from helpers.hook_calls import SESSIONS, build_hook_calls, write_sessions
from open_token.cli import hook_run, main
from open_token.cli.hook_run import build_environment, list_folder_options
from open_token.integrity.verify import VERIFIED, verify_bytes
from open_token.library.hooks.queue import CallQueue

TIMEOUT = 60.0


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """What would have been started."""
    found: list[Sequence[str]] = []
    monkeypatch.setattr(hook_run, "start_detached", lambda command, *_: found.append(command))
    return found


def say(data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    path = tmp_path / "said"
    path.write_bytes(data)
    with path.open() as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        return main(["hook", "run", *words, *list_folder_options(os.environ)])


def test_a_call_is_handed_on(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    started: list[Sequence[str]],
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("OPEN_TOKEN_HOME", str(tmp_path))
    said = json.dumps({"sessionId": SESSIONS["codex"].id}).encode()
    assert say(said, tmp_path, monkeypatch, "--for", "codex", "--to", "/sessions") == 0
    (call,) = (tmp_path / "data/hooks").glob("*.call")
    assert json.loads(call.read_bytes()) == {
        "runtime": "codex", "event": "", "path": "", "id": SESSIONS["codex"].id, "folder": "/sessions",
    }  # fmt: skip
    assert [command[-2:] for command in started] == [["hook", "keep"]]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "data",
    [b"", b"\0" * 4096, b"not json", b"[]", b'{"transcript_path": null}', b'{"session_id":"x"}'],
)
@pytest.mark.parametrize("words", [(), ("--for",), ("--for", "codex", "--bogus"), ("--help",)])
def test_nothing_comes_of_what_is_no_call(
    data: bytes,
    words: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    started: list[Sequence[str]],
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("OPEN_TOKEN_HOME", str(tmp_path / "ot"))
    assert say(data, tmp_path, monkeypatch, *words) == 0
    assert started == []
    assert capfd.readouterr() == ("", "")
    assert not (tmp_path / "ot").exists()


def test_a_machine_on_which_nothing_can_be_written_hears_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("OPEN_TOKEN_HOME", str(tmp_path / "file"))
    assert (
        say(json.dumps({"session_id": SESSIONS["codex"].id}).encode(), tmp_path, monkeypatch) == 0
    )
    assert capfd.readouterr() == ("", "")


def hook(env: dict[str, str], *words: str, stdin: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
    options = list_folder_options(env)
    command = [sys.executable, "-m", "open_token", "hook", "run", *words, *options]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=stdin, stdout=pipe, stderr=pipe, env=env)


def spoken(process: subprocess.Popen[bytes]) -> bytes:
    """All that a process said; it gets no more to read."""
    streams = [stream for stream in (process.stdout, process.stderr) if stream]
    said = b"".join(stream.read() for stream in streams)
    for stream in (*streams, process.stdin):
        if stream:
            stream.close()
    return said


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "HOME": str(tmp_path / "home"), "OPEN_TOKEN_HOME": str(tmp_path / "ot")}


def test_hook_does_not_wait_for_its_input(env: dict[str, str]) -> None:
    with hook(env) as process:  # the pipe stays open
        assert process.wait(TIMEOUT) == 0
        assert spoken(process) == b""
    with hook(env, stdin=subprocess.DEVNULL) as process:
        assert process.wait(TIMEOUT) == 0


def test_endless_words_are_not_listened_to(env: dict[str, str]) -> None:
    with open("/dev/zero", "rb") as zeros, hook(env, stdin=zeros.fileno()) as process:
        assert process.wait(TIMEOUT) == 0


def test_a_project_does_not_choose_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[Sequence[str]]
) -> None:
    """Whatever folders the environment names, the call goes where the installation said."""
    monkeypatch.setenv("OPEN_TOKEN_HOME", str(tmp_path / "mine"))
    own = list_folder_options(os.environ)
    for name in ("OPEN_TOKEN_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / "project"))
    monkeypatch.setenv("OPEN_TOKEN_REDACT", "none")
    path = tmp_path / "said"
    path.write_bytes(json.dumps({"sessionId": SESSIONS["codex"].id}).encode())
    with path.open() as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        assert main(["hook", "run", "--for", "codex", *own]) == 0
    assert len(list((tmp_path / "mine/data/hooks").glob("*.call"))) == 1
    assert not (tmp_path / "project").exists()
    assert len(started) == 1


def test_the_environment_of_a_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook_run, "_find_account_home", lambda: "/home/mia")
    hostile = {
        "OPEN_TOKEN_REDACT": "none",
        "OPEN_TOKEN_HOME": "p",
        "HOME": "p",
        "XDG_DATA_HOME": "p",
    }
    assert build_environment(hostile | {"PATH": "/bin"}, {}) == {
        "PATH": "/bin",
        "HOME": "/home/mia",
    }
    mine = {"OPEN_TOKEN_HOME": "/home/mia/ot", "HOME": "/home/mia", "XDG_DATA_HOME": "/data"}
    words = list_folder_options(mine)
    assert words == ("--open-token-home", "/home/mia/ot", "--xdg-data-home", "/data")
    options = dict(zip(words[::2], words[1::2], strict=True))
    assert build_environment(hostile, options) == mine
    # Where the home of the account is another one, as in some containers, it is named.
    assert list_folder_options({"HOME": "/root"}) == ("--home", "/root")


def test_all_runtimes_at_once(tmp_path: Path, env: dict[str, str]) -> None:
    """Twelve hooks at the same time: each conversation is in the archive once, and nothing was said
    or left."""
    paths = write_sessions(tmp_path / "home")
    processes = []
    for name in SESSIONS:
        for said in build_hook_calls(name, paths[name])[:1] * 2:
            process = hook(env, "--for", name)
            assert process.stdin
            process.stdin.write(json.dumps(said).encode())
            process.stdin.close()
            processes.append(process)
    for process in processes:
        assert process.wait(TIMEOUT) == 0
        assert spoken(process) == b""
    waiting, archive = tmp_path / "ot/data/hooks", tmp_path / "ot/data/archive"
    end = time.monotonic() + TIMEOUT
    while time.monotonic() < end and not is_done(waiting):
        time.sleep(0.1)
    assert is_done(waiting)
    files = list(archive.glob("*/*.json"))
    assert {path.parent.name.replace("_", "-") for path in files} == set(SESSIONS)
    assert all(verify_bytes(path.read_bytes()).status == VERIFIED for path in files)


def is_done(folder: Path) -> bool:
    """Whether nothing waits, and nobody is at work."""
    with CallQueue(folder).lock() as is_free:
        return is_free and not CallQueue(folder).list_waiting()
