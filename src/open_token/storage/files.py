"""Whole-or-nothing writing, the folders of this user, and the spool that holds events between
reading and writing."""

import contextlib
import marshal
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, BinaryIO

import msgspec

from open_token.errors import InputError, OutputError
from open_token.model.document import Event

MEMORY_LIMIT = 48 * 1024 * 1024
_FLUSH_AT = 512
_MOVED = ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME")


class Folders(msgspec.Struct, frozen=True):
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
        if sys.platform == "linux" and env.get("HOME") and not any(name in env for name in _MOVED):
            # As platformdirs has it, which alone would take a twentieth of the time of a small
            # export.
            user = Path(env["HOME"])
            return cls(
                *(user / place / "open-token" for place in (".config", ".cache", ".local/share"))
            )
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
            with path.open(
                "wb"
            ) as device:  # a pipe or a terminal cannot be replaced, a folder must not be
                yield device
            return
        target = path.resolve() if path.is_symlink() else path
        descriptor, name = tempfile.mkstemp(
            prefix=f".{target.name[:40]}.", suffix=".part", dir=target.parent
        )
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


@contextlib.contextmanager
def whole_folder(path: Path, *, is_private: bool = False) -> Iterator[Path]:
    """A folder that appears complete or not at all: filled beside, renamed. It must not be there
    yet, or be empty."""
    import shutil
    import tempfile

    try:
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise OutputError(
                "the output is there already",
                where=str(path),
                help="name a new folder; nothing was written",
            )
        path.absolute().parent.mkdir(parents=True, exist_ok=True)
        made = Path(
            tempfile.mkdtemp(
                prefix=f".{path.name[:40]}.", suffix=".part", dir=path.absolute().parent
            )
        )
    except OSError as problem:
        raise _cannot_write(path, problem) from None
    try:
        yield made
        os.chmod(made, 0o700 if is_private else 0o777 & ~_umask())
        if path.exists():
            path.rmdir()
        os.rename(made, path)
        _sync_folder(path.absolute().parent)
    except BaseException as problem:
        shutil.rmtree(made, ignore_errors=True)
        if isinstance(problem, OSError):
            raise _cannot_write(path, problem) from None
        raise


class Unnamed:
    """A file that is being written and gets its name when it is complete."""

    def __init__(self, path: Path, out: BinaryIO) -> None:
        self.path = path
        self.out = out
        self.is_named = False

    def become(self, target: Path, mode: int = 0o600) -> None:
        """Let it be the file of that name; what was there before is replaced."""
        self.out.flush()
        os.fsync(self.out.fileno())
        self.out.close()
        os.chmod(self.path, mode)
        os.replace(self.path, target)
        self.is_named = True
        _sync_folder(target.parent)


@contextlib.contextmanager
def unnamed_file(folder: Path, prefix: str = ".") -> Iterator[Unnamed]:
    """A new file in a folder, which is gone afterwards unless it got a name."""
    import tempfile

    try:
        descriptor, name = tempfile.mkstemp(prefix=prefix, suffix=".part", dir=folder)
        file = Unnamed(Path(name), os.fdopen(descriptor, "wb", buffering=1 << 18))
    except OSError as problem:
        raise _cannot_write(folder, problem) from None
    try:
        yield file
    except OSError as problem:
        raise _cannot_write(
            folder, problem, "make room, or choose another place; what is there stays whole"
        ) from None
    finally:
        with contextlib.suppress(OSError):
            file.out.close()
        if not file.is_named:
            remove(file.path)


def remove(path: Path) -> None:
    """Take a file away, if it is there and that is allowed."""
    with contextlib.suppress(OSError):
        path.unlink()


def sweep(folder: Path, *prefixes: str) -> None:
    """Take away the unnamed files that a killed process left in a folder and in those right below
    it."""
    for path in (*folder.glob("*.part"), *folder.glob("*/*.part")):
        if path.name.startswith(prefixes):
            remove(path)


def append(path: Path, data: bytes) -> None:
    """Put bytes behind what a private file holds, in one write."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(descriptor, data)
        finally:
            os.close(descriptor)
    except OSError as problem:
        raise _cannot_write(path, problem) from None


@contextlib.contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Try to hold a lock file; tells whether it is ours. The system lets go of it when the process
    ends, in any way."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as problem:
        raise _cannot_write(path, problem) from None
    try:
        yield _take(descriptor)
    finally:
        os.close(descriptor)


def _take(descriptor: int) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:  # of another kind where a disk has no locks
        return sys.platform != "win32" and not isinstance(problem, BlockingIOError)
    return True


def ends_of(path: Path, first: int, last: int = 0) -> tuple[bytes, bytes]:
    """The first and the last bytes of a file, and nothing of what lies between; empty when it may
    not be read."""
    try:
        with path.open("rb", buffering=0) as stream:
            head = stream.read(first) if first else b""
            stream.seek(max(len(head), stream.seek(0, os.SEEK_END) - last))
            return head, stream.read(last)
    except OSError:
        return b"", b""


@contextlib.contextmanager
def grown_file(path: Path) -> Iterator[BinaryIO]:
    """A file that grows in place, to go on with; a new one is taken away again when nothing was
    written."""
    is_new = not path.exists()
    try:
        out = path.open("w+b" if is_new else "r+b")
        if sys.platform != "win32" and not _take(out.fileno()):
            out.close()
            raise BlockingIOError(0, "another process is writing this file")
    except OSError as problem:
        raise _cannot_write(path, problem) from None
    try:
        with out:
            yield out
    except OSError as problem:
        raise _cannot_write(
            path, problem, "make room; what is in the file stays, and can be gone on with"
        ) from None
    finally:
        if is_new and path.exists() and not path.stat().st_size:
            path.unlink()


def write_private(path: Path, data: bytes) -> None:
    """Write a small file that nobody else can change, whatever lay in its place."""
    remove(path)
    write_whole(path, data, 0o600)


def write_whole(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Write a small file whole or not at all."""
    with whole_file(path, mode) as out:
        out.write(data)


def read_optional(path: Path, *, private: bool = False) -> bytes | None:
    """A small file's bytes; None when it is not there or may not be read, or is private and others
    can write it."""
    try:
        if private and not path.is_file():  # a pipe would be waited for
            return None
        with path.open("rb", buffering=0) as stream:
            facts = os.fstat(stream.fileno())
            is_ours = sys.platform == "win32" or (
                facts.st_uid in (0, os.getuid()) and not facts.st_mode & 0o022
            )
            return stream.read() if is_ours or not private else None
    except OSError:
        return None


def read_if_there(path: Path) -> bytes | None:
    """A small file's bytes; None when it is not there. One that is there and cannot be read is an
    error."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as problem:
        raise InputError(
            f"cannot read this file: {problem.strerror}",
            where=str(path),
            help="check its permissions, or move it away",
        ) from None


def make_parents(path: Path) -> None:
    """The folders that a file of ours is to lie in."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise _cannot_write(path, problem) from None


def make_folder(path: Path) -> bool:
    """Make a private folder of ours; False when that cannot be."""
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:
        return False
    return os.access(path, os.W_OK)


def local_key(folders: Folders) -> bytes | None:
    """The 32 random bytes behind this user's redaction marks, made on first use; None without a
    writable folder."""
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


def _cannot_write(
    path: Path, problem: OSError, help: str = "choose another place; nothing was written"
) -> OutputError:
    reason = problem.strerror or type(problem).__name__
    return OutputError(f"cannot write: {reason}", where=str(path), help=help)


class Spool:
    """Events in order, in memory up to a limit and in a temporary file after it; may be walked any
    number of times."""

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
