"""Databases and zips as inputs that can be changed inside: a row or a member at a time, so that
they stay readable."""

import contextlib
import io
import random
import sqlite3
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

_REFUSED = (sqlite3.Error, UnicodeDecodeError, IndexError)
"""A schema that is broken already: its names may be any bytes, and there may be no table left."""
Change = Callable[[bytes], bytes]
SQLITE = b"SQLite format 3\0"
ZIP = b"PK\x03\x04"
_ODD: list[Any] = [
    None,
    0,
    -1,
    2**63 - 1,
    1.5,
    1e300,
    "",
    "0",
    "{}",
    "[]",
    "null",
    b"",
    b"\xff\xfe",
    "a" * 3000,
    "..",
    "%",
]
_MOST_MEMBERS = 200


def database_of(script: str) -> bytes:
    """The bytes of the database that a script makes, with small pages."""
    with contextlib.closing(sqlite3.connect(":memory:")) as made:
        made.execute("PRAGMA page_size = 512")
        made.executescript(script)
        return made.serialize()


def zip_of(files: dict[str, bytes]) -> bytes:
    """The bytes of a zip."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, data in files.items():
            packed.writestr(zipfile.ZipInfo(name), data)
    return out.getvalue()


def zipped(folder: Path) -> bytes:
    """A folder as a zip, the same bytes on every machine."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return zip_of({path.relative_to(folder).as_posix(): path.read_bytes() for path in paths})


def change_database(data: bytes, rng: random.Random, change: Change) -> bytes:
    """One cell or one row changed; the bytes as they are when SQLite refuses."""
    with contextlib.closing(sqlite3.connect(":memory:")) as made, contextlib.suppress(*_REFUSED):
        made.deserialize(data)
        made.text_factory = bytes
        tables = [
            name for (name,) in made.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        for _ in range(rng.choice((1, 1, 2, 4))):
            with contextlib.suppress(*_REFUSED):
                _change_row(made, rng.choice(tables).decode(), rng, change)
        made.commit()
        return made.serialize()
    return data


def _change_row(made: sqlite3.Connection, table: str, rng: random.Random, change: Change) -> None:
    rowids = [number for (number,) in made.execute(f'SELECT rowid FROM "{table}"')]
    columns = [row[1].decode() for row in made.execute(f'PRAGMA table_info("{table}")')]
    if not rowids or not columns:
        return
    rowid, column, way = rng.choice(rowids), rng.choice(columns), rng.random()
    if way < 0.08:
        made.execute(f'DELETE FROM "{table}" WHERE rowid = ?', (rowid,))
    elif way < 0.16:
        names = ", ".join(f'"{name}"' for name in columns)
        made.execute(
            f'INSERT OR IGNORE INTO "{table}" ({names}) SELECT {names} FROM "{table}" WHERE rowid = ?',
            (rowid,),
        )
    elif way < 0.2:
        made.execute(f'ALTER TABLE "{table}" DROP COLUMN "{column}"')
    else:
        (value,) = made.execute(
            f'SELECT "{column}" FROM "{table}" WHERE rowid = ?', (rowid,)
        ).fetchone() or (None,)
        made.execute(
            f'UPDATE "{table}" SET "{column}" = ? WHERE rowid = ?',
            (_other(value, rng, change), rowid),
        )


def _other(value: Any, rng: random.Random, change: Change) -> Any:
    if isinstance(value, bytes) and value and rng.random() < 0.8:
        changed = change(value)
        return changed if rng.random() < 0.1 else changed.decode("utf-8", "replace")
    return rng.choice(_ODD)


def change_zip(data: bytes, rng: random.Random, change: Change) -> bytes:
    """One member changed, left out, renamed or put in twice; the bytes as they are when it is no
    zip any more."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            files = {info.filename: packed.read(info) for info in packed.infolist()[:_MOST_MEMBERS]}
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        OSError,
        ValueError,
        RuntimeError,
        NotImplementedError,
    ):
        return data
    if not files:
        return data
    name, way = rng.choice(list(files)), rng.random()
    if way < 0.8:
        files[name] = change(files[name])
    elif way < 0.87:
        del files[name]
    else:
        files[
            rng.choice(
                (f"folder/{name}", f"{name}.bak", "conversations.json", "header.json", "a.json")
            )
        ] = files[name]
    return zip_of(files)
