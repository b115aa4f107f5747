"""`open-token hook run`, which agents call: queue the call and exit, silently and without errors."""

import contextlib
import os
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence

from open_token.library.hooks.payload import MAX_CALL_SIZE, parse_call
from open_token.library.hooks.queue import CallQueue
from open_token.storage.files import Folders

HOOKS_FOLDER = "hooks"
"""Name of the folder, below the data folder, of the queued calls and the log."""
_STDIN_TIMEOUT = 2.0
"""Seconds after which an agent that keeps its end of the pipe open is considered done."""
_READ_SIZE = 1 << 20
_FOLDER_VARIABLES = ("OPEN_TOKEN_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME")
"""Where the settings of the user are. An agent may have these variables from a project."""


def run(words: Sequence[str]) -> int:
    """Queue one call; an agent never sees an error of ours."""
    with contextlib.suppress(BaseException):
        _queue_call(words)
    return 0


def _queue_call(words: Sequence[str]) -> None:
    options = dict(zip(words[::2], words[1::2], strict=False))
    call = parse_call(_read_payload(), options.get("--for", ""), options.get("--to", ""))
    if call is None:
        return
    env = build_environment(os.environ, options)
    queue = CallQueue(Folders.of(env).data / HOOKS_FOLDER)
    queue.add(call)
    command = [sys.executable, "-P", "-m", "open_token", "hook", "keep"]
    start_detached(command, str(queue.folder), env)


def list_folder_options(env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the options of `hook run` that say where the user's folders are, for installation.

    Whoever installs hooks runs this in an environment of their own.
    """
    words: list[str] = []
    for name in _FOLDER_VARIABLES:
        if env.get(name):
            words += [_get_option(name), os.path.abspath(env[name])]
    home = env.get("HOME")
    if home and home != _find_account_home():
        words += [_get_option("HOME"), os.path.abspath(home)]
    return tuple(words)


def build_environment(env: Mapping[str, str], options: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of an agent without what a project could have put there to change
    our settings: the folders are those of the installation, or else those of the account."""
    trusted = {
        name: value
        for name, value in env.items()
        if not name.startswith("OPEN_TOKEN_") and name not in _FOLDER_VARIABLES
    }
    home = _find_account_home()
    if home:
        trusted["HOME"] = home
    for name in ("HOME", *_FOLDER_VARIABLES):
        value = options.get(_get_option(name))
        if value:
            trusted[name] = value
    return trusted


def _get_option(variable: str) -> str:
    return "--" + variable.lower().replace("_", "-")


def _find_account_home() -> str | None:
    """Return the home folder of this account; None where the system does not say."""
    if sys.platform == "win32":
        return None
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return None


def start_detached(command: Sequence[str], folder: str, env: Mapping[str, str]) -> None:
    """Start a process that outlives this one: in its own session, without our streams."""
    subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env=env,
        start_new_session=True,
    )


def _read_payload() -> bytes:
    """Read stdin up to the size limit of a call; nothing from a terminal."""
    if sys.stdin.isatty():
        return b""
    descriptor = sys.stdin.fileno()
    parts: list[bytes] = []
    size = 0
    while size <= MAX_CALL_SIZE and _is_readable(descriptor):
        part = os.read(descriptor, _READ_SIZE)
        if not part:
            break
        parts.append(part)
        size += len(part)
    return b"".join(parts)


def _is_readable(descriptor: int) -> bool:
    """Whether input arrives in time; on Windows, where pipes have no select, reading blocks."""
    if sys.platform == "win32":
        return True
    return bool(select.select([descriptor], [], [], _STDIN_TIMEOUT)[0])
