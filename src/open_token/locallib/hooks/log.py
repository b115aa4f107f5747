"""What came of each call, without a word of what was said."""

import contextlib
from pathlib import Path

import msgspec

from open_token.errors import OutputError
from open_token.storage.files import append_bytes

LOG, _OLDER = "log.ndjson", "log.old"
_MOST = 1 << 20


class LogLine(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One line of the log: which call it was, and what came of it."""

    at: str
    runtime: str
    event: str = ""
    id: str = ""
    result: str
    code: str | None = None
    seconds: float = 0.0


def append_log(folder: Path, told: LogLine) -> None:
    """Write a line; a long log makes room for a new one."""
    path = folder / LOG
    with contextlib.suppress(OSError, OutputError):
        if path.exists() and path.stat().st_size > _MOST:
            path.replace(folder / _OLDER)
        append_bytes(path, msgspec.json.encode(told) + b"\n")


def read_last_lines(folder: Path) -> dict[str, LogLine]:
    """The last line of the log for each runtime."""
    found: dict[str, LogLine] = {}
    for name in (_OLDER, LOG):
        with contextlib.suppress(OSError):
            for line in (folder / name).read_bytes().splitlines():
                with contextlib.suppress(msgspec.DecodeError):
                    told = msgspec.json.decode(line, type=LogLine)
                    found[told.runtime] = told
    return found
