"""Where a dataset is written: a local folder, or a URL that fsspec opens.

A file appears complete or not at all: locally by renaming, in an object store because an upload is
one operation there.
"""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from open_token.dataset.inputs import is_url, open_filesystem
from open_token.storage.files import atomic_file, make_parents, read_optional, remove_file


class OutputFolder(Protocol):
    """A folder of a dataset."""

    location: str

    def read(self, name: str) -> bytes | None:
        """Return a file, or None if there is none."""
        ...

    def write(self, name: str, data: bytes) -> None:
        """Write a small file at once."""
        ...

    def put(self, path: Path, name: str) -> None:
        """Move a finished local file to its place."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file if it is there."""
        ...

    def list(self, folder: str) -> list[str]:
        """Return the names of the files directly in a folder, sorted."""
        ...

    def temporary(self) -> "contextlib.AbstractContextManager[Path]":
        """Make a local folder for files that are not finished; it is removed afterwards."""
        ...

    def path_of(self, name: str) -> str:
        """Return the path or URL of a file for other programs."""
        ...


def open_output(location: str) -> OutputFolder:
    """Return the folder for a path or a URL."""
    return _RemoteFolder(location) if is_url(location) else _LocalFolder(location)


def remove_unfinished(folder: Path) -> None:
    """Remove what killed processes were writing below the folder of records."""
    for path in folder.glob(".part-*"):
        shutil.rmtree(path, ignore_errors=True)


class _LocalFolder:
    def __init__(self, location: str) -> None:
        self.location = location
        self._root = Path(location)

    def read(self, name: str) -> bytes | None:
        return read_optional(self._root / name)

    def write(self, name: str, data: bytes) -> None:
        path = self._root / name
        make_parents(path)
        with atomic_file(path) as out:
            out.write(data)

    def put(self, path: Path, name: str) -> None:
        target = self._root / name
        make_parents(target)
        with path.open("rb") as stream:
            os.fsync(stream.fileno())
        os.replace(path, target)

    def remove(self, name: str) -> None:
        remove_file(self._root / name)

    def list(self, folder: str) -> list[str]:
        parent = self._root / folder
        if not parent.is_dir():
            return []
        return sorted(path.name for path in parent.iterdir() if path.is_file())

    @contextlib.contextmanager
    def temporary(self) -> Iterator[Path]:
        # In the same file system, so that renaming is atomic.
        parent = self._root / "_open_token"
        parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".part-", dir=parent) as folder:
            yield Path(folder)

    def path_of(self, name: str) -> str:
        return str(self._root / name)


class _RemoteFolder:
    def __init__(self, location: str) -> None:
        self.location = location.rstrip("/")
        self._filesystem, self._root = open_filesystem(self.location)

    def _resolve(self, name: str) -> str:
        return f"{self._root}/{name}"

    def read(self, name: str) -> bytes | None:
        try:
            data: bytes = self._filesystem.cat_file(self._resolve(name))
        except FileNotFoundError:
            return None
        return data

    def write(self, name: str, data: bytes) -> None:
        path = self._resolve(name)
        self._filesystem.makedirs(path.rpartition("/")[0], exist_ok=True)
        self._filesystem.pipe_file(path, data)

    def put(self, path: Path, name: str) -> None:
        target = self._resolve(name)
        self._filesystem.makedirs(target.rpartition("/")[0], exist_ok=True)
        self._filesystem.put_file(str(path), target)

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._filesystem.rm_file(self._resolve(name))

    def list(self, folder: str) -> list[str]:
        path = self._resolve(folder)
        if not self._filesystem.exists(path):
            return []
        return sorted(name.rpartition("/")[2] for name in self._filesystem.ls(path, detail=False))

    @contextlib.contextmanager
    def temporary(self) -> Iterator[Path]:
        folder = tempfile.mkdtemp(prefix="open-token-")
        try:
            yield Path(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def path_of(self, name: str) -> str:
        return str(self._filesystem.unstrip_protocol(self._resolve(name)))
