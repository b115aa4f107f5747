"""Calls that wait to be carried out: a file each, so that none is lost with the process that took
it."""

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from open_token.locallib.hooks.payload import HookCall
from open_token.storage.files import make_folder, read_optional, remove_file, try_lock, write_atomic

_NEW, _BEGUN, _AGAIN = ".call", ".begun", ".again"
_NEXT = {_NEW: _BEGUN, _BEGUN: _AGAIN}
"""The name of a call while it is carried out; one that a killed process left so is tried once
more."""


class CallQueue:
    """A folder of calls; one process at a time carries them out."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, call: HookCall) -> None:
        """Let a call wait; one that waits for the same conversation is replaced."""
        make_folder(self.folder)
        known = "\0".join((call.runtime, call.path, call.id, call.folder)).encode(
            "utf-8", "surrogatepass"
        )
        name = hashlib.sha256(known).hexdigest()[:32]
        write_atomic(self.folder / f"{name}{_NEW}", msgspec.json.encode(call), 0o600)

    @contextlib.contextmanager
    def held(self) -> Iterator[bool]:
        """Try to be the one who carries them out."""
        with try_lock(self.folder / ".lock") as is_ours:
            yield is_ours

    def names(self) -> list[Path]:
        """What waits, or was left by a process that was killed."""
        return sorted(
            path for suffix in (*_NEXT, _AGAIN) for path in self.folder.glob(f"*{suffix}")
        )

    def begin(self, path: Path) -> tuple[Path, HookCall | None]:
        """Take a call: it gets another name, so that a newer one of the same conversation can wait
        beside it."""
        if path.suffix not in _NEXT:
            return path, None
        taken = path.with_suffix(_NEXT[path.suffix])
        try:
            path.replace(taken)
        except OSError:
            return path, None
        with contextlib.suppress(msgspec.DecodeError):
            return taken, msgspec.json.decode(read_optional(taken) or b"", type=HookCall)
        return taken, None

    def is_ending(self) -> bool:
        """Whether a session that is over is among what waits."""
        raws = (read_optional(path) for path in self.folder.glob(f"*{_NEW}"))
        with contextlib.suppress(msgspec.DecodeError):
            return any(
                raw is not None and msgspec.json.decode(raw, type=HookCall).is_end for raw in raws
            )
        return False

    def done(self, path: Path) -> bool:
        """Forget a call that was carried out; False when it cannot be taken away."""
        remove_file(path)
        return not os.path.lexists(path)
