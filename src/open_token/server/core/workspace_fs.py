"""File operations inside a workspace: strict paths, and folders opened by descriptor.

Paths are resolved one name at a time relative to an open folder and never through a link, so that
a concurrent change of the tree cannot lead outside."""

import contextlib
import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from open_token.server.errors import ApiError

MAX_DEPTH = 64
_MAX_NAME_BYTES = 240
"""What file systems allow, less the addition to the name of a temporary file."""
_DRIVE = re.compile(r"[A-Za-z]:")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: opening a named pipe must not block.
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_TEMPORARY_SUFFIX = ".part"
_OS_ERRORS = {
    errno.ENOENT: (404, "no such file", "not_found"),
    errno.ENOTDIR: (400, "a part of the path is not a folder", "bad_path"),
    errno.ELOOP: (400, "links are not followed", "bad_path"),
    errno.EISDIR: (400, "the path is a folder", "is_folder"),
    errno.ENXIO: (400, "not a regular file", "bad_path"),
    errno.EEXIST: (409, "the name already exists", "exists"),
    errno.ENOTEMPTY: (409, "the name already exists", "exists"),
    errno.EACCES: (403, "permission denied in the workspace", "not_permitted"),
    errno.EPERM: (403, "permission denied in the workspace", "not_permitted"),
    errno.ENAMETOOLONG: (400, "the path is too long", "bad_path"),
    errno.ENOSPC: (507, "disk full", "disk_full"),
    errno.EDQUOT: (507, "disk full", "disk_full"),
    errno.EFBIG: (413, "the file is too large", "too_big"),
}


def invalid_path(why: str) -> ApiError:
    """Return the error for an invalid path; the path itself is not repeated."""
    return ApiError(400, f"invalid workspace path: {why}", "bad_path")


def split_path(path: str) -> tuple[str, ...]:
    """Split a relative path into checked names; empty for the root of the workspace."""
    if path.startswith(("/", "\\")):
        raise invalid_path("it must be relative")
    parts = tuple(check_name(part) for part in path.split("/") if part not in ("", "."))
    if len(parts) > MAX_DEPTH:
        raise invalid_path(f"it is deeper than {MAX_DEPTH} folders")
    return parts


def check_name(name: str) -> str:
    """Return a name that is valid here and safe to unpack on other systems."""
    if name in ("", ".", ".."):
        raise invalid_path("it must not leave the workspace")
    if "/" in name or "\\" in name or _CONTROL.search(name) or _DRIVE.match(name):
        raise invalid_path("a name contains forbidden characters")
    try:
        length = len(name.encode())
    except UnicodeEncodeError:
        raise invalid_path("a name is not valid Unicode") from None
    if length > _MAX_NAME_BYTES:
        raise invalid_path(f"a name is longer than {_MAX_NAME_BYTES} bytes")
    return name


@contextlib.contextmanager
def translate_os_errors() -> Iterator[None]:
    """Turn OSError into an ApiError that does not reveal where the workspace is."""
    try:
        yield
    except OSError as problem:
        unknown = (503, "disk error", "disk")
        status, detail, code = _OS_ERRORS.get(problem.errno or 0, unknown)
        raise ApiError(status, detail, code) from None


@contextlib.contextmanager
def open_folder(root: Path, parts: Sequence[str] = (), *, make: bool = False) -> Iterator[int]:
    """Open a folder below the root; with `make` missing folders are created."""
    if make:
        root.mkdir(parents=True, exist_ok=True)
    folder = os.open(root, _OPEN_FOLDER)
    try:
        for name in parts:
            child = _open_child(folder, name, make)
            os.close(folder)
            folder = child
        yield folder
    finally:
        os.close(folder)


def _open_child(folder: int, name: str, make: bool) -> int:
    if make:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o755, dir_fd=folder)
    try:
        return os.open(name, _OPEN_FOLDER, dir_fd=folder)
    except NotADirectoryError:
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, "a link") from None
        raise


def open_file(folder: int, name: str) -> int:
    """Open a regular file for reading; raises OSError for anything else."""
    file = os.open(name, _OPEN_FILE, dir_fd=folder)
    mode = os.fstat(file).st_mode
    if stat.S_ISREG(mode):
        return file
    os.close(file)
    raise OSError(errno.EISDIR if stat.S_ISDIR(mode) else errno.ENXIO, "not a regular file")


def _is_folder(folder: int, name: str) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)


@contextlib.contextmanager
def create_file(folder: int, name: str, mode: int) -> Iterator[int]:
    """Create or replace a file atomically: it gets its name when it is complete."""
    with contextlib.suppress(FileNotFoundError):
        existing = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        if not stat.S_ISREG(existing):
            code = errno.EISDIR if stat.S_ISDIR(existing) else errno.ELOOP
            raise OSError(code, "not a regular file")
    temporary = temporary_name()
    file = os.open(temporary, _CREATE_FILE, mode, dir_fd=folder)
    try:
        try:
            yield file
            os.fsync(file)
        finally:
            os.close(file)
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


def temporary_name() -> str:
    """Return a fresh name for something incomplete or being deleted; listings leave it out."""
    return f".{secrets.token_hex(8)}{_TEMPORARY_SUFFIX}"


def is_temporary(name: str) -> bool:
    """Return whether a name has the form of `temporary_name`."""
    if not name.startswith(".") or not name.endswith(_TEMPORARY_SUFFIX):
        return False
    return len(name) == len(temporary_name())


def exists(folder: int, name: str) -> bool:
    """Return whether a folder has an entry of this name; also for a dangling link."""
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def list_entries(folder: int) -> list[tuple[str, os.stat_result]]:
    """Return the entries of a folder sorted by name; those that vanish meanwhile are left out."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if is_temporary(entry.name):
                continue
            with contextlib.suppress(FileNotFoundError):
                found.append((entry.name, entry.stat(follow_symlinks=False)))
    return sorted(found, key=lambda item: os.fsencode(item[0]))


def walk_tree(
    root: Path, parts: Sequence[str] = ()
) -> Iterator[tuple[tuple[str, ...], os.stat_result]]:
    """Yield everything below a folder with its relative path; links are not followed."""
    pending: list[tuple[str, ...]] = [()]
    while pending:
        path = pending.pop()
        try:
            with open_folder(root, (*parts, *path)) as folder:
                entries = list_entries(folder)
        except OSError:
            if path:
                continue  # deleted or made inaccessible during the walk
            raise
        for name, status in entries:
            yield (*path, name), status
        if len(parts) + len(path) < MAX_DEPTH:
            for name, status in reversed(entries):
                if stat.S_ISDIR(status.st_mode):
                    pending.append((*path, name))


def clear_folder(folder: int) -> None:
    """Delete the content of a folder.

    Nested folders are moved up first, so that any depth needs two descriptors only."""
    pending = os.listdir(folder)
    while pending:
        name = pending.pop()
        if not _is_folder(folder, name):
            os.unlink(name, dir_fd=folder)
            continue
        child = os.open(name, _OPEN_FOLDER, dir_fd=folder)
        try:
            pending += _move_up_folders(child, folder)
        finally:
            os.close(child)
        os.rmdir(name, dir_fd=folder)


def _move_up_folders(folder: int, parent: int) -> list[str]:
    """Delete the files of a folder and move its folders to the parent; returns their names."""
    moved = []
    for name in os.listdir(folder):
        if _is_folder(folder, name):
            new_name = temporary_name()
            moved.append(new_name)
            os.rename(name, new_name, src_dir_fd=folder, dst_dir_fd=parent)
        else:
            os.unlink(name, dir_fd=folder)
    return moved


def remove(folder: int, name: str) -> None:
    """Delete a file, a link, or a folder with its content."""
    if not _is_folder(folder, name):
        os.unlink(name, dir_fd=folder)
        return
    # Renamed first: the folder disappears at once, even if deleting it is interrupted.
    hidden = temporary_name()
    os.rename(name, hidden, src_dir_fd=folder, dst_dir_fd=folder)
    child = os.open(hidden, _OPEN_FOLDER, dir_fd=folder)
    try:
        clear_folder(child)
    finally:
        os.close(child)
    os.rmdir(hidden, dir_fd=folder)
