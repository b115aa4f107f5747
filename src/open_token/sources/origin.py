"""Where an input comes from: a file, memory, a stream, a folder, and what lies in it or beside
it."""

import codecs
import contextlib
import gzip
import hashlib
import io
import weakref
import zlib
from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Self, cast

from open_token.errors import InputError
from open_token.sources.decompress import LIMIT, TooLarge, Unpacked

if TYPE_CHECKING:
    from open_token.sources.containers import Archive, Database

SQLITE = b"SQLite format 3\0"
ZIP = b"PK\x03\x04"
_HEAD = 1 << 16
_GZIP = b"\x1f\x8b"
_IN_MEMORY = 1 << 25


class Origin:
    """One input as bytes: its name for messages, and its neighbours on the disk."""

    grows = False
    """Whether it is still being written while it is read, so that nothing of it may be kept."""

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
        """This source and all that were opened from it, in the order in which they were."""
        self.family.append(cast(Any, self))
        self.is_read = parent is None
        """Whether a reader took its records, and did not only look at it."""
        self.is_folder = is_folder
        self._data = data
        self._small: bytes | None = None
        """All of a file that its first bytes are: it is opened once."""

    @classmethod
    def of(cls, path: Path, name: str | None = None) -> Self:
        """The source for a path; an error when it is not there or is no readable file."""
        name = name or str(path)
        try:
            if path.is_dir():
                raise InputError(
                    "this is a folder, not a conversation", where=name, help="name a file in it"
                )
            with path.open("rb") as stream:
                if not path.is_file():
                    return cls.of_stream(stream, name)
        except OSError as problem:
            raise _cannot_read(name, problem) from None
        return cls(name, path=path)

    @classmethod
    def of_folder(cls, path: Path, name: str | None = None) -> Self:
        """The source for a folder, of which a reader may know the layout."""
        return cls(name or str(path), path=path, is_folder=True)

    @classmethod
    def of_stream(cls, stream: BinaryIO, name: str) -> Self:
        """The source for a stream that can be read once; what is too big for memory goes through a
        temporary file."""
        data = stream.read(_IN_MEMORY)
        if len(data) < _IN_MEMORY:
            return cls(name, data=data)
        import shutil
        import tempfile

        held = tempfile.NamedTemporaryFile(prefix="open-token-")  # noqa: SIM115 - lives as long as the source
        held.write(data)
        shutil.copyfileobj(stream, held, 1 << 20)
        held.flush()
        source = cls(name, path=Path(held.name))
        weakref.finalize(source, held.close)
        return source

    def open(self) -> BinaryIO:
        """The bytes from the start, unpacked when they are gzip."""
        held = self._data if self._data is not None else self._small
        if held is not None:
            raw: BinaryIO = io.BytesIO(held)
        else:
            assert self.path is not None
            raw = self.path.open("rb", buffering=1 << 20)
        start = raw.read(2)
        raw.seek(0)
        return Unpacked(raw) if start == _GZIP else raw  # type: ignore[return-value]

    @contextlib.contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """The bytes from the start; damaged gzip and a disk that fails are errors with a place."""
        try:
            with self.open() as stream:
                yield stream
        except (EOFError, gzip.BadGzipFile, zlib.error):
            raise InputError(
                "the gzip data is damaged or cut off",
                where=self.name,
                help="unpack what is left with gzip -dc and export that",
                code="input.gzip",
            ) from None
        except TooLarge:
            raise InputError(
                f"one line or document of the gzip data is larger than {LIMIT >> 20} MiB",
                where=self.name,
                help="if you trust it, unpack it with gzip -d and export that",
                code="input.gzip-large",
            ) from None
        except OSError as problem:
            raise _cannot_read(self.name, problem) from None

    @cached_property
    def _is_packed(self) -> bool:
        """Whether the bytes on the disk are gzip."""
        if self.path is None or self._data is not None:
            return False
        with self.path.open("rb") as stream:
            return stream.read(2) == _GZIP

    @property
    def size(self) -> int:
        """The bytes on the disk; what progress is measured against."""
        if self.is_folder:
            return 0
        return (
            len(self._data)
            if self._data is not None
            else self.path.stat().st_size
            if self.path
            else 0
        )

    @cached_property
    def head(self) -> bytes:
        """The first bytes."""
        if self.is_folder:
            return b""
        with self.opened() as stream:
            head = stream.read(_HEAD)
        if len(head) < _HEAD and not self.grows and not self._is_packed:
            self._small = head
        return head

    @cached_property
    def sha256(self) -> str:
        """The hash of all bytes as they lie; of a folder, of the files that were read."""
        if self.is_folder:
            told = hashlib.sha256()
            for source in self.family:
                if source.is_read and source is not self:
                    told.update(bytes.fromhex(source.sha256))
            return told.hexdigest()
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
        """The SQLite database that this is."""
        if (
            self._data is None
            and self.path is not None
            and self.head.startswith(SQLITE)
            and not self._is_packed
        ):
            return cast("Database", _containers().Database(self.path, self.name))
        import tempfile

        held = tempfile.NamedTemporaryFile(prefix="open-token-")  # noqa: SIM115 - lives as long as the source
        held.write(self.whole)
        held.flush()
        weakref.finalize(self, held.close)
        return cast("Database", _containers().Database(Path(held.name), self.name))

    @property
    def is_database(self) -> bool:
        """Whether the bytes are a SQLite database."""
        return self.head.startswith(SQLITE)

    @property
    def is_zip(self) -> bool:
        """Whether the bytes are a zip."""
        return self.head.startswith(ZIP)

    @property
    def tables(self) -> dict[str, list[str]]:
        """The tables of a database with their columns; none when it is no database."""
        return self.database.tables if self.is_database else {}

    def rows(self, sql: str, params: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        """The rows of a query over a database, one at a time."""
        return self.database.rows(sql, params)

    @cached_property
    def _archive(self) -> "Archive":
        stream = (
            io.BytesIO(self.whole) if self._data is not None or self._is_packed else self.open()
        )
        weakref.finalize(self, stream.close)
        return cast("Archive", _containers().Archive(stream, self.name))

    @property
    def members(self) -> list[str]:
        """The names in a zip, in its order; none when it is no zip."""
        return self._archive.names if self.is_zip else []

    def member(self, name: str) -> Self | None:
        """One file of a zip."""
        data = self._archive.bytes_of(name) if self.is_zip else None
        return None if data is None else self._other(f"{self.name}!{name}", data=data)

    def _other(self, name: str, *, path: Path | None = None, data: bytes | None = None) -> Self:
        """One more source, opened from this one."""
        return type(self)(name, path=path, data=data, parent=self)

    def neighbour(self, *parts: str) -> Self | None:
        """A file beside this one; None when there is none, it is a link that leads elsewhere, or
        this is no file."""
        if self.path is None:
            return None
        folder = self.path.parent
        path = folder.joinpath(*parts)
        try:
            is_ours = path.is_file() and path.resolve().is_relative_to(folder.resolve())
        except OSError:
            return None  # no file can have such a name
        return self._other(str(path), path=path) if is_ours else None

    def neighbours(self, pattern: str) -> list[Self]:
        """The files beside this one that match, in order of name; a link that leads elsewhere is
        none of them."""
        if self.path is None:
            return []
        folder = self.path.parent
        while pattern.startswith("../"):
            folder, pattern = folder / "..", pattern[3:]
        return [self._other(str(path), path=path) for path in files_below(folder, pattern)]

    def below(self, pattern: str) -> list[Self]:
        """The files of a folder that match, in order of name."""
        if not self.is_folder or self.path is None:
            return []
        return [self._other(str(path), path=path) for path in files_below(self.path, pattern)]


def _containers() -> Any:
    """Databases and archives are rare: what they take is loaded when one comes."""
    return import_module("open_token.sources.containers")


def files_below(folder: Path, pattern: str) -> list[Path]:
    """The files in a folder that match, in order of name; a link that leads elsewhere is none of
    them."""
    found = [path for path in sorted(folder.glob(pattern)) if path.is_file()]
    home = folder.resolve() if found else folder
    return [path for path in found if path.resolve().is_relative_to(home)]


def _cannot_read(name: str, problem: OSError) -> InputError:
    reason = problem.strerror or type(problem).__name__
    code = "input.missing" if isinstance(problem, FileNotFoundError) else None
    return InputError(
        f"cannot read the input: {reason}", where=name, help="check the path", code=code
    )
