"""`open-token hook run`, which agents call: queue the call and exit, silently and without errors."""

import contextlib
import os
import select
import subprocess
import sys
from collections.abc import Sequence

from open_token.library.hooks.payload import MAX_CALL_SIZE, parse_call
from open_token.library.hooks.queue import CallQueue
from open_token.storage.files import Folders

HOOKS_FOLDER = "hooks"
"""Name of the folder, below the data folder, of the queued calls and the log."""
_STDIN_TIMEOUT = 2.0
"""Seconds after which an agent that keeps its end of the pipe open is considered done."""
_READ_SIZE = 1 << 20


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
    queue = CallQueue(Folders.of(os.environ).data / HOOKS_FOLDER)
    queue.add(call)
    start_detached([sys.executable, "-P", "-m", "open_token", "hook", "keep"], str(queue.folder))


def start_detached(command: Sequence[str], folder: str) -> None:
    """Start a process that outlives this one: in its own session, without our streams."""
    subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=folder,
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
