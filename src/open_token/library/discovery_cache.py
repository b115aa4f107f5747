"""What discovery saw in files before, so that an unchanged file need not be opened again."""

import contextlib
from collections.abc import Collection
from pathlib import Path

import msgspec

from open_token import __version__
from open_token.errors import OutputError
from open_token.storage.files import make_folder, read_optional, write_atomic

NAME = "sessions.json"
MAX_FILES = 20_000
_SCHEMA = "open-token/seen/1"


class CachedRow(msgspec.Struct, array_like=True, frozen=True):
    """What a list shows of a session."""

    id: str | None = None
    cwd: str | None = None
    title: str | None = None
    words: str | None = None
    conversation: str | None = None
    """Its id in a file that may hold several."""
    modified: float | None = None
    messages: int | None = None
    cwd_sha256: str | None = None


class CachedFile(msgspec.Struct, array_like=True, frozen=True):
    """A file as it was when it was last opened, and the sessions in it."""

    size: int
    mtime_ns: int
    reader: str
    rows: list[CachedRow]


class _CacheFile(msgspec.Struct):
    schema: str
    version: str
    files: dict[str, CachedFile]


class DiscoveryCache:
    """A small file in the cache directory: loaded lazily, written atomically, ignored if damaged."""

    def __init__(self, folder: Path | None) -> None:
        self._path = folder / NAME if folder else None
        self._files: dict[str, CachedFile] | None = None
        self._is_changed = False

    @property
    def files(self) -> dict[str, CachedFile]:
        """The known files by path."""
        if self._files is None:
            self._files = self._load()
        return self._files

    def _load(self) -> dict[str, CachedFile]:
        raw = read_optional(self._path) if self._path else None
        with contextlib.suppress(msgspec.DecodeError, RecursionError):
            file = msgspec.json.decode(raw or b"", type=_CacheFile)
            # Another version may see more in a file.
            if file.schema == _SCHEMA and file.version == __version__:
                return file.files
        return {}

    def recall(self, name: str, size: int, mtime_ns: int) -> CachedFile | None:
        """Return what a file held, if it has not changed since."""
        cached = self.files.get(name)
        if cached is None or cached.size != size or cached.mtime_ns != mtime_ns:
            return None
        return cached

    def keep(self, name: str, cached: CachedFile) -> None:
        """Remember a file."""
        self.files[name] = cached
        self._is_changed = True

    def save(self, names: Collection[str]) -> None:
        """Write what is known of these files, the newest if they are very many; failing is fine."""
        if not self._is_changed or self._path is None or not make_folder(self._path.parent):
            return
        known: list[tuple[int, str]] = []
        for name in names:
            if name in self.files:
                known.append((self.files[name].mtime_ns, name))
        known.sort()
        newest = {name: self.files[name] for _, name in known[-MAX_FILES:]}
        file = _CacheFile(_SCHEMA, __version__, newest)
        with contextlib.suppress(OutputError, UnicodeEncodeError):
            write_atomic(self._path, msgspec.json.encode(file), 0o600)
            self._is_changed = False
