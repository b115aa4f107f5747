"""Where agents store sessions on this machine, and what a `stat` says about the files there."""

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

_DATABASE_SUFFIXES = (".db", ".sqlite", ".sqlite3", ".vscdb")
# Directories of the home that an environment variable may move elsewhere.
_MOVABLE = {
    ".config": "XDG_CONFIG_HOME",
    ".local/share": "XDG_DATA_HOME",
    "AppData/Roaming": "APPDATA",
    "AppData/Local": "LOCALAPPDATA",
}
# Files below a directory that are counted; more are ignored.
_MAX_FILES = 10_000


class Place(NamedTuple):
    """A directory and a glob below it; a pattern that ends in a slash matches directories."""

    root: Path
    pattern: str
    is_here: bool = False
    """Whether the root is the working directory."""


class FileFacts(NamedTuple):
    """Size, last change and identity of a file or a directory."""

    size: int
    mtime_ns: int
    key: object


def resolve_places(
    patterns: Iterable[str], env: Mapping[str, str], home: Path, cwd: Path | None
) -> Iterator[Place]:
    """Resolve the patterns of a format: below the home directory, `$VARIABLE/...`, or `./...`."""
    for pattern in patterns:
        first, _, rest = pattern.partition("/")
        if pattern.startswith("$"):
            root = env.get(first[1:])
            if root:
                yield Place(_resolve_folder(root, home, cwd), rest)
        elif first == ".":
            if cwd is not None:
                yield Place(cwd, rest, is_here=True)
        else:
            yield Place(home, pattern)
            yield from _find_moved(pattern, env, home)


def _find_moved(pattern: str, env: Mapping[str, str], home: Path) -> Iterator[Place]:
    """Yield the same pattern below a directory that a variable moves; relative values are ignored,
    as agents ignore them."""
    for folder, variable in _MOVABLE.items():
        root = env.get(variable)
        if not root or not pattern.startswith(f"{folder}/"):
            continue
        moved = Path(root)
        # Not os.path.isabs: before Python 3.13 it takes a path of Windows without a drive for one.
        if moved.is_absolute() and moved != home / folder:
            yield Place(moved, pattern.removeprefix(f"{folder}/"))


def _resolve_folder(written: str, home: Path, cwd: Path | None) -> Path:
    if written.startswith(("~/", "~\\")):
        path = home / written[2:]
    else:
        path = Path(written)
    return path if cwd is None else cwd / path


def find_matching(place: Place) -> Iterator[tuple[Path, FileFacts]]:
    """Yield the non-empty files of a place, or its directories if it is a place of directories."""
    pattern = place.pattern.rstrip("/")
    wants_folder = place.pattern.endswith("/")
    try:
        if pattern:
            paths = list(place.root.glob(pattern))
        else:
            paths = [place.root]
    except (OSError, ValueError):
        return
    for path in paths:
        facts = read_file_facts(path, wants_folder)
        if facts:
            yield path, facts


def find_fixed_folder(place: Place) -> Path:
    """Return the deepest directory that everything at a place is in."""
    folder = place.root
    for part in place.pattern.rstrip("/").split("/")[:-1]:
        if "*" in part or "?" in part:
            break
        folder /= part
    return folder


def read_file_facts(path: Path, wants_folder: bool = False) -> FileFacts | None:
    """Return the facts of a non-empty file, or of a directory; None if it is no such thing."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    if wants_folder:
        if stat.S_ISDIR(status.st_mode):
            return _read_folder_facts(path, status)
        return None
    if not status.st_size or not stat.S_ISREG(status.st_mode):
        return None
    size = status.st_size
    mtime_ns = status.st_mtime_ns
    if path.suffix in _DATABASE_SUFFIXES:
        # The newest pages of a database in use are in its write-ahead log.
        with contextlib.suppress(OSError):
            log = Path(f"{path}-wal").stat()
            size += log.st_size
            mtime_ns = max(mtime_ns, log.st_mtime_ns)
    return FileFacts(size, mtime_ns, _identify(path, status))


def _identify(path: Path, status: os.stat_result) -> object:
    """Return a key that is the same for every name of a file, where the system has inodes."""
    if status.st_ino:
        return (status.st_dev, status.st_ino)
    return str(path)


def _read_folder_facts(folder: Path, status: os.stat_result) -> FileFacts | None:
    size = 0
    mtime_ns = 0
    count = 0
    for _, file_status in _walk_files(folder):
        size += file_status.st_size
        mtime_ns = max(mtime_ns, file_status.st_mtime_ns)
        count += 1
    if count:
        return FileFacts(size, mtime_ns, _identify(folder, status))
    return None


def _walk_files(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the regular files below a directory with their status, up to a limit."""
    remaining = _MAX_FILES
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names)[:remaining]:
            path = os.path.join(parent, name)
            try:
                status = os.lstat(path)
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode):
                remaining -= 1
                yield path, status
        if remaining <= 0:
            return


def compute_stamp(paths: Iterable[str]) -> tuple[str, int]:
    """Return a hash over names, sizes and times of files, and the newest of those times.

    A path that ends in a slash stands for all files below that directory.
    """
    digest = hashlib.sha256()
    newest = 0
    for path in paths:
        digest.update(f"{path}\0".encode("utf-8", "surrogatepass"))
        if path.endswith("/"):
            files = _walk_files(Path(path))
        else:
            files = _stat_one(path)
        for name, status in files:
            line = f"{name}\0{status.st_size}\0{status.st_mtime_ns}\0"
            digest.update(line.encode("utf-8", "surrogatepass"))
            newest = max(newest, status.st_mtime_ns)
    return digest.hexdigest()[:32], newest


def _stat_one(path: str) -> Iterator[tuple[str, os.stat_result]]:
    with contextlib.suppress(OSError, ValueError):
        yield path, os.stat(path)


def extract_session_name(path: Path, place: Place) -> str:
    """Return what distinguishes a session from its neighbours: the last wildcard part of its path."""
    parts = place.pattern.rstrip("/").split("/")
    depth = None
    for number, part in enumerate(reversed(parts)):
        if "*" in part or "?" in part:
            depth = number
            break
    if depth is None:
        if place.is_here:
            return path.parent.name
        return path.stem
    if depth:
        return path.parents[depth - 1].name
    if place.pattern.endswith("/"):
        return path.name
    return extract_session_id(path)


def extract_session_id(path: Path) -> str:
    """Return the UUID at the end of a name such as rollout-<time>-<uuid>, else the name.

    A compressed session has the name that it had before, with one more ending.
    """
    stem = path.stem
    if path.suffix in (".gz", ".zst"):
        stem = Path(stem).stem
    has_uuid = len(stem) > 36 and stem[-36:].count("-") == 4
    return stem[-36:] if has_uuid else stem


def path_to_text(path: Path) -> str:
    """Return a path as valid Unicode, whatever bytes its name is made of."""
    return str(path).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
