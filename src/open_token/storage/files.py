"""Files of this user: atomic writing, locks, small private files, and the standard folders."""

import contextlib
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

import msgspec

from open_token.errors import InputError, OutputError

_XDG_VARIABLES = ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME")
_BUFFER_BYTES = 1 << 18


class Folders(msgspec.Struct, frozen=True):
    """Where this user's settings, cache and data live."""

    settings: Path
    cache: Path
    data: Path

    @classmethod
    def of(cls, env: Mapping[str, str]) -> "Folders":
        """Return the folders according to OPEN_TOKEN_HOME, else those of the platform."""
        home = env.get("OPEN_TOKEN_HOME")
        if home:
            root = Path(home)
            return cls(root / "settings", root / "cache", root / "data")
        has_xdg = any(name in env for name in _XDG_VARIABLES)
        if sys.platform == "linux" and env.get("HOME") and not has_xdg:
            # What platformdirs returns. Importing it would take a twentieth of the time of a small
            # export.
            user = Path(env["HOME"])
            return cls(
                user / ".config" / "open-token",
                user / ".cache" / "open-token",
                user / ".local/share" / "open-token",
            )
        import platformdirs

        return cls(
            Path(platformdirs.user_config_dir("open-token", appauthor=False)),
            Path(platformdirs.user_cache_dir("open-token", appauthor=False)),
            Path(platformdirs.user_data_dir("open-token", appauthor=False)),
        )


@contextlib.contextmanager
def atomic_file(path: Path, mode: int = 0o644) -> Iterator[BinaryIO]:
    """Open a file that appears complete or not at all.

    It is written under a temporary name next to its target, synced, and renamed.
    """
    import tempfile

    try:
        if path.exists() and not path.is_file():
            # A pipe or a terminal cannot be replaced, and a folder must not be.
            with path.open("wb") as device:
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
        with os.fdopen(descriptor, "wb", buffering=_BUFFER_BYTES) as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        if target.exists():
            mode = stat.S_IMODE(target.stat().st_mode)
        else:
            mode &= ~_get_umask()
        os.chmod(name, mode)
        os.replace(name, target)
        _sync_folder(target.parent)
    except BaseException as problem:
        with contextlib.suppress(OSError):
            os.unlink(name)
        if isinstance(problem, OSError) and not isinstance(problem, BrokenPipeError):
            raise _cannot_write(path, problem) from None
        raise


@contextlib.contextmanager
def atomic_folder(path: Path, *, is_private: bool = False) -> Iterator[Path]:
    """Create a folder that appears complete or not at all; it must not exist yet, or be empty.

    It is filled under a temporary name next to its target, and renamed.
    """
    import shutil
    import tempfile

    parent = path.absolute().parent
    try:
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise OutputError(
                "the output is there already",
                where=str(path),
                help="name a new folder; nothing was written",
            )
        parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name[:40]}.", suffix=".part", dir=parent))
    except OSError as problem:
        raise _cannot_write(path, problem) from None
    try:
        yield temporary
        os.chmod(temporary, 0o700 if is_private else 0o777 & ~_get_umask())
        if path.exists():
            path.rmdir()
        os.rename(temporary, path)
        _sync_folder(parent)
    except BaseException as problem:
        shutil.rmtree(temporary, ignore_errors=True)
        if isinstance(problem, OSError):
            raise _cannot_write(path, problem) from None
        raise


class PendingFile:
    """A file that is being written and gets its name when it is complete."""

    def __init__(self, path: Path, out: BinaryIO) -> None:
        self.path = path
        self.out = out
        self.is_committed = False

    def commit(self, target: Path, mode: int = 0o600) -> None:
        """Rename it to its target, which is replaced if it exists."""
        self.out.flush()
        os.fsync(self.out.fileno())
        self.out.close()
        os.chmod(self.path, mode)
        os.replace(self.path, target)
        self.is_committed = True
        _sync_folder(target.parent)


@contextlib.contextmanager
def pending_file(folder: Path, prefix: str = ".") -> Iterator[PendingFile]:
    """Create a file in a folder, which is removed afterwards unless it was committed."""
    import tempfile

    try:
        descriptor, name = tempfile.mkstemp(prefix=prefix, suffix=".part", dir=folder)
        file = PendingFile(Path(name), os.fdopen(descriptor, "wb", buffering=_BUFFER_BYTES))
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
        if not file.is_committed:
            remove_file(file.path)


def remove_file(path: Path) -> None:
    """Remove a file if it exists and that is allowed."""
    with contextlib.suppress(OSError):
        path.unlink()


def remove_leftovers(folder: Path, *prefixes: str) -> None:
    """Remove the pending files of a killed process, in a folder and directly below it."""
    for path in (*folder.glob("*.part"), *folder.glob("*/*.part")):
        if path.name.startswith(prefixes):
            remove_file(path)


def append_bytes(path: Path, data: bytes) -> None:
    """Append to a private file, in a single write."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(descriptor, data)
        finally:
            os.close(descriptor)
    except OSError as problem:
        raise _cannot_write(path, problem) from None


@contextlib.contextmanager
def try_lock(path: Path) -> Iterator[bool]:
    """Try to take a lock file; yield whether that succeeded.

    The system releases it when the process ends, in whatever way.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as problem:
        raise _cannot_write(path, problem) from None
    try:
        yield _lock(descriptor)
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        # Another error than "blocked" means that the file system has no locks.
        return sys.platform != "win32" and not isinstance(problem, BlockingIOError)
    return True


def read_ends(path: Path, first: int, last: int = 0) -> tuple[bytes, bytes]:
    """Return the first and the last bytes of a file; empty if it cannot be read."""
    try:
        with path.open("rb", buffering=0) as stream:
            head = stream.read(first) if first else b""
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(len(head), size - last))
            return head, stream.read(last)
    except OSError:
        return b"", b""


@contextlib.contextmanager
def open_growing(path: Path) -> Iterator[BinaryIO]:
    """Open a file that grows in place; a new one is removed again if nothing was written."""
    is_new = not path.exists()
    try:
        out = path.open("w+b" if is_new else "r+b")
        if sys.platform != "win32" and not _lock(out.fileno()):
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
    """Write a small file that nobody else can change, whatever was in its place."""
    remove_file(path)
    write_atomic(path, data, 0o600)


def write_atomic(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Write a small file completely or not at all."""
    with atomic_file(path, mode) as out:
        out.write(data)


def read_optional(path: Path, *, private: bool = False) -> bytes | None:
    """Return the content of a small file; None if it cannot be read.

    A `private` file is not read if others can write it.
    """
    try:
        if private and not path.is_file():
            return None  # a pipe would block
        with path.open("rb", buffering=0) as stream:
            if private and not _is_private(stream.fileno()):
                return None
            return stream.read()
    except OSError:
        return None


def _is_private(descriptor: int) -> bool:
    if sys.platform == "win32":
        return True
    status = os.fstat(descriptor)
    return status.st_uid in (0, os.getuid()) and not status.st_mode & 0o022


def read_existing(path: Path) -> bytes | None:
    """Return the content of a small file; None if it does not exist.

    A file that exists and cannot be read is an error.
    """
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
    """Create the folders above a file."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise _cannot_write(path, problem) from None


def make_folder(path: Path) -> bool:
    """Create a private folder; return whether it exists and can be written."""
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:
        return False
    return os.access(path, os.W_OK)


def load_local_key(folders: Folders) -> bytes | None:
    """Return the 32 random bytes behind this user's redaction markers, created on first use.

    None means that there is no writable folder.
    """
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


def _get_umask() -> int:
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
