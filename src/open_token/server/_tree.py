"""Folders walked by descriptor, one name at a time and never through a link, so that no change
under way misleads."""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from open_token.server._paths import MOST_DEPTH

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = (
    os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
)  # not blocking: a pipe must not hold us up
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PART = ".part"


@contextlib.contextmanager
def opened_folder(root: Path, parts: Sequence[str] = (), *, make: bool = False) -> Iterator[int]:
    """A folder below the root; with `make`, folders on the way that are not there are made."""
    if make:
        root.mkdir(parents=True, exist_ok=True)
    here = os.open(root, _FOLDER)
    try:
        for name in parts:
            there = _step(here, name, make)
            os.close(here)
            here = there
        yield here
    finally:
        os.close(here)


def _step(here: int, name: str, make: bool) -> int:
    if make:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o755, dir_fd=here)
    try:
        return os.open(name, _FOLDER, dir_fd=here)
    except NotADirectoryError:
        if stat.S_ISLNK(os.stat(name, dir_fd=here, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, "a link") from None
        raise


def open_file(folder: int, name: str) -> int:
    """A plain file in a folder, for reading; anything else is refused."""
    file = os.open(name, _FILE, dir_fd=folder)
    mode = os.fstat(file).st_mode
    if stat.S_ISREG(mode):
        return file
    os.close(file)
    raise OSError(errno.EISDIR if stat.S_ISDIR(mode) else errno.ENXIO, "no plain file")


@contextlib.contextmanager
def new_file(folder: int, name: str, mode: int) -> Iterator[int]:
    """A file that takes its name when it is complete; until then it has another, and on failure
    none."""
    with contextlib.suppress(FileNotFoundError):
        known = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        if not stat.S_ISREG(known):
            raise OSError(errno.EISDIR if stat.S_ISDIR(known) else errno.ELOOP, "no plain file")
    part = fresh_name()
    file = os.open(part, _NEW, mode, dir_fd=folder)
    try:
        try:
            yield file
            os.fsync(file)
        finally:
            os.close(file)
        os.replace(part, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part, dir_fd=folder)
        raise


def fresh_name() -> str:
    """The name of something that is not complete yet, or on its way out; lists leave it out."""
    return f".{secrets.token_hex(8)}{_PART}"


def is_unfinished(name: str) -> bool:
    """Whether that is such a name."""
    return name.startswith(".") and name.endswith(_PART) and len(name) == len(fresh_name())


def is_there(folder: int, name: str) -> bool:
    """Whether a folder has something of that name, be it a link that leads nowhere."""
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def looked(folder: int) -> list[tuple[str, os.stat_result]]:
    """What a folder holds, by name; what vanishes meanwhile is left out."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if not is_unfinished(entry.name):
                with contextlib.suppress(FileNotFoundError):
                    found.append((entry.name, entry.stat(follow_symlinks=False)))
    return sorted(found, key=lambda item: os.fsencode(item[0]))


def walked(
    root: Path, parts: Sequence[str] = ()
) -> Iterator[tuple[tuple[str, ...], os.stat_result]]:
    """Everything below a folder with its way from there, folders before what is in them; links are
    not followed."""
    waiting: list[tuple[str, ...]] = [()]
    while waiting:
        way = waiting.pop()
        try:
            with opened_folder(root, (*parts, *way)) as folder:
                here = looked(folder)
        except OSError:
            if way:
                continue  # taken away, or closed to us, while we walk
            raise
        yield from (((*way, name), facts) for name, facts in here)
        if len(parts) + len(way) < MOST_DEPTH:
            waiting += [
                (*way, name) for name, facts in reversed(here) if stat.S_ISDIR(facts.st_mode)
            ]


def clear(folder: int) -> None:
    """Take away all that is in a folder; inner folders are moved up first, so that depth costs
    nothing."""
    waiting = os.listdir(folder)
    while waiting:
        name = waiting.pop()
        if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=folder)
            continue
        inner = os.open(name, _FOLDER, dir_fd=folder)
        try:
            waiting += _emptied(inner, folder)
        finally:
            os.close(inner)
        os.rmdir(name, dir_fd=folder)


def _emptied(inner: int, outer: int) -> list[str]:
    moved = []
    for name in os.listdir(inner):
        if stat.S_ISDIR(os.stat(name, dir_fd=inner, follow_symlinks=False).st_mode):
            moved.append(fresh_name())
            os.rename(name, moved[-1], src_dir_fd=inner, dst_dir_fd=outer)
        else:
            os.unlink(name, dir_fd=inner)
    return moved


def take_away(folder: int, name: str) -> None:
    """Delete a file, a link, or a folder with all that is in it."""
    if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=folder)
        return
    hidden = fresh_name()
    os.rename(name, hidden, src_dir_fd=folder, dst_dir_fd=folder)
    inner = os.open(hidden, _FOLDER, dir_fd=folder)
    try:
        clear(inner)
    finally:
        os.close(inner)
    os.rmdir(hidden, dir_fd=folder)
