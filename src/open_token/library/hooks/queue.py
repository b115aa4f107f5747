"""The queue of hook calls: one file for each, so that calls survive the process that took them."""

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from open_token.library.hooks.payload import HookCall
from open_token.storage.files import make_folder, read_optional, remove_file, try_lock, write_atomic

_NEW = ".call"
_FIRST_TRY = ".begun"
_SECOND_TRY = ".again"
# The suffix of a call while it is processed. One that a killed process left is tried once more.
_NEXT_SUFFIX = {_NEW: _FIRST_TRY, _FIRST_TRY: _SECOND_TRY}


class CallQueue:
    """A directory of calls, processed by one process at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, call: HookCall) -> None:
        """Add a call; it replaces one that waits for the same session."""
        make_folder(self.folder)
        key = "\0".join((call.runtime, call.path, call.id, call.folder))
        name = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        write_atomic(self.folder / f"{name}{_NEW}", msgspec.json.encode(call), 0o600)

    @contextlib.contextmanager
    def lock(self) -> Iterator[bool]:
        """Try to lock the queue; yield whether that succeeded."""
        with try_lock(self.folder / ".lock") as is_ours:
            yield is_ours

    def list_waiting(self) -> list[Path]:
        """Return the calls that wait or were left by a killed process."""
        suffixes = (_NEW, _FIRST_TRY, _SECOND_TRY)
        return sorted(path for suffix in suffixes for path in self.folder.glob(f"*{suffix}"))

    def claim(self, path: Path) -> tuple[Path, HookCall | None]:
        """Take a call out of the queue; return its new path, and None if it cannot be processed.

        It is renamed, so that a newer call for the same session can be added meanwhile.
        """
        if path.suffix not in _NEXT_SUFFIX:
            return path, None
        claimed = path.with_suffix(_NEXT_SUFFIX[path.suffix])
        try:
            path.replace(claimed)
        except OSError:
            return path, None
        with contextlib.suppress(msgspec.DecodeError):
            return claimed, msgspec.json.decode(read_optional(claimed) or b"", type=HookCall)
        return claimed, None

    def has_session_end(self) -> bool:
        """Return whether a call for the end of a session is waiting."""
        with contextlib.suppress(msgspec.DecodeError):
            for path in self.folder.glob(f"*{_NEW}"):
                raw = read_optional(path)
                if raw is not None and msgspec.json.decode(raw, type=HookCall).is_end:
                    return True
        return False

    def finish(self, path: Path) -> bool:
        """Remove a call that was processed; return False if it cannot be removed."""
        remove_file(path)
        return not os.path.lexists(path)
