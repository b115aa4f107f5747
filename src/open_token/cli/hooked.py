"""`open-token hook run`, which runtimes call: takes the call, hands it on, and is gone; silent, and
never an error."""

import contextlib
import os
import select
import subprocess
import sys
from collections.abc import Sequence

from open_token.locallib.hooks.payload import LONGEST, parse_call
from open_token.locallib.hooks.queue import CallQueue
from open_token.storage.files import Folders

FOLDER = "hooks"
"""Below the data folder: the calls that wait, and the log."""
_PATIENCE = 2.0
"""A runtime that is silent for so many seconds says no more, even if it keeps its end open."""


def run(words: Sequence[str]) -> int:
    """Take one call; whatever it is, a runtime learns nothing but that we are done."""
    with contextlib.suppress(BaseException):
        _take(words)
    return 0


def _take(words: Sequence[str]) -> None:
    options = dict(zip(words[::2], words[1::2], strict=False))
    call = parse_call(_said(), options.get("--for", ""), options.get("--to", ""))
    if call is None:
        return
    waiting = CallQueue(Folders.of(os.environ).data / FOLDER)
    waiting.add(call)
    start_apart([sys.executable, "-P", "-m", "open_token", "hook", "keep"], str(waiting.folder))


def start_apart(command: Sequence[str], folder: str) -> None:
    """Start a process that outlives us and whoever called us: in a session of its own, with no
    stream of ours."""
    nothing = subprocess.DEVNULL
    subprocess.Popen(
        command, stdin=nothing, stdout=nothing, stderr=nothing, cwd=folder, start_new_session=True
    )


def _said() -> bytes:
    """What stands on standard input, up to the longest call; nothing when a person sits there."""
    if sys.stdin.isatty():
        return b""
    stream, parts, size = sys.stdin.fileno(), [], 0
    while size <= LONGEST and _is_ready(stream) and (part := os.read(stream, 1 << 20)):
        parts.append(part)
        size += len(part)
    return b"".join(parts)


def _is_ready(stream: int) -> bool:
    """Whether there is something to read; where that cannot be asked, reading waits."""
    return sys.platform == "win32" or bool(select.select([stream], [], [], _PATIENCE)[0])
