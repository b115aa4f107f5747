"""The source again, from an export that was made with native=full: records, documents, rows,
members and text."""

import contextlib
import io
import marshal
import re
import sqlite3
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

import msgspec

from open_token.context import Context
from open_token.errors import InputError
from open_token.folding import Room, TooLarge, Unresolved, unfold_all
from open_token.locallib.export_many import list_exports
from open_token.model import Event
from open_token.nesting import afresh, depth_of
from open_token.options import ExportOptions
from open_token.pipeline import read
from open_token.registry import load_reader
from open_token.sources.containers import quoted
from open_token.sources.source import Source
from open_token.storage.files import make_parents, whole_folder, write_whole

_ALLOWED = frozenset(
    (
        sqlite3.SQLITE_CREATE_TABLE,
        sqlite3.SQLITE_CREATE_INDEX,
        sqlite3.SQLITE_INSERT,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_REINDEX,
        sqlite3.SQLITE_TRANSACTION,
        sqlite3.SQLITE_SELECT,
    )
)
_UPDATED_BY_SQLITE = ("sqlite_master", "sqlite_sequence")
_FUNCTIONS = frozenset(
    "json_extract -> ->> lower upper coalesce ifnull length json_valid trim like".split()
)
_REFERRED = ("content", "ts", "usage")
"""The parts of an event that references lead to."""
_RECENT = 64
_MADE_UP = (
    AttributeError,
    OverflowError,
    RecursionError,
    TypeError,
    ValueError,
    msgspec.DecodeError,
)
"""What comes of records that no export has: other kinds of values, and numbers without end."""
MOST, MOST_TIMES = 256 << 20, 100
"""References may grow to so many letters, or to so many times the export, whichever is more."""
_DEEPEST = 64
"""Deeper values are written in one line: with a margin before each part they would grow with every
level."""
_MEMBER_TIME = (1980, 1, 1, 0, 0, 0)


@dataclass
class Restored:
    """What was written, and what could not be given back."""

    files: list[str] = field(default_factory=list)
    records: int = 0


class Shelf:
    """Contents and units on the way from an export to files: on the disk, because a source may be
    large."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._shelf = sqlite3.connect("")
        self._shelf.execute("CREATE TABLE contents (name TEXT PRIMARY KEY, content BLOB)")
        self._shelf.execute(
            "CREATE TABLE units (file TEXT, number INTEGER, at TEXT, place INTEGER, value BLOB)"
        )
        self.files: dict[str, dict[str, Any]] = {}
        self.has_records = False
        self._recent: dict[str, Any] = {}

    def close(self) -> None:
        """Forget all."""
        self._shelf.close()

    def take(self, events: Iterable[Event]) -> None:
        """All events of one export."""
        self._shelf.execute("DELETE FROM contents")
        self._recent.clear()
        for event in events:
            data = event["content"].get("data")
            if (
                event["type"] == "annotation"
                and isinstance(data, dict)
                and data.get("kind") == "native"
            ):
                self._native(data)
            else:
                told = {name: event[name] for name in _REFERRED if name in event}  # type: ignore[literal-required]
                self._shelf.execute(
                    "INSERT OR REPLACE INTO contents VALUES (?, ?)",
                    (event["id"], msgspec.json.encode(told)),
                )

    def _native(self, data: dict[str, Any]) -> None:
        self.has_records = True
        try:
            for piece in (data, *data.get("then", [])):
                self._piece(piece)
        except _MADE_UP:
            raise Unresolved("record") from None

    def _piece(self, data: dict[str, Any]) -> None:
        file, number, value = data.get("file", ""), data.get("record"), data.get("value")
        if (
            not isinstance(file, str)
            or not isinstance(number, int)
            or (number == 0 and not isinstance(value, dict))
        ):
            raise Unresolved("record")
        facts = value if number == 0 else data.get("about")
        if isinstance(facts, dict):
            self._know(file, facts)
        if number == 0:
            return
        at, place = str(data.get("at", "")), int(data.get("place", 0))
        values = unfold_all([value, *data.get("more", [])], self._resolve, self._room)
        rows = [(file, number + n, at, place + n, _packed(value)) for n, value in enumerate(values)]
        self._shelf.executemany("INSERT INTO units VALUES (?, ?, ?, ?, ?)", rows)

    def _know(self, file: str, facts: dict[str, Any]) -> None:
        """What a file is; of a zip each conversation may name only its own members."""
        known = self.files.setdefault(file, {**facts, "members": {}})
        if isinstance(members := facts.get("members"), list):
            known["members"].update(dict.fromkeys(map(str, members)))

    def _resolve(self, reference: str) -> Any:
        name, _, pointer = reference.partition("#")
        value = self._event(name)
        try:
            for step in pointer.split("/")[1:]:
                step = step.replace("~1", "/").replace("~0", "~")
                value = value[int(step)] if isinstance(value, list) else value[step]
        except (KeyError, IndexError, ValueError, TypeError):
            value = None
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            raise Unresolved(name)
        return value

    def _event(self, name: str) -> Any:
        """What is kept of an event; one record may refer to it several times."""
        if name not in self._recent:
            row = self._shelf.execute(
                "SELECT content FROM contents WHERE name = ?", (name,)
            ).fetchone()
            if len(self._recent) > _RECENT:
                self._recent.clear()
            self._recent[name] = msgspec.json.decode(row[0]) if row else None
        return self._recent[name]

    def units(self, file: str) -> Iterator[tuple[str, int, Any]]:
        """The units of a file in their order."""
        query = "SELECT at, place, value FROM units WHERE file = ? ORDER BY number, rowid"
        for at, place, value in self._shelf.execute(query, (file,)):
            yield at, place, _unpacked(value)


def _packed(value: Any) -> bytes:
    return marshal.dumps(value)


def _unpacked(raw: bytes) -> Any:
    return marshal.loads(raw)


def restore_files(export: Path, folder: Path, most: int | None = None) -> tuple[Restored, bool]:
    """Write the source of an export, or of a folder of exports, into a new folder; tells whether it
    was redacted.

    `most` is how many letters the references in it may stand for."""
    paths = list_exports(export) if export.is_dir() else [export]
    context = Context(
        ExportOptions.of({"redact": "none", "include": "include-internal", "internal": "full"})
    )
    masked = False
    if most is None:
        most = max(MOST, MOST_TIMES * sum(Source.of(path).size for path in paths))

    def events() -> Iterator[Iterable[Event]]:
        nonlocal masked
        for path in paths:
            opened = Source.of(path)
            if not load_reader("open_token").sniff(opened):
                raise InputError(
                    "this is not an Open-Token export",
                    where=opened.name,
                    help="name an export, not its source",
                )
            record = read(opened, context, "open_token")
            masked = (
                masked or record.conversation.get("redaction", {}).get("mode", "none") != "none"
            )
            yield record.events

    return restore(events(), folder, most), masked


def restore(exports: Iterable[Iterable[Event]], folder: Path, most: int = MOST) -> Restored:
    """Write the files that one export, or several of one source, were made of into a new folder."""
    shelf = Shelf(Room(most))
    try:
        for events in exports:
            shelf.take(events)
        if not shelf.files and shelf.has_records:
            raise Unresolved("about")
        if not shelf.files:
            raise InputError(
                "this export does not hold its source",
                help="only an export made with native=full can be restored",
                code="restore.native",
            )
        return _write(shelf, folder)
    except (Unresolved, *_MADE_UP):
        raise InputError(
            "parts of the source were left out of this export",
            help="restore needs redact=none include=include-internal internal=full branches=all native=full",
            code="restore.partial",
        ) from None
    except TooLarge:
        raise InputError(
            f"far more would come back than this export holds: over {most:,} letters",
            help="if you trust it, allow more with --limit LETTERS",
            code="restore.large",
        ) from None
    finally:
        shelf.close()


def _write(shelf: Shelf, folder: Path) -> Restored:
    done = Restored()
    with whole_folder(folder) as made:
        for file, facts in shelf.files.items():
            if file.startswith("!"):
                continue
            name = _safe(file or str(facts.get("name") or "source"))
            make_parents(made / name)
            if facts.get("shape") == "sqlite":
                done.records += _database(made / name, facts, shelf.units(file))
            else:
                data = (
                    _zip(shelf, facts, done)
                    if facts.get("shape") == "zip"
                    else _bytes(shelf, file, facts, done)
                )
                write_whole(made / name, data)
            done.files.append(name)
    return done


def _safe(name: str) -> str:
    """A relative name that stays in its folder."""
    steps = [
        re.sub(r"[\x00-\x1f:\\]", "_", step) for step in name.split("/") if step not in ("", ".")
    ]
    return "/".join("_" if step == ".." else step for step in steps) or "source"


def _bytes(shelf: Shelf, file: str, facts: dict[str, Any], done: Restored) -> bytes:
    units = list(shelf.units(file))
    done.records += len(units)
    values = [value for _, _, value in units]
    shape = facts.get("shape")
    if shape == "text":
        return "".join(map(str, values)).encode()
    if shape == "bytes":
        return b"".join(value for value in values if isinstance(value, bytes))
    if shape == "lines":
        return b"".join(_json(value) + b"\n" for value in values)
    if shape == "glued":
        return b"".join(_in_lines(value) for value in values)
    if shape == "list":
        return b"[\n" + b",\n".join(map(_json, values)) + b"\n]\n"
    return _in_lines(_document(units))


def _document(units: list[tuple[str, int, Any]]) -> Any:
    """One value, with the items of its lists put back; without its shell, what there is of the
    lists."""
    whole: Any = next((value for at, _, value in units if not at), {})
    for at, _, value in units:
        if at and isinstance(whole, dict):
            whole.setdefault(at, []).append(value)
    return whole


def _in_lines(value: Any) -> bytes:
    raw = _json(value)
    return (raw if depth_of(raw) > _DEEPEST else msgspec.json.format(raw, indent=2)) + b"\n"


def _json(value: Any) -> bytes:
    made = afresh(msgspec.json.encode, value)
    if b"null" in made:
        with contextlib.suppress(RecursionError):
            return msgspec.json.encode(_with_infinite(value))
    return made


def _with_infinite(value: Any) -> Any:
    """The value with numbers that are larger than any double spelled out; they would become
    null."""
    if isinstance(value, dict):
        return {key: _with_infinite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_infinite(item) for item in value]
    if isinstance(value, float) and value in (inf, -inf):
        return msgspec.Raw(b"1e999" if value > 0 else b"-1e999")
    return value


def _zip(shelf: Shelf, facts: dict[str, Any], done: Restored) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in facts["members"]:
            if (inner := shelf.files.get(f"!{name}")) is not None:
                packed.writestr(
                    zipfile.ZipInfo(name, _MEMBER_TIME), _bytes(shelf, f"!{name}", inner, done)
                )
    return out.getvalue()


def _database(path: Path, facts: dict[str, Any], units: Iterator[tuple[str, int, Any]]) -> int:
    """A database with the same tables and rows; a stranger's schema may make tables and indexes,
    and nothing else."""
    made = sqlite3.connect(path)
    made.set_authorizer(_may)
    count = 0
    try:
        schema = [sql for sql in facts.get("schema", []) if isinstance(sql, str)]
        for sql in schema:
            if re.match(r"CREATE\s+TABLE\b", sql, re.IGNORECASE):
                made.execute(sql)
        insert = {
            table: _insert(table, columns) for table, columns in facts.get("columns", {}).items()
        }
        for table, _, row in units:
            made.execute(insert[table], row)
            count += 1
        for sql in schema:
            if re.match(r"CREATE\s+(UNIQUE\s+)?INDEX\b", sql, re.IGNORECASE):
                made.execute(sql)
        made.commit()
    except (sqlite3.Error, KeyError, *_MADE_UP):
        raise InputError(
            "the database in this export cannot be built again",
            help="its schema asks for more than tables and indexes, or its rows do not fit",
            code="restore.sqlite",
        ) from None
    finally:
        made.close()
    return count


def _insert(table: str, columns: list[str]) -> str:
    names, marks = ", ".join(map(quoted, columns)), ", ".join("?" for _ in columns)
    return f"INSERT INTO {quoted(table)} ({names}) VALUES ({marks})"


def _may(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    allowed = action in _ALLOWED or (
        action == sqlite3.SQLITE_UPDATE and first in _UPDATED_BY_SQLITE
    )
    allowed = allowed or (action == sqlite3.SQLITE_FUNCTION and second in _FUNCTIONS)
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY
