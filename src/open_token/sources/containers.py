"""Inputs that hold several things: the tables of a SQLite database, the members of a zip."""

import contextlib
import io
import sqlite3
import sys
import weakref
import zipfile
import zlib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

from open_token.errors import InputError
from open_token.sources.decompress import LIMIT, zstd

_MOST_MEMBERS = 200_000
_WAYS = frozenset((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
_ZSTD = 93
_UNZIPPABLE = (
    zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OverflowError, OSError
)  # fmt: skip
"""An offset before the beginning of the file is an OSError to Python."""
_UNREADABLE = (sqlite3.Error, UnicodeDecodeError)
"""SQLite's own message names a table of a broken schema, and that name may be any bytes."""


class Database:
    """A SQLite database that is only read: no view, trigger or extension of a stranger's file is
    ever run."""

    def __init__(self, path: Path, name: str) -> None:
        self._name = name
        try:
            self._connection = self._opened(path)
            self.tables = self._tables()
        except _UNREADABLE:
            raise self._malformed() from None

    def _opened(self, path: Path) -> sqlite3.Connection:
        # A database that is in use keeps its newest pages in a log beside it, which only a shared
        # reader sees.
        wal = Path(f"{path}-wal")
        in_use = wal.is_file() and wal.stat().st_size > 0
        for way in ("mode=ro", "immutable=1") if in_use else ("immutable=1",):
            for trust in ("OFF", "ON"):
                with contextlib.suppress(sqlite3.DatabaseError):
                    return self._tried(f"{path.absolute().as_uri()}?{way}", trust)
        raise self._malformed()

    def _tried(self, address: str, trust: str) -> sqlite3.Connection:
        """A connection that answers. Indexes over JSON (Kilo Code 7) are unsafe to SQLite 3.40
        unless the schema is trusted; that lets it call no more than functions of SQLite itself, for
        none of ours is there."""
        connection = sqlite3.connect(address, uri=True, check_same_thread=False)
        weakref.finalize(self, connection.close)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LIMIT)
        connection.execute(f"PRAGMA trusted_schema = {trust}")
        connection.execute("PRAGMA query_only = ON")
        connection.text_factory = _text
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        return connection

    def _tables(self) -> dict[str, list[str]]:
        found = self._connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' "
            "AND name NOT LIKE 'sqlite~_%' ESCAPE '~' ORDER BY rowid"
        ).fetchall()
        return {name: self._columns(name) for (name,) in found}

    def _columns(self, table: str) -> list[str]:
        return [row[1] for row in self._connection.execute(f"PRAGMA table_info({quoted(table)})")]

    @property
    def schema(self) -> list[str]:
        """What makes the tables and indexes, in the order in which they were made."""
        rows = self.rows(
            "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND type IN ('table', 'index') "
            "AND sql NOT LIKE 'CREATE VIRTUAL%' AND name NOT LIKE 'sqlite~_%' ESCAPE '~' ORDER BY rowid"
        )
        return [sql for (sql,) in rows]

    def rows(self, sql: str, params: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        """The rows of a query of ours, one at a time."""
        try:
            yield from self._connection.execute(sql, params)
        except _UNREADABLE:
            raise self._malformed() from None

    def rows_of(self, table: str) -> Iterator[tuple[Any, ...]]:
        """All rows of a table, with its columns in their order."""
        columns = ", ".join(quoted(column) for column in self.tables[table])
        return self.rows(f"SELECT {columns} FROM {quoted(table)}")

    def _malformed(self) -> InputError:
        return InputError(
            "this SQLite database cannot be read",
            where=self._name,
            help="is it whole, and is its -wal file beside it? `sqlite3 FILE 'PRAGMA integrity_check'` tells",
            code="input.sqlite",
        )


def quoted(name: str) -> str:
    """A table's or a column's name as SQL takes it."""
    return '"' + name.replace('"', '""') + '"'


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


class Archive:
    """A zip that is only looked into: names are labels, nothing is unpacked to the disk, and sizes
    are bounded."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._name = name
        self._zip: Any = None
        self._ways = _WAYS
        self._faults: tuple[type[Exception], ...] = _UNZIPPABLE
        try:
            self._zip = zipfile.ZipFile(stream)
            if any(info.compress_type == _ZSTD for info in self._zip.infolist()):
                self._learn_zstd(stream)
            infos = self._zip.infolist()
        except _UNZIPPABLE:
            raise self._damaged() from None
        if len(infos) > _MOST_MEMBERS:
            raise self._damaged("this zip has more members than any export")
        self._infos = {info.filename: info for info in infos if not info.is_dir()}

    def _learn_zstd(self, stream: BinaryIO) -> None:
        """Read members that are packed with Zstandard, too, as Inspect AI packs its logs."""
        if (known := zstd()) is None:
            return
        reader = zipfile if sys.version_info >= (3, 14) else import_module("backports.zstd.zipfile")
        self._zip = reader.ZipFile(stream)
        self._ways, self._faults = (
            _WAYS | {_ZSTD},
            (*_UNZIPPABLE, known.ZstdError, reader.BadZipFile),
        )

    @property
    def names(self) -> list[str]:
        """The members in the order in which they were put in."""
        return list(self._infos)

    def bytes_of(self, name: str) -> bytes | None:
        """What a member holds; None when there is none of that name."""
        info = self._infos.get(name)
        if info is None:
            return None
        if info.compress_type not in self._ways:
            raise self._damaged(
                f"the zip's members are compressed in a way this Python cannot read (method {info.compress_type})",
                "unpack it and pack it again with deflate, for example: bsdtar -xf FILE && zip -r COPY.zip .",
            )
        if info.flag_bits & 1:
            raise self._damaged(
                "the zip is encrypted", "unpack it with its password and export what is inside"
            )
        out = io.BytesIO()
        try:
            with self._zip.open(info) as stream:
                while part := stream.read(1 << 20):
                    out.write(part)
                    if out.tell() > LIMIT:
                        raise self._damaged(
                            f"one member of the zip is larger than {LIMIT >> 20} MiB",
                            "unpack it and export the file",
                        )
        except self._faults:
            raise self._damaged() from None
        return out.getvalue()

    def _damaged(
        self, what: str = "the zip is damaged or cut off", help: str = "pack it again"
    ) -> InputError:
        return InputError(what, where=self._name, help=help, code="input.zip")
