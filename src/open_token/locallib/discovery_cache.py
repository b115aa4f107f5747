"""What was seen in files before, so that a file that has not changed need not be opened again."""

import contextlib
from collections.abc import Collection
from pathlib import Path

import msgspec

from open_token import __version__
from open_token.errors import OutputError
from open_token.storage.files import make_folder, read_optional, write_whole

NAME = "sessions.json"
MOST = 20_000
_SCHEMA = "open-token/seen/1"


class Row(msgspec.Struct, array_like=True, frozen=True):
    """What a list shows of a conversation."""

    id: str | None = None
    cwd: str | None = None
    title: str | None = None
    words: str | None = None
    conversation: str | None = None
    """Its id in a file that may hold several."""
    modified: float | None = None
    messages: int | None = None
    cwd_sha256: str | None = None


class Seen(msgspec.Struct, array_like=True, frozen=True):
    """A file as it was when somebody looked, and what was in it."""

    size: int
    mtime_ns: int
    reader: str
    rows: list[Row]


class _File(msgspec.Struct):
    schema: str
    version: str
    files: dict[str, Seen]


class Memory:
    """A small file in the cache folder: read late, written whole, and forgotten when anything is
    wrong with it."""

    def __init__(self, folder: Path | None) -> None:
        self._path = folder / NAME if folder else None
        self._files: dict[str, Seen] | None = None
        self._is_changed = False

    @property
    def files(self) -> dict[str, Seen]:
        """What is known, by path."""
        if self._files is None:
            self._files = self._loaded()
        return self._files

    def _loaded(self) -> dict[str, Seen]:
        raw = read_optional(self._path) if self._path else None
        with contextlib.suppress(msgspec.DecodeError, RecursionError):
            file = msgspec.json.decode(raw or b"", type=_File)
            if (file.schema, file.version) == (_SCHEMA, __version__):
                return file.files
        return {}

    def recall(self, name: str, size: int, mtime_ns: int) -> Seen | None:
        """What a file held, if it is still the same."""
        seen = self.files.get(name)
        return seen if seen and (seen.size, seen.mtime_ns) == (size, mtime_ns) else None

    def keep(self, name: str, seen: Seen) -> None:
        """Know this from now on."""
        self.files[name] = seen
        self._is_changed = True

    def save(self, names: Collection[str]) -> None:
        """Write down what is known of the given files, the newest of them when they are very many;
        or let it be."""
        if not self._is_changed or self._path is None or not make_folder(self._path.parent):
            return
        kept = sorted((seen.mtime_ns, name) for name in names if (seen := self.files.get(name)))[
            -MOST:
        ]
        file = _File(_SCHEMA, __version__, {name: self.files[name] for _, name in kept})
        with contextlib.suppress(OutputError, UnicodeEncodeError):
            write_whole(self._path, msgspec.json.encode(file), 0o600)
            self._is_changed = False
