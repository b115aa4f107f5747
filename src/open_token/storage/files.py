"""Files of this user: atomic writing, locks, small private files, and the standard folders."""

import contextlib
import errno
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
_SECRET_SIZE = 32
_NO_SYNC_OF_FOLDERS = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EBADF, errno.EACCES)
_PART_NAME = "open-token-"
_PART_SUFFIX = ".part"
_MIN_ABANDONED_AGE = 10.0
_CLEANED_FOLDERS: set[Path] = set()
"""Where abandoned parts were looked for: a folder may hold thousands of files."""


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
        if sys.platform == "linux" and env.get("HOME"):
            # What platformdirs returns. Importing it would take a twentieth of the time of a small
            # export, and it looks at the environment of the process, not at this one.
            user = Path(env["HOME"])
            defaults = (user / ".config", user / ".cache", user / ".local/share")
            named = [env.get(name, "").strip() for name in _XDG_VARIABLES]
            return cls(
                *(
                    Path(name or default) / "open-token"
                    for name, default in zip(named, defaults, strict=True)
                )
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
    try:
        if path.exists() and not path.is_file():
            # A pipe or a terminal cannot be replaced, and a folder must not be.
            with path.open("wb") as device:
                yield device
            return
        target = path.resolve() if path.is_symlink() else path
        part = _Part.create_file(target.parent, f".{target.name[:40]}.")
    except BrokenPipeError:
        raise
    except OSError as problem:
        raise _cannot_write(path, problem) from None
    try:
        with os.fdopen(part.descriptor, "wb", buffering=_BUFFER_BYTES) as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        if target.exists():
            mode = stat.S_IMODE(target.stat().st_mode)
        else:
            mode &= ~_get_umask()
        os.chmod(part.path, mode)
        os.replace(part.path, target)
        sync_folder(target.parent)
    except BaseException as problem:
        remove_file(part.path)
        if isinstance(problem, OSError) and not isinstance(problem, BrokenPipeError):
            raise _cannot_write(path, problem) from None
        raise
    finally:
        part.release()


@contextlib.contextmanager
def atomic_folder(path: Path, *, is_private: bool = False) -> Iterator[Path]:
    """Create a folder that appears complete or not at all; it must not exist yet, or be empty.

    It is filled under a temporary name next to its target, and renamed.
    """
    import shutil

    parent = path.absolute().parent
    try:
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise OutputError(
                "the output is there already",
                where=str(path),
                help="name a new folder; nothing was written",
            )
        parent.mkdir(parents=True, exist_ok=True)
        part = _Part.create_folder(parent, f".{path.name[:40]}.")
    except OSError as problem:
        raise _cannot_write(path, problem) from None
    try:
        yield part.path
        os.chmod(part.path, 0o700 if is_private else 0o777 & ~_get_umask())
        if path.exists():
            path.rmdir()
        os.rename(part.path, path)
        sync_folder(parent)
    except BaseException as problem:
        shutil.rmtree(part.path, ignore_errors=True)
        if isinstance(problem, OSError):
            raise _cannot_write(path, problem) from None
        raise
    finally:
        part.release()


class _Part:
    """A temporary file or folder that this process locks until it has its name or is removed.

    A part that nobody locks was left by a process that was killed: the next one that writes to
    the folder removes it.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor
        """Of a file, to be written and closed by the caller; -1 of a folder."""
        self._lock_descriptor = -1
        with contextlib.suppress(OSError):
            # The lock outlives the caller's descriptor: the file is closed before it is renamed.
            held = os.dup(descriptor) if descriptor >= 0 else os.open(path, os.O_RDONLY)
            self._lock_descriptor = held
            _lock(held)

    @classmethod
    def create_file(cls, folder: Path, prefix: str) -> "_Part":
        import tempfile

        descriptor, name = tempfile.mkstemp(
            prefix=prefix + _PART_NAME, suffix=_PART_SUFFIX, dir=folder
        )
        part = cls(Path(name), descriptor)
        _remove_abandoned_parts(folder, os.stat(name).st_mtime)
        return part

    @classmethod
    def create_folder(cls, folder: Path, prefix: str) -> "_Part":
        import tempfile

        name = tempfile.mkdtemp(prefix=prefix + _PART_NAME, suffix=_PART_SUFFIX, dir=folder)
        part = cls(Path(name), -1)
        _remove_abandoned_parts(folder, os.stat(name).st_mtime)
        return part

    def release(self) -> None:
        """Give the lock back."""
        if self._lock_descriptor >= 0:
            os.close(self._lock_descriptor)
            self._lock_descriptor = -1


def _remove_abandoned_parts(folder: Path, now: float) -> None:
    """Remove the parts of killed processes in a folder, once a process and folder.

    `now` is the time of its file system, which need not be that of this machine.
    """
    if sys.platform == "win32" or folder in _CLEANED_FOLDERS:
        return
    _CLEANED_FOLDERS.add(folder)
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            if _PART_NAME in entry.name and entry.name.endswith(_PART_SUFFIX):
                _remove_if_abandoned(Path(entry.path), now)


def _remove_if_abandoned(path: Path, now: float) -> None:
    import fcntl
    import shutil

    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return
    try:
        status = os.fstat(descriptor)
        is_ours = status.st_uid == os.getuid()
        # A part that was created just now may not be locked yet.
        if not is_ours or now - status.st_mtime < _MIN_ABANDONED_AGE:
            return
        # Without an answer about the lock, the part stays.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if stat.S_ISDIR(status.st_mode):
            shutil.rmtree(path, ignore_errors=True)
        elif stat.S_ISREG(status.st_mode):
            remove_file(path)
    except OSError:
        return
    finally:
        os.close(descriptor)


class PendingFile:
    """A complete file under a temporary name; any process may put it in place or remove it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def commit(self, target: Path, mode: int = 0o600) -> None:
        """Rename it to its target, which is replaced if it exists.

        `sync_folder` makes the new name survive a power cut.
        """
        try:
            os.chmod(self.path, mode)
            os.replace(self.path, target)
        except OSError as problem:
            raise _cannot_write(target, problem) from None

    def remove(self) -> None:
        """Remove it, unless it has its name already."""
        remove_file(self.path)


@contextlib.contextmanager
def pending_file(folder: Path, prefix: str = ".") -> Iterator[tuple[PendingFile, BinaryIO]]:
    """Write a file of a folder that gets its name later.

    It is synced at the end of the block, and removed if that raises. It is not locked: whoever
    uses it holds a lock of its own, and removes what a killed process left (`remove_leftovers`).
    """
    import tempfile

    try:
        descriptor, name = tempfile.mkstemp(prefix=prefix, suffix=_PART_SUFFIX, dir=folder)
    except OSError as problem:
        raise _cannot_write(folder, problem) from None
    file = PendingFile(Path(name))
    try:
        with os.fdopen(descriptor, "wb", buffering=_BUFFER_BYTES) as out:
            yield file, out
            out.flush()
            os.fsync(out.fileno())
    except BaseException as problem:
        file.remove()
        if isinstance(problem, OSError):
            raise _cannot_write(
                folder, problem, "make room, or choose another place; what is there stays whole"
            ) from None
        raise


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

    None means that there is no folder that can be written, or no room in it.
    """
    path = folders.settings / "key"
    if not path.exists() and not make_folder(folders.settings):
        return None
    try:
        return load_or_create_secret(path)
    except OSError:
        return None


def load_or_create_secret(path: Path) -> bytes:
    """Return the 32 random bytes of a private file, which is created on first use.

    Processes that come at the same time get the same bytes. A file of another length is refused:
    whatever is derived from it would be weak, or match nothing that was derived before.
    """
    try:
        with path.open("rb", buffering=0) as stream:
            secret = stream.read(_SECRET_SIZE + 1)
    except FileNotFoundError:
        secret = _create_secret(path)
    if not secret:
        secret = _fill_empty_secret(path)
    if len(secret) != _SECRET_SIZE:
        raise InputError(
            f"this file should hold a secret of {_SECRET_SIZE} bytes and does not",
            where=str(path),
            help="restore it from a backup; if there is none, remove it, and a new one is made "
            "that matches nothing from before",
            code="secret.size",
        )
    return secret


def _create_secret(path: Path) -> bytes:
    """Write a new secret beside its file, then link it there: it is never seen half written."""
    secret = os.urandom(_SECRET_SIZE)
    with _pending_secret(path, secret) as written:
        try:
            os.link(written, path)
        except FileExistsError:
            # Another process was faster; its file is whole.
            return path.read_bytes()
        except OSError:
            # This file system has no links. Only here may a crash leave an empty file.
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb", buffering=0) as out:
                out.write(secret)
                os.fsync(out.fileno())
    sync_folder(path.parent)
    return secret


@contextlib.contextmanager
def _pending_secret(path: Path, secret: bytes) -> Iterator[Path]:
    """Write a secret to a temporary file, which is removed afterwards."""
    part = _Part.create_file(path.parent, f".{path.name}.")
    try:
        with os.fdopen(part.descriptor, "wb", buffering=0) as out:
            out.write(secret)
            os.fsync(out.fileno())
        yield part.path
    finally:
        remove_file(part.path)
        part.release()


def _fill_empty_secret(path: Path) -> bytes:
    """Give an empty file, as a full disk left it in the past, a secret: nothing depends on it yet.

    One process does so, and the others wait for it.
    """
    with path.open("r+b", buffering=0) as out:
        if sys.platform != "win32":
            import fcntl

            with contextlib.suppress(OSError):
                fcntl.flock(out, fcntl.LOCK_EX)
        secret = out.read(_SECRET_SIZE + 1)
        if secret:
            return secret
        secret = os.urandom(_SECRET_SIZE)
        out.write(secret)
        os.fsync(out.fileno())
    return secret


def _get_umask() -> int:
    current = os.umask(0o022)
    os.umask(current)
    return current


def sync_folder(folder: Path) -> None:
    """Make a new name in a folder survive a power cut.

    Folders that cannot be opened or synced at all, as on some file systems, are passed over; a
    disk that fails to do so is an error.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError as problem:
        if problem.errno in _NO_SYNC_OF_FOLDERS:
            return
        raise OutputError(
            f"the disk did not confirm what was written: {problem.strerror}",
            where=str(folder),
            help="the output is there, but may be lost in a power cut: check the disk and repeat",
            code="output.unconfirmed",
        ) from None
    finally:
        os.close(descriptor)


def _cannot_write(
    path: Path, problem: OSError, help: str = "choose another place; nothing was written"
) -> OutputError:
    reason = problem.strerror or type(problem).__name__
    return OutputError(f"cannot write: {reason}", where=str(path), help=help)
