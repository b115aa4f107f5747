"""Whole-or-nothing writing, the folders of this user, and the spool that holds events between reading and writing."""

import contextlib
import marshal
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO

from open_token.errors import OutputError
from open_token.model import Event

MEMORY_LIMIT = 48 * 1024 * 1024
_FLUSH_AT = 512


@dataclass(frozen=True)
class Folders:
    """Where this user's settings, cache and data live."""

    settings: Path
    cache: Path
    data: Path

    @classmethod
    def of(cls, env: Mapping[str, str]) -> "Folders":
        """By OPEN_TOKEN_HOME, else as the platform has it."""
        home = env.get("OPEN_TOKEN_HOME")
        if home:
            root = Path(home)
            return cls(root / "settings", root / "cache", root / "data")
        import platformdirs

        return cls(
            Path(platformdirs.user_config_dir("open-token", appauthor=False)),
            Path(platformdirs.user_cache_dir("open-token", appauthor=False)),
            Path(platformdirs.user_data_dir("open-token", appauthor=False)),
        )


@contextlib.contextmanager
def whole_file(path: Path, mode: int = 0o644) -> Iterator[BinaryIO]:
    """A file that appears complete or not at all: written beside, synced, renamed."""
    import tempfile

    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as device:  # a pipe or a terminal cannot be replaced, a folder must not be
                yield device
            return
        target = path.resolve() if path.is_symlink() else path
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name[:40]}.", suffix=".part", dir=target.parent)
    except BrokenPipeError:
        raise
    except OSError as problem:
        raise _cannot_write(path, problem) from None
    try:
        with os.fdopen(descriptor, "wb", buffering=1 << 18) as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        os.chmod(name, stat.S_IMODE(target.stat().st_mode) if target.exists() else mode & ~_umask())
        os.replace(name, target)
        _sync_folder(target.parent)
    except BaseException as problem:
        with contextlib.suppress(OSError):
            os.unlink(name)
        if isinstance(problem, OSError) and not isinstance(problem, BrokenPipeError):
            raise _cannot_write(path, problem) from None
        raise


def write_whole(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Write a small file whole or not at all."""
    with whole_file(path, mode) as out:
        out.write(data)


def read_optional(path: Path) -> bytes | None:
    """A small file's bytes; None when it is not there or may not be read."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def make_folder(path: Path) -> bool:
    """Make a private folder of ours; False when that cannot be."""
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:
        return False
    return os.access(path, os.W_OK)


def local_key(folders: Folders) -> bytes | None:
    """The 32 random bytes behind this user's redaction marks, made on first use; None without a writable folder."""
    path = folders.settings / "key"
    key = read_optional(path)
    if key is not None and len(key) == 32:
        return key
    if key is not None or not make_folder(folders.settings):
        return None
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError:
        return read_optional(path)
    with os.fdopen(descriptor, "wb") as out:
        key = os.urandom(32)
        out.write(key)
    return key


def _umask() -> int:
    current = os.umask(0o022)
    os.umask(current)
    return current


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _cannot_write(path: Path, problem: OSError) -> OutputError:
    reason = problem.strerror or type(problem).__name__
    return OutputError(f"cannot write: {reason}", where=str(path), help="choose another place; nothing was written")


class Spool:
    """Events in order, in memory up to a limit and in a temporary file after it; may be walked any number of times."""

    def __init__(self, limit: int = MEMORY_LIMIT) -> None:
        self._limit = limit
        self._held: list[Event] = []
        self._pending: list[Event] = []
        self._pending_weight = 0
        self._file: IO[bytes] | None = None
        self._batches: list[tuple[int, int]] = []
        self._stored_bytes = 0
        self._count = 0

    def __del__(self) -> None:
        if self._file is not None:
            self._file.close()

    def __len__(self) -> int:
        return self._count

    def append(self, event: Event, weight: int) -> None:
        """Take one more event; weight is about what it costs in memory."""
        self.extend([event], weight)

    def extend(self, events: list[Event], weight: int) -> None:
        """Take more events; weight is about what they cost in memory."""
        self._count += len(events)
        if self._limit > 0:
            self._limit -= weight
            self._held += events
            return
        self._pending += events
        self._pending_weight += weight
        if len(self._pending) >= _FLUSH_AT or self._pending_weight > 1 << 20:
            self._flush()

    def open_event(self, place: int) -> Event | None:
        """The event at a place (from 0), as long as it may be changed where it stands."""
        if place < len(self._held):
            return self._held[place]
        place -= self._count - len(self._pending)
        return self._pending[place] if 0 <= place < len(self._pending) else None

    def _flush(self) -> None:
        import tempfile

        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="open-token-", buffering=0)  # noqa: SIM115 - as the spool
        data = memoryview(marshal.dumps(self._pending))
        self._batches.append((self._stored_bytes, len(data)))
        self._stored_bytes += len(data)
        try:
            while data:
                data = data[self._file.write(data) :]
        except OSError as problem:
            reason = problem.strerror or type(problem).__name__
            raise OutputError(
                f"cannot write to the temporary folder: {reason}",
                where=tempfile.gettempdir(),
                help="free some space, or set TMPDIR to a folder with room for the export",
            ) from None
        self._pending = []
        self._pending_weight = 0

    def __iter__(self) -> Iterator[Event]:
        yield from self._held
        if self._file is not None:
            yield from self._stored()
        yield from self._pending

    def _stored(self) -> Iterator[Event]:
        assert self._file is not None
        for place, size in self._batches:
            yield from marshal.loads(os.pread(self._file.fileno(), size, place))
