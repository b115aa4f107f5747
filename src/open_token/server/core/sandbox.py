"""The sandbox of agent commands: bubblewrap with access to the workspace only.

Without bubblewrap commands are disabled, unless the operator allows them to run unsandboxed."""

import asyncio
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from open_token.server.errors import ApiError

WORKSPACE_MOUNT = "/workspace"
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MAX_COMMAND_BYTES = 100_000
_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
_SYSTEM_FOLDERS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_SYSTEM_FILES = ("/etc/alternatives", "/etc/ld.so.cache")
"""Files by which the commands in /usr find each other and their libraries."""
_TMPFS_BYTES = 256 << 20
_PROBE_SECONDS = 10
_PROBE_EXIT_CODE = 7
_DESCRIPTOR = "\0descriptor"
"""A placeholder for a descriptor number that is known when the command starts; arguments never
contain a NUL."""

_LIMIT_SCRIPT = (
    "ulimit -c 0; ulimit -n 1024; ulimit -d {memory}; ulimit -f {file}; ulimit -t {seconds}; "
    '{processes}exec "$0" --noprofile --norc -c "$1"'
)
"""Sets hard limits and then executes the actual script, which cannot raise them."""


class CommandLimits(Struct, frozen=True, kw_only=True):
    """What a command may take, all its processes together; 0 is without limit."""

    disk_bytes: int = 0
    """Size of its folder."""
    memory_bytes: int = 0


class Command(Struct, frozen=True, kw_only=True):
    """A process to start."""

    argv: Sequence[str]
    env: Mapping[str, str]
    folder: Path
    hidden: bytes = b""
    """Arguments that are passed by a descriptor, invisible to other users of the machine."""
    limits: CommandLimits = CommandLimits()


class Sandbox(Struct, frozen=True, kw_only=True):
    """How commands are isolated."""

    bwrap: str | None = None
    extra_arguments: tuple[str, ...] = ()
    """Optional arguments that this version of bubblewrap supports."""
    shell: str | None = None
    disabled_reason: str = ""
    """Why commands are disabled; empty when they are enabled."""

    def command(
        self,
        folder: Path,
        script: str,
        env: Mapping[str, str],
        seconds: float,
        limits: CommandLimits,
    ) -> Command:
        """Build the command of a script; it sees only the given environment."""
        if self.disabled_reason or self.shell is None:
            raise ApiError(403, self.disabled_reason or "no shell available", "no_sandbox")
        if "\0" in script or len(script.encode("utf-8", "surrogatepass")) > _MAX_COMMAND_BYTES:
            raise ApiError(
                422, f"a command must be text of at most {_MAX_COMMAND_BYTES} bytes", "bad_command"
            )
        valid_env = {}
        for name, value in env.items():
            if _ENV_NAME.fullmatch(name) and "\0" not in str(value):
                valid_env[name] = str(value)
        limit_script = _LIMIT_SCRIPT.format(
            memory=_to_ulimit(limits.memory_bytes),
            file=_to_ulimit(limits.disk_bytes),
            seconds=int(seconds) + 1,
            # Without a user namespace all processes of the server's user would count.
            processes="ulimit -u 512; " if self.bwrap else "",
        )
        argv = (self.shell, "--noprofile", "--norc", "-c", limit_script, self.shell, script)
        if self.bwrap is None:
            defaults = {"PATH": _PATH, "LANG": "C.UTF-8", "HOME": str(folder)}
            return Command(argv=argv, env=defaults | valid_env, folder=folder, limits=limits)
        # The environment is passed by a descriptor. As arguments everybody could read it, and in
        # bubblewrap's own environment a variable such as LD_PRELOAD would act outside the sandbox.
        arguments = _build_bwrap_arguments(folder, valid_env, self.extra_arguments)
        hidden = "\0".join(arguments) + "\0"
        return Command(
            argv=(self.bwrap, "--args", _DESCRIPTOR, "--", *argv),
            env={"PATH": _PATH},
            folder=folder,
            hidden=os.fsencode(hidden),
            limits=limits,
        )


def _to_ulimit(size: int) -> str:
    """Return a size in the unit of ulimit."""
    return str(max(1, size // 1024)) if size else "unlimited"


def _build_bwrap_arguments(
    folder: Path, env: Mapping[str, str], extra_arguments: Sequence[str]
) -> Iterator[str]:
    """Yield arguments: own namespaces, read-only system, writable workspace, no network."""
    yield from ("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net")
    yield from ("--unshare-uts", "--unshare-cgroup-try")
    yield from ("--uid", "1000", "--gid", "1000", "--hostname", "workspace")
    yield from ("--die-with-parent", "--new-session", "--cap-drop", "ALL")
    yield from ("--ro-bind", "/usr", "/usr")
    for name in _SYSTEM_FOLDERS:
        if os.path.islink(f"/{name}"):
            yield from ("--symlink", f"usr/{name}", f"/{name}")
        elif os.path.isdir(f"/{name}"):
            yield from ("--ro-bind", f"/{name}", f"/{name}")
    for path in _SYSTEM_FILES:
        yield from ("--ro-bind-try", path, path)
    # `extra_arguments` ends with the size of the next tmpfs. /dev itself would have half of the
    # machine's memory.
    yield from ("--proc", "/proc", "--dev", "/dev")
    yield from (*extra_arguments, "--tmpfs", "/dev/shm", "--remount-ro", "/dev")
    yield from (*extra_arguments, "--tmpfs", "/tmp")
    yield from ("--bind", str(folder), WORKSPACE_MOUNT, "--chdir", WORKSPACE_MOUNT, "--clearenv")
    for name, value in {"PATH": _PATH, "LANG": "C.UTF-8", "HOME": "/tmp", **env}.items():
        yield from ("--setenv", name, value)


async def find_sandbox(allow_unsandboxed: bool) -> Sandbox:
    """Find out what this machine supports by starting a sandbox once."""
    shell = shutil.which("bash", path=_PATH)
    if shell is None:
        return Sandbox(disabled_reason="no bash on this machine")
    bwrap = shutil.which("bwrap", path=_PATH)
    if bwrap is not None:
        for extra_arguments in (("--disable-userns", "--size", str(_TMPFS_BYTES)), ()):
            sandbox = Sandbox(bwrap=bwrap, extra_arguments=extra_arguments, shell=shell)
            if await _works(sandbox):
                return sandbox
    if allow_unsandboxed:
        return Sandbox(shell=shell)
    reason = "does not work here" if bwrap else "is not installed"
    return Sandbox(
        disabled_reason=f"commands are disabled: bubblewrap {reason}; "
        "install it or start the server with --allow-unsandboxed"
    )


async def _works(sandbox: Sandbox) -> bool:
    output = os.open(os.devnull, os.O_WRONLY)
    try:
        limits = CommandLimits(disk_bytes=1 << 20)
        command = sandbox.command(Path("/usr"), f"exit {_PROBE_EXIT_CODE}", {}, 5, limits)
        process = await start_process(command, output)
    except OSError:
        return False
    finally:
        os.close(output)
    try:
        async with asyncio.timeout(_PROBE_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
    return process.returncode == _PROBE_EXIT_CODE


async def start_process(command: Command, output: int) -> asyncio.subprocess.Process:
    """Start a command in its own process group, with both outputs on one descriptor."""
    descriptors: tuple[int, ...] = ()
    argv = list(command.argv)
    if command.hidden:
        descriptor = _open_memory_file(command.hidden)
        descriptors = (descriptor,)
        argv = [str(descriptor) if word == _DESCRIPTOR else word for word in argv]
    try:
        return await asyncio.create_subprocess_exec(
            *argv,
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


def _open_memory_file(data: bytes) -> int:
    """Return a descriptor from which these bytes are read."""
    descriptor = os.memfd_create("arguments")
    with open(descriptor, "wb", closefd=False) as out:
        out.write(data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
