"""Workspaces: the files of a session, in a folder that no path can leave."""

import contextlib
import hashlib
import io
import os
import re
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO

from msgspec import Struct

from open_token.model.log_events import Json
from open_token.server.core.workspace_fs import (
    check_name,
    clear_folder,
    create_file,
    exists,
    invalid_path,
    list_entries,
    open_file,
    open_folder,
    remove,
    split_path,
    temporary_name,
    translate_os_errors,
    walk_tree,
)
from open_token.server.errors import ApiError
from open_token.storage.files import read_optional, write_atomic

if TYPE_CHECKING:
    from open_token.server.core.services import Services

_SAFE_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")
_MAX_NAMED_PATHS = 100
"""Paths in one `workspace:files_changed`; beyond that a client lists the files itself."""
_MAX_CACHED = 1000
_CHUNK_SIZE = 1 << 20
_BINDING_SUFFIX = ".folder"
"""Ends the name of a file beside the workspaces that names the folder of a session; no workspace
has a dot in its name."""
_ENTRY_TYPES = {stat.S_IFDIR: "directory", stat.S_IFREG: "file", stat.S_IFLNK: "link"}


class DirEntry(Struct, frozen=True, kw_only=True):
    """An entry of a listing, as clients see it."""

    name: str
    path: str
    type: str
    is_dir: bool
    size: int
    created_at: float
    """When it was last changed: seconds since 1970."""
    tags: list[str] = []


class Workspace:
    """The folder of one session. Its methods block, so coroutines call them in a thread."""

    def __init__(self, folder: Path, most_bytes: int = 1 << 30, *, is_own: bool = True) -> None:
        self.folder = folder
        self.most_bytes = most_bytes
        self.is_own = is_own
        """Whether the folder belongs to the session; a folder of the user is neither limited as a
        whole nor exported nor deleted."""
        self._used_bytes: int | None = None
        """The total size of the files; None when it must be counted again."""
        self._lock = threading.Lock()

    def resolve(self, relative: str) -> Path:
        """Return the absolute path, for display only; to open a file use the other methods."""
        parts = split_path(relative)
        if not parts:
            return self.folder
        with translate_os_errors(), open_folder(self.folder, parts[:-1]) as folder:
            status = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                raise ApiError(400, "links are not followed", "bad_path")
        return self.folder.joinpath(*parts)

    def list(self, folder: str = "") -> list[DirEntry]:
        """Return the entries of a folder, sorted by name."""
        parts = split_path(folder)
        if not parts and not self.folder.exists():
            return []
        with translate_os_errors(), open_folder(self.folder, parts) as opened:
            return [_build_entry((*parts, name), status) for name, status in list_entries(opened)]

    def files(self, folder: str = "") -> Iterator[DirEntry]:
        """Yield everything below a folder; links are listed but not followed."""
        parts = split_path(folder)
        if not parts and not self.folder.exists():
            return
        with translate_os_errors():
            for path, status in walk_tree(self.folder, parts):
                yield _build_entry((*parts, *path), status)

    @contextlib.contextmanager
    def opened(self, path: str) -> Iterator[tuple[BinaryIO, int]]:
        """Open a file for reading, and close it at the end; yields the file and its size."""
        file, size = self.open(path)
        with file:
            yield file, size

    def open(self, path: str) -> tuple[BinaryIO, int]:
        """Open a file for reading; returns the file and its size."""
        *folders, name = self._split_file_path(path)
        with translate_os_errors(), open_folder(self.folder, folders) as folder:
            file = open_file(folder, name)
        size = os.fstat(file).st_size
        # A sparse file takes no space on disk, but reading or sending it would.
        if size > self.most_bytes:
            os.close(file)
            raise ApiError(413, "the file is too large", "too_big")
        return os.fdopen(file, "rb"), size

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        with self.opened(path) as (file, _):
            return file.read()

    def write(self, path: str, data: bytes | IO[bytes], *, executable: bool = False) -> None:
        """Write a file atomically; missing folders are created."""
        *folders, name = self._split_file_path(path)
        source = io.BytesIO(data) if isinstance(data, bytes) else data
        mode = 0o755 if executable else 0o644
        # Locked from the measurement to the sum: two uploads at once must not both use the same
        # free bytes.
        with self._lock, translate_os_errors():
            free = self._count_free_bytes()
            with open_folder(self.folder, folders, make=True) as folder:
                replaced = _get_size(folder, name)
                with create_file(folder, name, mode) as file:
                    written = self._copy_stream(source, file, free + replaced)
            self._used_bytes = (self._used_bytes or 0) + written - replaced

    def delete(self, path: str) -> None:
        """Delete a file, or a folder with its content."""
        *folders, name = self._split_file_path(path)
        with self._lock, translate_os_errors(), open_folder(self.folder, folders) as folder:
            remove(folder, name)
            self._used_bytes = None

    def rename(self, path: str, new_name: str) -> str:
        """Rename a file or folder in place; returns its new path."""
        *folders, name = self._split_file_path(path)
        target = check_name(new_name)
        with self._lock, translate_os_errors(), open_folder(self.folder, folders) as folder:
            _require_free_name(folder, target)
            os.rename(name, target, src_dir_fd=folder, dst_dir_fd=folder)
        return "/".join((*folders, target))

    def copy(self, path: str, new_name: str) -> str:
        """Copy a file or folder atomically within its folder, without links.

        Returns the path of the copy."""
        *folders, name = self._split_file_path(path)
        target = check_name(new_name)
        with self._lock, translate_os_errors(), open_folder(self.folder, folders) as folder:
            _require_free_name(folder, target)
            temporary = temporary_name()
            try:
                self._copy_tree((*folders, name), (*folders, temporary))
                os.rename(temporary, target, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with contextlib.suppress(OSError):
                    remove(folder, temporary)
                raise
            finally:
                self._used_bytes = None
        return "/".join((*folders, target))

    def remove_all(self) -> None:
        """Delete the whole workspace."""
        with self._lock, translate_os_errors(), contextlib.suppress(FileNotFoundError):
            with open_folder(self.folder) as folder:
                clear_folder(folder)
            self.folder.rmdir()
            self._used_bytes = None

    def make(self) -> Path:
        """Create the folder if necessary and return it, as for a command that runs in it."""
        with translate_os_errors():
            self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder

    def count_bytes(self) -> int:
        """Return the size of the files; those in a folder of the user do not count."""
        with self._lock, translate_os_errors():
            return self.most_bytes - self._count_free_bytes()

    def recount(self) -> None:
        """Count the size again before the next write: a command may have changed files."""
        self._used_bytes = None

    def _split_file_path(self, path: str) -> tuple[str, ...]:
        parts = split_path(path)
        if not parts:
            raise invalid_path("it is the workspace itself")
        return parts

    def _count_free_bytes(self) -> int:
        if not self.is_own:
            return self.most_bytes
        if self._used_bytes is None:
            self._used_bytes = 0
            if self.folder.exists():
                for _, status in walk_tree(self.folder):
                    if stat.S_ISREG(status.st_mode):
                        self._used_bytes += status.st_size
        return self.most_bytes - self._used_bytes

    def _copy_stream(self, source: IO[bytes], file: int, free: int) -> int:
        """Copy a stream to a file; returns the number of bytes."""
        written = 0
        with open(file, "wb", closefd=False) as out:
            while chunk := source.read(_CHUNK_SIZE):
                written += len(chunk)
                if written > free:
                    raise ApiError(
                        413,
                        f"workspace limit of {self.most_bytes} bytes exceeded",
                        "workspace_full",
                    )
                out.write(chunk)
        return written

    def _copy_tree(self, source: tuple[str, ...], target: tuple[str, ...]) -> None:
        with open_folder(self.folder, source[:-1]) as folder:
            status = os.stat(source[-1], dir_fd=folder, follow_symlinks=False)
        self._used_bytes = None
        free = self._count_free_bytes()
        if not stat.S_ISDIR(status.st_mode):
            self._copy_file(source, target, free)
            return
        self._make_folder(target)
        # A list first: a folder that is copied into itself would grow while it is walked.
        for path, status in list(walk_tree(self.folder, source)):
            source_path = (*source, *path)
            target_path = (*target, *path)
            if stat.S_ISDIR(status.st_mode):
                self._make_folder(target_path)
            elif stat.S_ISREG(status.st_mode):
                free -= self._copy_file(source_path, target_path, free)

    def _make_folder(self, parts: tuple[str, ...]) -> None:
        with open_folder(self.folder, parts, make=True):
            pass

    def _copy_file(self, source: tuple[str, ...], target: tuple[str, ...], free: int) -> int:
        *source_folder, source_name = source
        *target_folder, target_name = target
        with open_folder(self.folder, tuple(source_folder)) as folder:
            file = os.fdopen(open_file(folder, source_name), "rb")
        with file, open_folder(self.folder, tuple(target_folder)) as folder:
            # Permissions are copied, but no set-user-id and no sticky bit.
            status = os.fstat(file.fileno())
            permissions = stat.S_IMODE(status.st_mode) & 0o777
            with create_file(folder, target_name, permissions) as out:
                return self._copy_stream(file, out, free)


class Workspaces:
    """The workspaces of all sessions."""

    def __init__(self, folder: Path, most_bytes: int = 1 << 30) -> None:
        self.folder = folder
        self._max_bytes = most_bytes
        self._cache: dict[str, Workspace] = {}

    def get(self, session_id: str) -> Workspace:
        """Return the workspace of a session; its folder is created by the first write."""
        workspace = self._cache.get(session_id)
        if workspace is None:
            if len(self._cache) >= _MAX_CACHED:
                self._cache.clear()
            workspace = self._open(_folder_name(session_id))
            self._cache[session_id] = workspace
        return workspace

    def bind(self, session_id: str, folder: Path) -> None:
        """Let a session work in a folder of the user, from now on."""
        name = _folder_name(session_id)
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomic(self.folder / f"{name}{_BINDING_SUFFIX}", os.fsencode(folder), 0o600)
        self._cache.pop(session_id, None)

    def remove(self, session_id: str) -> None:
        """Delete the workspace of a session; a folder of the user is left alone."""
        workspace = self.get(session_id)
        if workspace.is_own:
            workspace.remove_all()
        else:
            self.release(session_id)

    def release(self, session_id: str) -> None:
        """End the work of a session in a folder of the user."""
        binding = self.folder / f"{_folder_name(session_id)}{_BINDING_SUFFIX}"
        with translate_os_errors():
            binding.unlink(missing_ok=True)
        self._cache.pop(session_id, None)

    def _open(self, name: str) -> Workspace:
        with translate_os_errors():
            bound = read_optional(self.folder / f"{name}{_BINDING_SUFFIX}")
        if bound is None:
            return Workspace(self.folder / name, self._max_bytes)
        return Workspace(Path(os.fsdecode(bound)), self._max_bytes, is_own=False)


async def publish_files_changed(
    services: "Services", owner: str, session_id: str, action: str, *paths: str
) -> None:
    """Notify the subscribers of a session that files have changed."""
    payload: Json = {
        "session_id": session_id,
        "file_path": paths[0] if paths else None,
        "action": action,
        "paths": list(paths[:_MAX_NAMED_PATHS]),
    }
    if len(paths) > _MAX_NAMED_PATHS:
        payload["more"] = len(paths) - _MAX_NAMED_PATHS
    step = ("signal.sent", {"event": "workspace:files_changed", "payload": payload})
    await services.journal.write(owner, session_id, lambda _: [step])


def _folder_name(session_id: str) -> str:
    if _SAFE_ID.fullmatch(session_id):
        return session_id
    return "id-" + hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()


def _require_free_name(folder: int, name: str) -> None:
    if exists(folder, name):
        raise ApiError(409, "the name already exists", "exists")


def _get_size(folder: int, name: str) -> int:
    with contextlib.suppress(FileNotFoundError):
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_size
    return 0


def _build_entry(parts: tuple[str, ...], status: os.stat_result) -> DirEntry:
    kind = _ENTRY_TYPES.get(stat.S_IFMT(status.st_mode), "other")
    names = [os.fsencode(part).decode("utf-8", "replace") for part in parts]
    return DirEntry(
        name=names[-1],
        path="/".join(names),
        type=kind,
        is_dir=kind == "directory",
        size=status.st_size if kind == "file" else 0,
        created_at=round(status.st_mtime, 3),
    )
