"""Inputs as bytes: a file, memory, a stream or a folder, and what is in it or next to it."""

import codecs
import contextlib
import hashlib
import io
import weakref
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Self, cast

from open_token.errors import InputError
from open_token.sources.decompress import (
    MAX_UNPACKED_BYTES,
    MissingZstdError,
    TooLargeError,
    find_compression,
    get_damage_errors,
    open_compressed,
)
from open_token.sources.folder_listings import FolderListings

if TYPE_CHECKING:
    from open_token.sources.containers import Database, ZipArchive

SQLITE = b"SQLite format 3\0"
ZIP = b"PK\x03\x04"
_HEAD_BYTES = 1 << 16
_MAX_IN_MEMORY = 1 << 25


class Origin:
    """One input as bytes: its name in messages, and its siblings on disk."""

    grows = False
    """Whether it is still being written while it is read, so that nothing may be cached."""

    def __init__(
        self,
        name: str,
        *,
        path: Path | None = None,
        data: bytes | None = None,
        parent: "Origin | None" = None,
        is_folder: bool = False,
    ) -> None:
        self.name = name
        self.path = path
        self.family: list[Self] = parent.family if parent else []  # type: ignore[assignment]
        """This source and all that were opened from it, in that order."""
        self.family.append(cast(Any, self))
        self.is_read = parent is None
        """Whether a reader took its records, rather than only inspected it."""
        self.is_folder = is_folder
        self.listings: FolderListings | None = parent.listings if parent else None
        """The listings of a run that reads many files; None lists a folder at each search."""
        self._data = data
        self._small_file: bytes | None = None
        """The content of a file that fits in its head, so that it is opened only once."""

    @classmethod
    def of(cls, path: Path, name: str | None = None) -> Self:
        """Return the source for a path; raise InputError if it cannot be read."""
        name = name or str(path)
        try:
            if path.is_dir():
                raise _build_folder_error(name)
            with path.open("rb") as stream:
                if not path.is_file():
                    return cls.of_stream(stream, name)
        except OSError as problem:
            raise _cannot_read(name, problem) from None
        return cls(name, path=path)

    @classmethod
    def of_folder(cls, path: Path, name: str | None = None) -> Self:
        """Return the source for a folder, whose layout a reader may know."""
        return cls(name or str(path), path=path, is_folder=True)

    @classmethod
    def of_stream(cls, stream: BinaryIO, name: str) -> Self:
        """Return the source for a stream that can be read once.

        What is too large for memory goes to a temporary file.
        """
        data = stream.read(_MAX_IN_MEMORY)
        if len(data) < _MAX_IN_MEMORY:
            return cls(name, data=data)
        import shutil

        file = _create_temporary_file()
        file.write(data)
        shutil.copyfileobj(stream, file, 1 << 20)
        file.flush()
        source = cls(name, path=Path(file.name))
        weakref.finalize(source, file.close)
        return source

    def open(self) -> BinaryIO:
        """Return the bytes from the start, decompressed if they are gzip or zstd."""
        if self.is_folder:
            raise _build_folder_error(self.name)
        content = self._data if self._data is not None else self._small_file
        if content is not None:
            raw: BinaryIO = io.BytesIO(content)
        else:
            assert self.path is not None
            raw = self.path.open("rb", buffering=1 << 20)
        return open_compressed(raw) or raw  # type: ignore[return-value]

    @contextlib.contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """Open the bytes; damaged compressed data and disk failures become input errors."""
        try:
            with self.open() as stream:
                yield stream
        except MissingZstdError:
            raise InputError(
                "this file is compressed with zstd, and the package that reads it is not installed",
                where=self.name,
                help="pip install backports.zstd, or unpack it with zstd -d and export that",
                code="input.zstd",
            ) from None
        except TooLargeError:
            raise self._build_size_error() from None
        except get_damage_errors():
            raise self._build_damage_error() from None
        except OSError as problem:
            raise _cannot_read(self.name, problem) from None

    def _build_size_error(self) -> InputError:
        name = self._compression
        return InputError(
            f"one line or document of the {name} data is larger than {MAX_UNPACKED_BYTES >> 20} MiB",
            where=self.name,
            help=f"if you trust it, unpack it with {name} -d and export that",
            code="input.compressed-large",
        )

    def _build_damage_error(self) -> InputError:
        name = self._compression
        return InputError(
            f"the {name} data is damaged or cut off",
            where=self.name,
            help=f"unpack what is left with {name} -dc and export that",
            code="input.compressed",
        )

    @cached_property
    def _compression(self) -> str | None:
        """How the bytes are compressed."""
        if self._data is not None:
            return find_compression(self._data)
        if self.path is None or self.is_folder:
            return None
        with self.path.open("rb") as stream:
            return find_compression(stream.read(4))

    @property
    def size(self) -> int:
        """The number of bytes on disk; progress is measured against it."""
        if self.is_folder:
            return 0
        if self._data is not None:
            return len(self._data)
        return self.path.stat().st_size if self.path else 0

    @cached_property
    def head(self) -> bytes:
        """The first bytes."""
        if self.is_folder:
            return b""
        with self.opened() as stream:
            head = stream.read(_HEAD_BYTES)
        if len(head) < _HEAD_BYTES and not self.grows and self._compression is None:
            self._small_file = head
        return head

    @cached_property
    def sha256(self) -> str:
        """The hash of the bytes on disk; of a folder, the hash over the files that were read."""
        if self.is_folder:
            digest = hashlib.sha256()
            for source in self.family:
                if source.is_read and source is not self:
                    digest.update(bytes.fromhex(source.sha256))
            return digest.hexdigest()
        if self._data is not None:
            return hashlib.sha256(self._data).hexdigest()
        assert self.path is not None
        with self.path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()

    @property
    def whole(self) -> bytes:
        """All bytes, without a byte order mark."""
        with self.opened() as stream:
            return stream.read().removeprefix(codecs.BOM_UTF8)

    @cached_property
    def database(self) -> "Database":
        """The SQLite database that this input is."""
        # Databases and archives are rare: what they need is imported on first use.
        from open_token.sources.containers import Database

        is_plain_file = self._data is None and self.path is not None and self._compression is None
        if is_plain_file and self.path is not None and self.is_database:
            return Database(self.path, self.name)
        file = _create_temporary_file()
        file.write(self.whole)
        file.flush()
        weakref.finalize(self, file.close)
        return Database(Path(file.name), self.name)

    @property
    def is_database(self) -> bool:
        """Whether the bytes are a SQLite database."""
        return self.head.startswith(SQLITE)

    @property
    def is_zip(self) -> bool:
        """Whether the bytes are a zip archive."""
        return self.head.startswith(ZIP)

    @property
    def tables(self) -> dict[str, list[str]]:
        """The tables of a database with their columns; none if it is not a database."""
        return self.database.tables if self.is_database else {}

    def rows(self, sql: str, params: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query on a database."""
        return self.database.rows(sql, params)

    @cached_property
    def _archive(self) -> "ZipArchive":
        from open_token.sources.containers import ZipArchive

        if self._data is not None or self._compression is not None:
            stream: BinaryIO = io.BytesIO(self.whole)
        else:
            stream = self.open()
        weakref.finalize(self, stream.close)
        return ZipArchive(stream, self.name)

    @property
    def members(self) -> list[str]:
        """The names in a zip archive, in its order; none if it is not an archive."""
        return self._archive.names if self.is_zip else []

    def member(self, name: str) -> Self | None:
        """Return one file of a zip archive."""
        if not self.is_zip:
            return None
        data = self._archive.read_member(name)
        if data is None:
            return None
        return self._open_related(f"{self.name}!{name}", data=data)

    def _open_related(
        self, name: str, *, path: Path | None = None, data: bytes | None = None
    ) -> Self:
        """Return another source of the same family."""
        return type(self)(name, path=path, data=data, parent=self)

    def open_sibling(self, *parts: str) -> Self | None:
        """Return a file next to this one.

        None means that there is none, that it is a link to elsewhere, or that this is no file.
        """
        if self.path is None:
            return None
        folder = self.path.parent
        path = folder.joinpath(*parts)
        try:
            is_inside = path.is_file() and path.resolve().is_relative_to(folder.resolve())
        except OSError:
            return None  # no file can have such a name
        return self._open_related(str(path), path=path) if is_inside else None

    def find_siblings(self, pattern: str) -> list[Self]:
        """Return the files next to this one that match, in order of name."""
        if self.path is None:
            return []
        folder = self.path.parent
        while pattern.startswith("../"):
            folder = folder / ".."
            pattern = pattern[3:]
        return self._open_matching(folder, pattern)

    def find_files(self, pattern: str) -> list[Self]:
        """Return the files of a folder that match, in order of name."""
        if not self.is_folder or self.path is None:
            return []
        return self._open_matching(self.path, pattern)

    def _open_matching(self, folder: Path, pattern: str) -> list[Self]:
        paths = find_files(folder, pattern, self.listings)
        return [self._open_related(str(path), path=path) for path in paths]


def _create_temporary_file() -> Any:
    """Return a temporary file, which is removed when it is closed."""
    import tempfile

    return tempfile.NamedTemporaryFile(prefix="open-token-")


def find_files(folder: Path, pattern: str, listings: FolderListings | None = None) -> list[Path]:
    """Return the files in a folder that match, in order of name, without links to elsewhere."""
    root: Path | None = None
    found = []
    for path in sorted(_match_files(folder, pattern, listings or FolderListings())):
        if not path.is_file():
            continue
        if root is None:
            root = folder.resolve()
        # A shared folder may hold links to files that its owner never meant to export.
        if path.resolve().is_relative_to(root):
            found.append(path)
    return found


def _match_files(folder: Path, pattern: str, listings: FolderListings) -> Iterable[Path]:
    if "/" in pattern or "**" in pattern:
        return folder.glob(pattern)
    # A reader may ask for the neighbours of each of thousands of sessions in one folder: names are
    # much cheaper than the paths that `glob` makes of all of them.
    return [folder / name for name in listings.find_names(folder, pattern)]


def _build_folder_error(name: str) -> InputError:
    return InputError("this is a folder, not a conversation", where=name, help="name a file in it")


def _cannot_read(name: str, problem: OSError) -> InputError:
    reason = problem.strerror or type(problem).__name__
    code = "input.missing" if isinstance(problem, FileNotFoundError) else None
    return InputError(
        f"cannot read the input: {reason}", where=name, help="check the path", code=code
    )
