"""The files of a session: one folder each, out of which no path leads."""

import contextlib
import hashlib
import io
import os
import re
import stat
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO

from msgspec import Struct

from open_token.model.log_events import Json
from open_token.server._paths import bad_path, name_of, parts_of, refusing
from open_token.server._tree import (
    clear,
    fresh_name,
    is_there,
    looked,
    new_file,
    open_file,
    opened_folder,
    take_away,
    walked,
)
from open_token.server.clock import iso
from open_token.server.refusals import Refused

if TYPE_CHECKING:
    from open_token.server.services import Services

_PLAIN_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")
_MOST_NAMED = 100
"""Paths that one `workspace:files_changed` names; a client that sees more looks for itself."""


class DirEntry(Struct, frozen=True, kw_only=True):
    """One line of a listing, in the words of all clients."""

    name: str
    path: str
    type: str
    is_dir: bool
    size: int
    created_at: str
    tags: list[str] = []


class Workspace:
    """The folder of one session; its calls wait for the disk, so loops make them in a thread."""

    def __init__(self, folder: Path, most_bytes: int = 1 << 30) -> None:
        self.folder = folder
        self.most_bytes = most_bytes
        self._used: int | None = None
        self._lock = threading.Lock()

    def resolve(self, relative: str) -> Path:
        """Where something lies on this machine, for one who only tells it; to open it, use the
        other calls."""
        parts = parts_of(relative)
        if not parts:
            return self.folder
        with refusing(), opened_folder(self.folder, parts[:-1]) as folder:
            if stat.S_ISLNK(os.stat(parts[-1], dir_fd=folder, follow_symlinks=False).st_mode):
                raise Refused(400, "links are not followed", "bad_path")
        return self.folder.joinpath(*parts)

    def list(self, folder: str = "") -> list[DirEntry]:
        """What a folder holds, by name; the root of a workspace that has nothing yet is empty."""
        parts = parts_of(folder)
        if not parts and not self.folder.exists():
            return []
        with refusing(), opened_folder(self.folder, parts) as here:
            return [_entry((*parts, name), facts) for name, facts in looked(here)]

    def files(self, folder: str = "") -> Iterator[DirEntry]:
        """Every file and folder below one, however deep; links are listed as such and lead
        nowhere."""
        parts = parts_of(folder)
        if not parts and not self.folder.exists():
            return
        with refusing():
            for way, facts in walked(self.folder, parts):
                yield _entry((*parts, *way), facts)

    @contextlib.contextmanager
    def opened(self, path: str) -> Iterator[tuple[BinaryIO, int]]:
        """A file for reading, and its size; one that says it is bigger than a workspace may be is
        refused."""
        file, size = self.open(path)
        with file:
            yield file, size

    def open(self, path: str) -> tuple[BinaryIO, int]:
        """The same for one who closes it later."""
        *folders, name = self._of_file(path)
        with refusing(), opened_folder(self.folder, folders) as folder:
            file = open_file(folder, name)
        size = os.fstat(file).st_size
        if size > self.most_bytes:  # a file of holes costs nothing to make and everything to send
            os.close(file)
            raise Refused(413, "that file is too big", "too_big")
        return os.fdopen(file, "rb"), size

    def read(self, path: str) -> bytes:
        """The bytes of a file."""
        with self.opened(path) as (file, _):
            return file.read()

    def write(self, path: str, data: bytes | IO[bytes], *, executable: bool = False) -> None:
        """Put a file there, whole or not at all; folders on the way are made."""
        *folders, name = self._of_file(path)
        source = io.BytesIO(data) if isinstance(data, bytes) else data
        with self._lock, refusing():
            room = self._room()
            with opened_folder(self.folder, folders, make=True) as folder:
                before = _size(folder, name)
                with new_file(folder, name, 0o755 if executable else 0o644) as file:
                    written = self._pour(source, file, room + before)
            self._used = (self._used or 0) + written - before

    def delete(self, path: str) -> None:
        """Take away a file, or a folder with all that is in it."""
        *folders, name = self._of_file(path)
        with self._lock, refusing(), opened_folder(self.folder, folders) as folder:
            take_away(folder, name)
            self._used = None

    def rename(self, path: str, new_name: str) -> str:
        """Give a file or folder another name where it is; tells its new path."""
        *folders, name = self._of_file(path)
        target = name_of(new_name)
        with self._lock, refusing(), opened_folder(self.folder, folders) as folder:
            _must_be_free(folder, target)
            os.rename(name, target, src_dir_fd=folder, dst_dir_fd=folder)
        return "/".join((*folders, target))

    def copy(self, path: str, new_name: str) -> str:
        """Copy a file or folder beside itself, whole or not at all; links are left out. Tells the
        copy's path."""
        *folders, name = self._of_file(path)
        target = name_of(new_name)
        with self._lock, refusing(), opened_folder(self.folder, folders) as folder:
            _must_be_free(folder, target)
            part = fresh_name()
            try:
                self._copied((*folders, name), (*folders, part))
                os.rename(part, target, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with contextlib.suppress(OSError):
                    take_away(folder, part)
                raise
            finally:
                self._used = None
        return "/".join((*folders, target))

    def remove_all(self) -> None:
        """Take the whole workspace away."""
        with self._lock, refusing(), contextlib.suppress(FileNotFoundError):
            with opened_folder(self.folder) as folder:
                clear(folder)
            self.folder.rmdir()
            self._used = None

    def make(self) -> Path:
        """The folder itself, made if need be, as for a command that works in it."""
        with refusing():
            self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder

    def recount(self) -> None:
        """Something wrote there on its own: look again before the next write."""
        self._used = None

    def _of_file(self, path: str) -> tuple[str, ...]:
        parts = parts_of(path)
        if not parts:
            raise bad_path("it names the workspace itself")
        return parts

    def _room(self) -> int:
        if self._used is None:
            found = walked(self.folder) if self.folder.exists() else iter(())
            self._used = sum(facts.st_size for _, facts in found if stat.S_ISREG(facts.st_mode))
        return self.most_bytes - self._used

    def _full(self) -> Refused:
        return Refused(
            413,
            f"the workspace may hold {self.most_bytes} bytes, and this is more",
            "workspace_full",
        )

    def _pour(self, source: IO[bytes], file: int, room: int) -> int:
        written = 0
        with open(file, "wb", closefd=False) as out:
            while piece := source.read(1 << 20):
                written += len(piece)
                if written > room:
                    raise self._full()
                out.write(piece)
        return written

    def _copied(self, source: tuple[str, ...], target: tuple[str, ...]) -> None:
        with opened_folder(self.folder, source[:-1]) as folder:
            is_folder = stat.S_ISDIR(
                os.stat(source[-1], dir_fd=folder, follow_symlinks=False).st_mode
            )
        self._used = None
        room = self._room()
        if not is_folder:
            self._copied_file(source, target, room)
            return
        with opened_folder(self.folder, target, make=True):
            pass
        for way, facts in list(walked(self.folder, source)):
            if stat.S_ISDIR(facts.st_mode):
                with opened_folder(self.folder, (*target, *way), make=True):
                    pass
            elif stat.S_ISREG(facts.st_mode):
                room -= self._copied_file((*source, *way), (*target, *way), room)

    def _copied_file(self, source: tuple[str, ...], target: tuple[str, ...], room: int) -> int:
        with opened_folder(self.folder, source[:-1]) as folder:
            file = os.fdopen(open_file(folder, source[-1]), "rb")
        with file, opened_folder(self.folder, target[:-1]) as folder:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o777
            with new_file(folder, target[-1], mode) as out:
                return self._pour(file, out, room)


class Workspaces:
    """The folders of all sessions."""

    def __init__(self, folder: Path, most_bytes: int = 1 << 30) -> None:
        self.folder = folder
        self._most_bytes = most_bytes
        self._known: dict[str, Workspace] = {}

    def of(self, session_id: str) -> Workspace:
        """The workspace of a session; its folder is made when something is written."""
        if (known := self._known.get(session_id)) is None:
            if len(self._known) >= 1000:
                self._known.clear()
            known = Workspace(self.folder / _folder_name(session_id), self._most_bytes)
            self._known[session_id] = known
        return known


async def tell_changed(
    services: "Services", owner: str, session_id: str, action: str, *paths: str
) -> None:
    """Tell those who watch a session that files of it changed."""
    payload: Json = {"session_id": session_id, "action": action, "paths": list(paths[:_MOST_NAMED])}
    if len(paths) > _MOST_NAMED:
        payload["more"] = len(paths) - _MOST_NAMED
    step = ("signal.sent", {"event": "workspace:files_changed", "payload": payload})
    await services.journal.write(owner, session_id, lambda _: [step])


def _folder_name(session_id: str) -> str:
    if _PLAIN_ID.fullmatch(session_id):
        return session_id
    return "id-" + hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()


def _must_be_free(folder: int, name: str) -> None:
    if is_there(folder, name):
        raise Refused(409, "there is something of that name already", "exists")


def _size(folder: int, name: str) -> int:
    with contextlib.suppress(FileNotFoundError):
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_size
    return 0


def _entry(parts: tuple[str, ...], facts: os.stat_result) -> DirEntry:
    mode = facts.st_mode
    kind = {stat.S_IFDIR: "directory", stat.S_IFREG: "file", stat.S_IFLNK: "link"}.get(
        stat.S_IFMT(mode), "other"
    )
    names = [os.fsencode(part).decode("utf-8", "replace") for part in parts]
    return DirEntry(
        name=names[-1],
        path="/".join(names),
        type=kind,
        is_dir=kind == "directory",
        size=facts.st_size if kind == "file" else 0,
        created_at=_when(facts.st_mtime),
    )


def _when(seconds: float) -> str:
    try:
        return iso(datetime.fromtimestamp(seconds, UTC))
    except (ValueError, OverflowError, OSError):  # a time that somebody set to nonsense
        return iso(datetime.fromtimestamp(0, UTC))
