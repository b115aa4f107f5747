"""The log of hook calls: what each one resulted in, without any content of a conversation."""

import contextlib
from pathlib import Path

import msgspec

from open_token.errors import OutputError
from open_token.storage.files import append_bytes

LOG = "log.ndjson"
_ROTATED_LOG = "log.old"
_MAX_LOG_SIZE = 1 << 20


class LogLine(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One hook call and its result."""

    at: str
    runtime: str
    event: str = ""
    id: str = ""
    result: str
    code: str | None = None
    seconds: float = 0.0


def append_log(folder: Path, line: LogLine) -> None:
    """Append a line; a large log is rotated. Errors are ignored: nobody could see them."""
    path = folder / LOG
    with contextlib.suppress(OSError, OutputError):
        if path.exists() and path.stat().st_size > _MAX_LOG_SIZE:
            path.replace(folder / _ROTATED_LOG)
        append_bytes(path, msgspec.json.encode(line) + b"\n")


def read_last_lines(folder: Path) -> dict[str, LogLine]:
    """Return the last line of the log for each agent."""
    last_lines: dict[str, LogLine] = {}
    for name in (_ROTATED_LOG, LOG):
        with contextlib.suppress(OSError):
            for raw in (folder / name).read_bytes().splitlines():
                with contextlib.suppress(msgspec.DecodeError):
                    line = msgspec.json.decode(raw, type=LogLine)
                    last_lines[line.runtime] = line
    return last_lines
