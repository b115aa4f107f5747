"""The sandbox: what a command sees, and what it does not."""

import asyncio
import os
import shutil
import socket
from pathlib import Path

import pytest

from open_token.server.core import sandbox
from open_token.server.core.processes import BoundedOutput, LimitExceeded, run_to_end
from open_token.server.core.sandbox import CommandLimits, Sandbox, find_sandbox, start_process
from open_token.server.errors import ApiError

MOST = 1 << 20
LIMITS = CommandLimits(disk_bytes=MOST, memory_bytes=256 << 20)


@pytest.fixture(scope="module")
def box() -> Sandbox:
    found = asyncio.run(find_sandbox(False))
    if found.disabled_reason:
        pytest.skip(f"{found.disabled_reason}; `make test-full` installs bubblewrap")
    return found


def said(box: Sandbox, folder: Path, script: str, **env: str) -> str:
    kept = BoundedOutput(100_000)
    command = box.command(folder, script, env, 20, LIMITS)
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
    command = box.command(tmp_path, "true", {"TOKEN": "hush"}, 5, LIMITS)
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


@pytest.mark.full
def test_dev_takes_no_memory_of_the_machine(box: Sandbox, tmp_path: Path) -> None:
    got = said(
        box, tmp_path, "echo x > /dev/more; head -c 300M /dev/zero > /dev/shm/big; ls -s /dev"
    )
    assert "/dev/more: Read-only file system" in got
    free = said(box, tmp_path, "stat -f -c '%b %S' /dev/shm; echo x > /dev/shm/x && echo written")
    blocks, size, written = free.split()
    assert (int(blocks) * int(size), written) == (sandbox._TMPFS_BYTES, "written")


@pytest.fixture(params=["bubblewrap", pytest.param("none", id="no-sandbox")])
def any_box(request: pytest.FixtureRequest) -> Sandbox:
    if request.param == "none":
        return Sandbox(shell="/bin/bash")
    found: Sandbox = request.getfixturevalue("box")
    return found


KEEP = "; sleep 60"
MANY_FILES = "for n in $(seq 300); do head -c 100K /dev/zero > f$n; done" + KEEP
DEEP_FILES = "d=$(printf 'd/%.0s' $(seq 60)); mkdir -p $d; " + MANY_FILES.replace("> f", "> $d/f")
DELETED_FILES = "for n in $(seq 9); do exec {f}> x; rm x; head -c 1M /dev/zero >&$f; done" + KEEP
MEMORY = "/usr/bin/env python3 -c 'import mmap, time; m = mmap.mmap(-1, 400 << 20); "
MEMORY += '[m.write(b"x" * (1 << 20)) for _ in range(400)]; time.sleep(60)\''


@pytest.mark.full
@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (MANY_FILES, "the workspace may have 1048576 bytes"),
        (DEEP_FILES, "the workspace may have 1048576 bytes"),
        (DELETED_FILES, "the workspace may have 1048576 bytes"),
        (MEMORY, "a command may take 268435456 bytes of memory"),
    ],
)
def test_a_command_that_takes_more_than_it_may_is_stopped(
    any_box: Sandbox, tmp_path: Path, script: str, reason: str
) -> None:
    with pytest.raises(LimitExceeded, match=reason):
        said(any_box, tmp_path, script)


@pytest.mark.full
def test_a_full_workspace_can_be_tidied(any_box: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * 3 * MOST)
    assert said(any_box, tmp_path, "sleep 0.5; rm big; ls; echo done") == "done\n"


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
        off.command(tmp_path, "true", {}, 1, LIMITS)
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
        Sandbox(shell="/bin/bash").command(tmp_path, script, {}, 1, LIMITS)


def test_what_cannot_be_started_is_an_error(tmp_path: Path) -> None:
    command = Sandbox(shell="/nowhere/bash").command(tmp_path, "true", {}, 1, LIMITS)
    with pytest.raises(OSError, match="nowhere"):
        asyncio.run(start_process(command, 1))
