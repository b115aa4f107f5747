"""The places in which readers look for conversations, and what lies there."""

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

_DATABASES = (".db", ".sqlite", ".sqlite3", ".vscdb")
_MOVED = {
    ".config": "XDG_CONFIG_HOME",
    ".local/share": "XDG_DATA_HOME",
    "AppData/Roaming": "APPDATA",
    "AppData/Local": "LOCALAPPDATA",
}
"""Folders of a home that may lie elsewhere, and which variable of the environment tells where."""
_ENTRIES = 10_000
"""A folder with more files than this is not counted to its end."""


class Place(NamedTuple):
    """Where to look: below which folder, for what; a pattern that ends in a slash means folders."""

    root: Path
    pattern: str
    is_here: bool = False
    """Whether it is a place in the working folder."""


class Facts(NamedTuple):
    """What a look from outside tells of a file or a folder: its bytes, its last change, what it is
    one of."""

    size: int
    mtime_ns: int
    key: object


def places(
    written: Iterable[str], env: Mapping[str, str], home: Path, cwd: Path | None
) -> Iterator[Place]:
    """The places that a reader names: below home, as `$VAR/...` below a folder of the environment,
    as `./...` here."""
    for place in written:
        variable, _, below = place.partition("/")
        if place.startswith("$"):
            if root := env.get(variable[1:]):
                yield Place(_folder(root, home, cwd), below)
        elif variable == ".":
            if cwd is not None:
                yield Place(cwd, below, is_here=True)
        else:
            yield Place(home, place)
            yield from _moved(place, env, home)


def _moved(place: str, env: Mapping[str, str], home: Path) -> Iterator[Place]:
    """The same place below a folder of the home that lies elsewhere; as runtimes do, only by a
    whole path."""
    for folder, variable in _MOVED.items():
        root = env.get(variable)
        if (
            root
            and place.startswith(f"{folder}/")
            and os.path.isabs(root)
            and Path(root) != home / folder
        ):
            yield Place(Path(root), place.removeprefix(f"{folder}/"))


def _folder(written: str, home: Path, cwd: Path | None) -> Path:
    path = home / written[2:] if written.startswith(("~/", "~\\")) else Path(written)
    return path if cwd is None else cwd / path


def matching(place: Place) -> Iterator[tuple[Path, Facts]]:
    """What lies at a place: files with bytes, or folders where the place means folders."""
    pattern = place.pattern.rstrip("/")
    wants_folder = place.pattern.endswith("/")
    try:
        paths = list(place.root.glob(pattern)) if pattern else [place.root]
    except (OSError, ValueError):
        return
    for path in paths:
        if facts := facts_of(path, wants_folder):
            yield path, facts


def facts_of(path: Path, wants_folder: bool = False) -> Facts | None:
    """The facts of a file with bytes in it, or of a folder; None when it is no such thing."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    if wants_folder:
        return _of_folder(path, found) if stat.S_ISDIR(found.st_mode) else None
    if not found.st_size or not stat.S_ISREG(found.st_mode):
        return None
    size, changed = found.st_size, found.st_mtime_ns
    if path.suffix in _DATABASES:
        # The newest pages of a database in use are in a log beside it.
        size, changed = _with(size, changed, Path(f"{path}-wal"))
    return Facts(size, changed, _key(path, found))


def _key(path: Path, found: os.stat_result) -> object:
    """The same for every name of a file, where the system tells."""
    return (found.st_dev, found.st_ino) if found.st_ino else str(path)


def _with(size: int, changed: int, path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return size, changed
    return size + found.st_size, max(changed, found.st_mtime_ns)


def _of_folder(folder: Path, found: os.stat_result) -> Facts | None:
    size, changed, count = 0, 0, 0
    for _, of_file in _files(folder):
        size += of_file.st_size
        changed = max(changed, of_file.st_mtime_ns)
        count += 1
    return Facts(size, changed, _key(folder, found)) if count else None


def _files(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """The files below a folder with their facts, up to a bound; links are passed over."""
    left = _ENTRIES
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names)[:left]:
            path = os.path.join(place, name)
            try:
                found = os.lstat(path)
            except OSError:
                continue
            if stat.S_ISREG(found.st_mode):
                left -= 1
                yield path, found
        if left <= 0:
            return


def stamp_of(paths: Iterable[str]) -> tuple[str, int]:
    """A hash over names, sizes and times of files, and of those in folders (which end in a slash);
    the newest time."""
    told = hashlib.sha256()
    newest = 0
    for path in paths:
        told.update(f"{path}\0".encode("utf-8", "surrogatepass"))
        for name, found in _files(Path(path)) if path.endswith("/") else _one(path):
            told.update(
                f"{name}\0{found.st_size}\0{found.st_mtime_ns}\0".encode("utf-8", "surrogatepass")
            )
            newest = max(newest, found.st_mtime_ns)
    return told.hexdigest()[:32], newest


def _one(path: str) -> Iterator[tuple[str, os.stat_result]]:
    with contextlib.suppress(OSError, ValueError):
        yield path, os.stat(path)


def name_in(path: Path, place: Place) -> str:
    """What tells a conversation from its neighbours: the last part of its path that the pattern
    leaves open."""
    parts = place.pattern.rstrip("/").split("/")
    depth = next((n for n, part in enumerate(reversed(parts)) if "*" in part or "?" in part), None)
    if depth is None:
        return path.parent.name if place.is_here else path.stem
    if depth:
        return path.parents[depth - 1].name
    return path.name if place.pattern.endswith("/") else id_in(path.stem)


def id_in(stem: str) -> str:
    """The session id at the end of a name such as rollout-<time>-<id>."""
    return stem[-36:] if len(stem) > 36 and stem[-36:].count("-") == 4 else stem


def name_of(path: Path) -> str:
    """A path as text that any file can hold, also when its name is no valid Unicode."""
    return str(path).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
