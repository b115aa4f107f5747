"""Where commands of agents run: in bubblewrap with nothing but the workspace, or nowhere, or as the
operator allows."""

import asyncio
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from open_token.server.refusals import Refused

INSIDE = "/workspace"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MOST_COMMAND = 100_000
_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
_SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_TEMPORARY_BYTES = 256 << 20
_PROBE_SECONDS = 10
_DESCRIPTOR = "\0descriptor"
"""Stands for a number that is known when the command starts; no word of a command has a NUL in
it."""

_LIMITS = (
    "ulimit -c 0; ulimit -n 1024; ulimit -d {memory}; ulimit -f {file}; ulimit -t {seconds}; {processes}"
    'exec "$0" --noprofile --norc -c "$1"'
)
"""Told to the shell before the command: it cannot raise them again."""


class Command(Struct, frozen=True, kw_only=True):
    """What to start: its words, its environment, and words that go to it by a descriptor, out of
    everybody's sight."""

    words: Sequence[str]
    env: Mapping[str, str]
    folder: Path
    hidden: bytes = b""


class Sandbox(Struct, frozen=True, kw_only=True):
    """How commands are kept in; without bubblewrap they run only where the operator allows it."""

    bwrap: str | None = None
    further: tuple[str, ...] = ()
    """What this bubblewrap can do beyond what every one can."""
    shell: str | None = None
    is_off: str = ""
    """Why no command may run; empty when they may."""

    def command(
        self, folder: Path, script: str, env: Mapping[str, str], seconds: float, most_bytes: int
    ) -> Command:
        """A script of an agent's as a process to start; it sees the session's environment and no
        other."""
        if self.is_off or self.shell is None:
            raise Refused(403, self.is_off or "there is no shell here", "no_sandbox")
        if "\0" in script or len(script.encode("utf-8", "surrogatepass")) > _MOST_COMMAND:
            raise Refused(422, f"a command is text of at most {_MOST_COMMAND} bytes", "bad_command")
        given = {
            name: str(value)
            for name, value in env.items()
            if _NAME.fullmatch(name) and "\0" not in str(value)
        }
        limits = _LIMITS.format(
            memory=2 << 20,
            file=max(1, most_bytes // 1024),
            seconds=int(seconds) + 1,
            processes="ulimit -u 512; "
            if self.bwrap
            else "",  # outside, all processes of this user would count
        )
        started = (self.shell, "--noprofile", "--norc", "-c", limits, self.shell, script)
        if self.bwrap is None:
            inherited = {"PATH": _PATH, "LANG": "C.UTF-8", "HOME": str(folder)}
            return Command(words=started, env=inherited | given, folder=folder)
        # The environment goes in by the descriptor: as words everybody could read it, and as
        # bubblewrap's own
        # environment a variable such as LD_PRELOAD would act on bubblewrap itself, outside of the
        # box.
        hidden = "\0".join(_walls(folder, given, self.further)) + "\0"
        words = (self.bwrap, "--args", _DESCRIPTOR, "--", *started)
        return Command(words=words, env={"PATH": _PATH}, folder=folder, hidden=os.fsencode(hidden))


def _walls(folder: Path, env: Mapping[str, str], further: Sequence[str]) -> Iterator[str]:
    """What bubblewrap is told: everything of its own, the system for reading, the workspace for
    writing, no network."""
    yield from (
        "--unshare-user",
        "--unshare-ipc",
        "--unshare-pid",
        "--unshare-net",
        "--unshare-uts",
    )
    yield from ("--unshare-cgroup-try", "--uid", "1000", "--gid", "1000", "--hostname", "workspace")
    yield from ("--die-with-parent", "--new-session", "--cap-drop", "ALL")
    yield from ("--ro-bind", "/usr", "/usr")
    for name in _SYSTEM:
        if os.path.islink(f"/{name}"):
            yield from ("--symlink", f"usr/{name}", f"/{name}")
        elif os.path.isdir(f"/{name}"):
            yield from ("--ro-bind", f"/{name}", f"/{name}")
    for path in (
        "/etc/alternatives",
        "/etc/ld.so.cache",
    ):  # by which commands of /usr find each other
        yield from ("--ro-bind-try", path, path)
    yield from ("--proc", "/proc", "--dev", "/dev")
    yield from (*further, "--tmpfs", "/tmp")
    yield from ("--bind", str(folder), INSIDE, "--chdir", INSIDE, "--clearenv")
    for name, value in {"PATH": _PATH, "LANG": "C.UTF-8", "HOME": "/tmp", **env}.items():
        yield from ("--setenv", name, value)


async def find_sandbox(allow_unsandboxed: bool) -> Sandbox:
    """Look what this machine can do, by doing it once."""
    shell, bwrap = shutil.which("bash", path=_PATH), shutil.which("bwrap", path=_PATH)
    if shell is None:
        return Sandbox(is_off="there is no bash on this machine")
    if bwrap is not None:
        for further in (("--disable-userns", "--size", str(_TEMPORARY_BYTES)), ()):
            if await _works(box := Sandbox(bwrap=bwrap, further=further, shell=shell)):
                return box
    if allow_unsandboxed:
        return Sandbox(shell=shell)
    why = "does not work here" if bwrap else "is not installed"
    return Sandbox(
        is_off=f"commands are off: bubblewrap {why}; the operator may install it or allow --allow-unsandboxed"
    )


async def _works(box: Sandbox) -> bool:
    silence = os.open(os.devnull, os.O_WRONLY)
    try:
        process = await start(box.command(Path("/usr"), "exit 7", {}, 5, 1 << 20), silence)
    except OSError:
        return False
    finally:
        os.close(silence)
    try:
        async with asyncio.timeout(_PROBE_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
    return process.returncode == 7


async def start(command: Command, output: int) -> asyncio.subprocess.Process:
    """Start a command in a group of its own; what it says goes to one descriptor."""
    descriptors: tuple[int, ...] = ()
    words = list(command.words)
    if command.hidden:
        descriptors = (_holding(command.hidden),)
        words = [str(descriptors[0]) if word == _DESCRIPTOR else word for word in words]
    try:
        return await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=dict(command.env),
            cwd=command.folder,
            start_new_session=True,
            pass_fds=descriptors,
        )
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _holding(data: bytes) -> int:
    """A descriptor from which these bytes are read."""
    descriptor = os.memfd_create("arguments")
    with open(descriptor, "wb", closefd=False) as out:
        out.write(data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
