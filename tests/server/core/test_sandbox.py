"""The sandbox: what a command sees, and what it does not."""

import asyncio
import os
import shutil
import socket
from pathlib import Path

import pytest

from open_token.server.core import sandbox
from open_token.server.core.processes import BoundedOutput, run_to_end
from open_token.server.core.sandbox import Sandbox, find_sandbox, start_process
from open_token.server.errors import ApiError

MOST = 1 << 20


@pytest.fixture(scope="module")
def box() -> Sandbox:
    found = asyncio.run(find_sandbox(False))
    if found.disabled_reason:
        pytest.skip(f"{found.disabled_reason}; `make test-full` installs bubblewrap")
    return found


def said(box: Sandbox, folder: Path, script: str, **env: str) -> str:
    kept = BoundedOutput(100_000)
    command = box.command(folder, script, env, 20, MOST)
    asyncio.run(run_to_end(command, kept.add, 20))
    return kept.text()


@pytest.mark.full
def test_a_command_sees_the_workspace_and_can_write_there(box: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("from outside")
    assert (
        said(box, tmp_path, "pwd; cat a; echo inside > b; echo x > /tmp/y")
        == "/workspace\nfrom outside"
    )
    assert (tmp_path / "b").read_text() == "inside\n"
    assert (tmp_path / "b").stat().st_uid == os.getuid()


@pytest.mark.full
def test_a_command_sees_nothing_else_of_the_machine(box: Sandbox, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    inside = tmp_path / "w"
    inside.mkdir()
    (inside / "link").symlink_to(secret)
    got = said(
        box,
        inside,
        f"cat {secret} link ../secret /etc/passwd /etc/shadow 2>/dev/null; ls / /home /root 2>&1",
    )
    assert "secret" not in got
    assert "root:" not in got
    assert set(got.splitlines()[got.splitlines().index("/:") + 1 :]) - {""} <= {
        "bin", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "sbin", "tmp", "usr", "workspace", "/:",
    }  # fmt: skip
    assert "Read-only" in said(box, inside, "touch /usr/x 2>&1")


@pytest.mark.full
def test_there_is_no_network(box: Sandbox, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        got = said(
            box,
            tmp_path,
            f"(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo reached || echo alone",
        )
    assert got == "alone\n"


@pytest.mark.full
def test_processes_of_the_machine_are_not_seen(box: Sandbox, tmp_path: Path) -> None:
    numbers = [int(name) for name in said(box, tmp_path, "cd /proc; echo [0-9]*").split()]
    assert max(numbers) < 50
    assert said(box, tmp_path, f"kill -9 {os.getpid()} 2>/dev/null || echo no") == "no\n"


@pytest.mark.full
def test_the_environment_is_the_sessions_alone(
    box: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROVIDER_KEY", "hush")
    names = {"PLACE": "Köln\n2", "bad name": "x", "LD_PRELOAD": "/nowhere.so", "NUL": "a\0b"}
    got = said(
        box,
        tmp_path,
        "env -u LD_PRELOAD; cat /proc/1/environ /proc/self/environ | tr '\\0' '\\n'",
        **names,
    )
    assert "PLACE=Köln\n2" in got
    assert "hush" not in got
    assert "bad name" not in got
    assert "NUL=" not in got


@pytest.mark.full
def test_words_of_the_environment_are_not_seen_from_outside(box: Sandbox, tmp_path: Path) -> None:
    command = box.command(tmp_path, "true", {"TOKEN": "hush"}, 5, MOST)
    assert "hush" not in str(command.argv)
    assert "hush" not in str(command.env)


@pytest.mark.full
def test_limits_are_set_and_cannot_be_raised(box: Sandbox, tmp_path: Path) -> None:
    got = said(
        box,
        tmp_path,
        "ulimit -Hn; ulimit -Hu; ulimit -Hc; ulimit -Hf; ulimit -n 99999 2>/dev/null || echo no",
    )
    assert got.split() == ["1024", "512", "0", "1024", "no"]
    said(box, tmp_path, f"head -c {MOST + 5000} /dev/zero > big")
    assert (tmp_path / "big").stat().st_size <= MOST
    assert "MemoryError" in said(
        box, tmp_path, "/usr/bin/env python3 -c 'bytearray(5 << 30)' 2>&1 || echo MemoryError"
    )


def test_without_bubblewrap_nothing_runs_unless_it_is_allowed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = shutil.which

    def without(name: str, path: str | None = None) -> str | None:
        return None if name == "bwrap" else found(name, path=path)

    monkeypatch.setattr(sandbox.shutil, "which", without)
    off = asyncio.run(find_sandbox(False))
    assert "bubblewrap is not installed" in off.disabled_reason
    with pytest.raises(ApiError, match="commands are disabled"):
        off.command(tmp_path, "true", {}, 1, MOST)
    free = asyncio.run(find_sandbox(True))
    assert (free.disabled_reason, free.bwrap) == ("", None)
    assert said(free, tmp_path, "pwd; echo $PLACE; echo $0", PLACE="here").splitlines()[:2] == [
        str(tmp_path),
        "here",
    ]


def test_a_bubblewrap_that_does_not_work_is_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    found = shutil.which
    monkeypatch.setattr(
        sandbox.shutil,
        "which",
        lambda name, path: str(broken) if name == "bwrap" else found(name, path=path),
    )
    assert "does not work here" in asyncio.run(find_sandbox(False)).disabled_reason


def test_without_a_shell_there_are_no_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox.shutil, "which", lambda name, path: None)
    assert asyncio.run(find_sandbox(True)).disabled_reason == "no bash on this machine"


@pytest.mark.parametrize("script", ["a\0b", "x" * 200_000])
def test_what_is_no_command_is_refused(script: str, tmp_path: Path) -> None:
    with pytest.raises(ApiError, match="a command must be text"):
        Sandbox(shell="/bin/bash").command(tmp_path, script, {}, 1, MOST)


def test_what_cannot_be_started_is_an_error(tmp_path: Path) -> None:
    command = Sandbox(shell="/nowhere/bash").command(tmp_path, "true", {}, 1, MOST)
    with pytest.raises(OSError, match="nowhere"):
        asyncio.run(start_process(command, 1))
