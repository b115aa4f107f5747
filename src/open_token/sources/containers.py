"""Containers: the tables of a SQLite database and the members of a zip archive."""

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
from open_token.sources.decompress import MAX_UNPACKED_BYTES, load_zstd

_MAX_MEMBERS = 200_000
_COMPRESSIONS = frozenset(
    (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
)
_ZIP_ZSTD = 93
_ZIP_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OverflowError,
    OSError,  # an offset before the beginning of the file
)
# A message of SQLite names a table of a broken schema, and that name may be any bytes.
_SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError)


class Database:
    """A SQLite database, read only: no view, trigger or extension in the file is ever run."""

    def __init__(self, path: Path, name: str) -> None:
        self._name = name
        try:
            self._connection = self._connect(path)
            self.tables = self._list_tables()
        except _SQLITE_ERRORS:
            raise self._cannot_read() from None

    def _connect(self, path: Path) -> sqlite3.Connection:
        # A database in use keeps its newest pages in a log next to it, which only a shared reader
        # sees.
        wal = Path(f"{path}-wal")
        is_in_use = wal.is_file() and wal.stat().st_size > 0
        modes = ("mode=ro", "immutable=1") if is_in_use else ("immutable=1",)
        for mode in modes:
            for trusted_schema in ("OFF", "ON"):
                with contextlib.suppress(sqlite3.DatabaseError):
                    return self._try_connect(f"{path.absolute().as_uri()}?{mode}", trusted_schema)
        raise self._cannot_read()

    def _try_connect(self, uri: str, trusted_schema: str) -> sqlite3.Connection:
        """Return a connection that works.

        SQLite 3.40 refuses indexes over JSON (Kilo Code 7) unless the schema is trusted. A trusted
        schema may only call functions of SQLite itself, because none of ours are registered.
        """
        connection = sqlite3.connect(uri, uri=True, check_same_thread=False)
        weakref.finalize(self, connection.close)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_UNPACKED_BYTES)
        connection.execute(f"PRAGMA trusted_schema = {trusted_schema}")
        connection.execute("PRAGMA query_only = ON")
        connection.text_factory = _decode_text
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        return connection

    def _list_tables(self) -> dict[str, list[str]]:
        rows = self._connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table'"
            " AND sql NOT LIKE 'CREATE VIRTUAL%' AND name NOT LIKE 'sqlite~_%' ESCAPE '~'"
            " ORDER BY rowid"
        ).fetchall()
        return {name: self._list_columns(name) for (name,) in rows}

    def _list_columns(self, table: str) -> list[str]:
        rows = self._connection.execute(f"PRAGMA table_info({quote_identifier(table)})")
        return [row[1] for row in rows]

    @property
    def schema(self) -> list[str]:
        """The statements that create the tables and indexes, in order of creation."""
        rows = self.rows(
            "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND type IN ('table', 'index')"
            " AND sql NOT LIKE 'CREATE VIRTUAL%' AND name NOT LIKE 'sqlite~_%' ESCAPE '~'"
            " ORDER BY rowid"
        )
        return [sql for (sql,) in rows]

    def rows(self, sql: str, params: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query."""
        try:
            yield from self._connection.execute(sql, params)
        except _SQLITE_ERRORS:
            raise self._cannot_read() from None

    def read_table(self, table: str) -> Iterator[tuple[Any, ...]]:
        """Yield all rows of a table, with its columns in their order."""
        # Names come from the file: a quote in one must not end it.
        columns = ", ".join(quote_identifier(column) for column in self.tables[table])
        name = quote_identifier(table)
        return self.rows(f"SELECT {columns} FROM {name}")

    def _cannot_read(self) -> InputError:
        return InputError(
            "this SQLite database cannot be read",
            where=self._name,
            help="is it whole, and is its -wal file beside it?"
            " `sqlite3 FILE 'PRAGMA integrity_check'` tells",
            code="input.sqlite",
        )


def quote_identifier(name: str) -> str:
    """Return the name of a table or a column, quoted for SQL."""
    return '"' + name.replace('"', '""') + '"'


def _decode_text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


class ZipArchive:
    """A zip archive, read only: nothing is unpacked to disk, and sizes are bounded."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._name = name
        self._zip: Any = None
        self._compressions = _COMPRESSIONS
        self._errors: tuple[type[Exception], ...] = _ZIP_ERRORS
        try:
            self._zip = zipfile.ZipFile(stream)
            if any(info.compress_type == _ZIP_ZSTD for info in self._zip.infolist()):
                self._enable_zstd(stream)
            infos = self._zip.infolist()
        except _ZIP_ERRORS:
            raise self._cannot_read() from None
        if len(infos) > _MAX_MEMBERS:
            raise self._cannot_read("this zip has more members than any export")
        self._infos = {info.filename: info for info in infos if not info.is_dir()}

    def _enable_zstd(self, stream: BinaryIO) -> None:
        """Support members that are compressed with Zstandard, as Inspect AI writes its logs."""
        zstd = load_zstd()
        if zstd is None:
            return
        module = zipfile if sys.version_info >= (3, 14) else import_module("backports.zstd.zipfile")
        self._zip = module.ZipFile(stream)
        self._compressions = _COMPRESSIONS | {_ZIP_ZSTD}
        self._errors = (*_ZIP_ERRORS, zstd.ZstdError, module.BadZipFile)

    @property
    def names(self) -> list[str]:
        """The members in the order of the archive."""
        return list(self._infos)

    def read_member(self, name: str) -> bytes | None:
        """Return the content of a member; None if there is none of that name."""
        info = self._infos.get(name)
        if info is None:
            return None
        if info.compress_type not in self._compressions:
            raise self._cannot_read(
                "the zip's members are compressed in a way this Python cannot read"
                f" (method {info.compress_type})",
                "unpack it and pack it again with deflate, for example:"
                " bsdtar -xf FILE && zip -r COPY.zip .",
            )
        if info.flag_bits & 1:
            raise self._cannot_read(
                "the zip is encrypted", "unpack it with its password and export what is inside"
            )
        # Counted while it is unpacked: the size that a zip states for a member may be a lie.
        content = io.BytesIO()
        try:
            with self._zip.open(info) as stream:
                while chunk := stream.read(1 << 20):
                    content.write(chunk)
                    if content.tell() > MAX_UNPACKED_BYTES:
                        raise self._cannot_read(
                            f"one member of the zip is larger than {MAX_UNPACKED_BYTES >> 20} MiB",
                            "unpack it and export the file",
                        )
        except self._errors:
            raise self._cannot_read() from None
        return content.getvalue()

    def _cannot_read(
        self, what: str = "the zip is damaged or cut off", help: str = "pack it again"
    ) -> InputError:
        return InputError(what, where=self._name, help=help, code="input.zip")
