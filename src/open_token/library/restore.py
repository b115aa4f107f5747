"""Restore the source of an export that was made with native=full."""

import codecs
import contextlib
import io
import marshal
import re
import sqlite3
import sys
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

import msgspec

from open_token.context import Context
from open_token.errors import InputError
from open_token.jsontools.nesting import measure_depth, run_with_fresh_stack
from open_token.library.export_many import list_exports
from open_token.model.document import Event
from open_token.native.compression import (
    EXPANSION_MIN_LIMIT,
    ExpansionError,
    ExpansionLimit,
    expand_data,
    is_compressed,
)
from open_token.native.encoding import decode_value
from open_token.native.references import UnresolvedValue, resolve_pointer
from open_token.options import ExportOptions
from open_token.pipeline import read_record
from open_token.registry import load_reader
from open_token.sources.containers import quote_identifier
from open_token.sources.source import Source
from open_token.storage.files import atomic_folder, make_parents, write_atomic

_ALLOWED_ACTIONS = frozenset(
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
_DEVICE = re.compile(r"(?i:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³])(?:[ .].*)?")
_UPDATED_BY_SQLITE = ("sqlite_master", "sqlite_sequence")
_ALLOWED_FUNCTIONS = frozenset(
    "json_extract -> ->> lower upper coalesce ifnull length json_valid trim like".split()
)
# What malformed native data raises while it is decoded.
_INVALID_DATA = (
    AttributeError,
    OverflowError,
    RecursionError,
    TypeError,
    ValueError,
    msgspec.DecodeError,
)
_MAX_INDENTED_DEPTH = 64
_MEMBER_TIME = (1980, 1, 1, 0, 0, 0)


@dataclass
class RestoreResult:
    """The files that were written, and the number of records in them."""

    files: list[str] = field(default_factory=list)
    records: int = 0
    missing: int = 0
    """How many records before the last restored one of a file are not in the export."""


class UnitStore:
    """The units of a source between reading exports and writing files.

    They are kept in a temporary database, because a source may be larger than memory.
    """

    def __init__(self, limit: ExpansionLimit) -> None:
        self._limit = limit
        self._database = sqlite3.connect("")
        self._database.execute(
            "CREATE TABLE units (file TEXT, number INTEGER, at TEXT, place INTEGER, value BLOB)"
        )
        self._database.execute("CREATE TABLE contents (id TEXT PRIMARY KEY, content BLOB)")
        self.files: dict[str, dict[str, Any]] = {}
        self.has_records = False

    def close(self) -> None:
        """Delete the temporary database."""
        self._database.close()

    def add_events(self, events: Iterable[Event]) -> None:
        """Add the native annotations of one export, and the events that they refer to."""
        self._database.execute("DELETE FROM contents")
        for event in events:
            content = event["content"]
            data = content.get("data")
            if isinstance(data, dict) and data.get("kind") == "native":
                self._add_annotation(data)
            else:
                row = (event["id"], msgspec.json.encode(content))
                self._database.execute("INSERT OR REPLACE INTO contents VALUES (?, ?)", row)

    def _add_annotation(self, data: dict[str, Any]) -> None:
        self.has_records = True
        plain = expand_data(data, self._limit) if is_compressed(data) else data
        if plain is None:
            raise UnresolvedValue("damaged")
        try:
            for batch in (plain, *plain.get("then", [])):
                self._add_batch(batch)
        except _INVALID_DATA:
            raise UnresolvedValue("record") from None

    def _add_batch(self, data: dict[str, Any]) -> None:
        file = data.get("file", "")
        number = data.get("record")
        value = data.get("value")
        if not isinstance(file, str) or not isinstance(number, int):
            raise UnresolvedValue("record")
        if number == 0:  # no records: the value is the facts about the file
            if not isinstance(value, dict):
                raise UnresolvedValue("record")
            self._add_facts(file, value)
            return
        facts = data.get("about")
        if isinstance(facts, dict):
            self._add_facts(file, facts)
        table = str(data.get("at", ""))
        place = int(data.get("place", 0))
        rows = []
        for offset, encoded in enumerate([value, *data.get("more", [])]):
            stored = marshal.dumps(decode_value(encoded, self._resolve))
            rows.append((file, number + offset, table, place + offset, stored))
        self._database.executemany("INSERT INTO units VALUES (?, ?, ?, ?, ?)", rows)

    def _resolve(self, reference: str) -> str:
        event_id, _, pointer = reference.partition("#")
        query = "SELECT content FROM contents WHERE id = ?"
        row = self._database.execute(query, (event_id,)).fetchone()
        if row is None:
            raise UnresolvedValue(event_id)
        text = resolve_pointer(msgspec.json.decode(row[0]), pointer)
        self._limit.take(len(text))
        return text

    def _add_facts(self, file: str, facts: dict[str, Any]) -> None:
        """Remember what a file is; each conversation of a zip may name only its own members."""
        known = self.files.setdefault(file, {**facts, "members": {}})
        members = facts.get("members")
        if isinstance(members, list):
            known["members"].update(dict.fromkeys(map(str, members)))

    def count_missing(self) -> int:
        """Return how many records are missing between those of the files.

        They belong to other conversations, or to none, such as credentials.
        """
        query = "SELECT MAX(number) - COUNT(DISTINCT number) FROM units GROUP BY file"
        return sum(gap for (gap,) in self._database.execute(query))

    def iter_units(self, file: str) -> Iterator[tuple[str, int, Any]]:
        """Yield list or table, position and value of the units of a file, in order."""
        query = "SELECT at, place, value FROM units WHERE file = ? ORDER BY number, rowid"
        for table, place, stored in self._database.execute(query, (file,)):
            yield table, place, marshal.loads(stored)


def restore_files(
    export: Path, folder: Path, most: int | None = None
) -> tuple[RestoreResult, bool]:
    """Write the source of an export, or of a folder of exports, into a new folder.

    Return what was written, and whether the source was redacted. `most` limits the bytes that
    compressed data may expand to.
    """
    paths = list_exports(export) if export.is_dir() else [export]
    options = {"redact": "none", "include": "include-internal", "internal": "full"}
    context = Context(ExportOptions.of(options))
    is_redacted = False
    if most is None:
        most = ExpansionLimit.for_size(sum(Source.of(path).size for path in paths)).left

    def iter_exports() -> Iterator[Iterable[Event]]:
        nonlocal is_redacted
        for path in paths:
            source = Source.of(path)
            if not load_reader("open_token").sniff(source):
                raise InputError(
                    "this is not an Open-Token export",
                    where=source.name,
                    help="name an export, not its source",
                )
            record = read_record(source, context, "open_token", expand=False)
            redaction = record.conversation.get("redaction", {})
            is_redacted = is_redacted or redaction.get("mode", "none") != "none"
            yield record.events

    return restore(iter_exports(), folder, most), is_redacted


def restore(
    exports: Iterable[Iterable[Event]], folder: Path, most: int = EXPANSION_MIN_LIMIT
) -> RestoreResult:
    """Write the files that one export, or several of one source, were made from to a new folder."""
    store = UnitStore(ExpansionLimit(most))
    try:
        for events in exports:
            store.add_events(events)
        if not store.files and store.has_records:
            raise UnresolvedValue("about")
        if not store.files:
            raise InputError(
                "this export does not contain its source",
                help="only an export made with native=full can be restored",
                code="restore.native",
            )
        return _write_files(store, folder)
    except (UnresolvedValue, *_INVALID_DATA):
        raise InputError(
            "parts of the source were left out of this export",
            help="restore needs redact=none include=include-internal internal=full branches=all native=full",
            code="restore.partial",
        ) from None
    except ExpansionError:
        raise InputError(
            f"the source in this export expands to more than {most:,} bytes",
            help="if you trust it, raise the limit with --limit BYTES",
            code="restore.large",
        ) from None
    finally:
        store.close()


def _write_files(store: UnitStore, folder: Path) -> RestoreResult:
    result = RestoreResult()
    with atomic_folder(folder) as target:
        for file, facts in store.files.items():
            if file.startswith("!"):  # a member of a zip
                continue
            name = _sanitize_name(file or str(facts.get("name") or "source"))
            make_parents(target / name)
            shape = facts.get("shape")
            if shape == "sqlite":
                result.records += _write_database(target / name, facts, store.iter_units(file))
            elif shape == "zip":
                write_atomic(target / name, _build_zip(store, facts, result))
            else:
                write_atomic(target / name, _build_file(store, file, facts, result))
            result.files.append(name)
    result.missing = store.count_missing()
    return result


def _sanitize_name(name: str) -> str:
    """Return a relative path that stays inside its folder."""
    steps = []
    for step in name.split("/"):
        if step == "..":
            steps.append("_")
        elif step not in ("", "."):
            step = re.sub(r"[\x00-\x1f:\\]", "_", step)
            steps.append(_fit_windows(step) if sys.platform == "win32" else step)
    return "/".join(steps) or "source"


def _fit_windows(step: str) -> str:
    """Return a name that Windows takes for a file: it has devices such as NUL in every folder."""
    step = re.sub(r'[<>"|?*]', "_", step)
    step = re.sub(r"[. ]+$", "_", step)
    if _DEVICE.fullmatch(step):
        return f"_{step}"
    return step


def _build_file(store: UnitStore, file: str, facts: dict[str, Any], result: RestoreResult) -> bytes:
    units = list(store.iter_units(file))
    result.records += len(units)
    values = [value for _, _, value in units]
    match facts.get("shape"):
        case "text":
            text = "".join(map(str, values)).encode()
            # Reading removes one mark of the byte order: what still begins with one had two.
            return codecs.BOM_UTF8 + text if text.startswith(codecs.BOM_UTF8) else text
        case "bytes":
            return b"".join(value for value in values if isinstance(value, bytes))
        case "lines":
            return b"".join(map(_encode_line, values))
        case "glued":
            return b"".join(_encode_indented(value) for value in values)
        case "list":
            return b"[\n" + b",\n".join(map(_encode_json, values)) + b"\n]\n"
    return _encode_indented(_build_document(units))


def _build_document(units: list[tuple[str, int, Any]]) -> Any:
    """Put the items of its lists back into a document."""
    document: Any = {}
    for key, _, value in units:
        if not key:
            document = value
            break
    if isinstance(document, dict):
        for key, _, value in units:
            if key:
                document.setdefault(key, []).append(value)
    return document


def _encode_indented(value: Any) -> bytes:
    raw = _encode_json(value)
    # Indentation grows with every level, so deep values are written on one line.
    if measure_depth(raw) <= _MAX_INDENTED_DEPTH:
        raw = msgspec.json.format(raw, indent=2)
    return raw + b"\n"


def _encode_line(value: Any) -> bytes:
    """Return a record as a line; bytes are a line as it was, because it was torn or repaired."""
    return value if isinstance(value, bytes) else _encode_json(value) + b"\n"


def _encode_json(value: Any) -> bytes:
    raw = run_with_fresh_stack(msgspec.json.encode, value)
    if b"null" in raw:
        with contextlib.suppress(RecursionError):
            return msgspec.json.encode(_spell_infinity(value))
    return raw


def _spell_infinity(value: Any) -> Any:
    """Replace infinite numbers, which would be encoded as null, by a literal that overflows."""
    if isinstance(value, dict):
        return {key: _spell_infinity(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_spell_infinity(item) for item in value]
    if isinstance(value, float) and value in (inf, -inf):
        return msgspec.Raw(b"1e999" if value > 0 else b"-1e999")
    return value


def _build_zip(store: UnitStore, facts: dict[str, Any], result: RestoreResult) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in facts["members"]:
            member = store.files.get(f"!{name}")
            if member is not None:
                data = _build_file(store, f"!{name}", member, result)
                archive.writestr(zipfile.ZipInfo(name, _MEMBER_TIME), data)
    return out.getvalue()


def _write_database(
    path: Path, facts: dict[str, Any], units: Iterator[tuple[str, int, Any]]
) -> int:
    """Write a database with the same tables and rows and return the number of rows.

    The schema is untrusted: it may create tables and indexes, and nothing else.
    """
    database = sqlite3.connect(path)
    database.set_authorizer(_authorize)
    count = 0
    try:
        schema = [sql for sql in facts.get("schema", []) if isinstance(sql, str)]
        for sql in schema:
            if re.match(r"CREATE\s+TABLE\b", sql, re.IGNORECASE):
                database.execute(sql)
        inserts = {}
        for table, columns in facts.get("columns", {}).items():
            inserts[table] = _build_insert(table, columns)
        for table, _, row in units:
            database.execute(inserts[table], row)
            count += 1
        # After the rows, which is faster.
        for sql in schema:
            if re.match(r"CREATE\s+(UNIQUE\s+)?INDEX\b", sql, re.IGNORECASE):
                database.execute(sql)
        database.commit()
    except (sqlite3.Error, KeyError, *_INVALID_DATA):
        raise InputError(
            "the database in this export cannot be rebuilt",
            help="its schema needs more than tables and indexes, or its rows do not fit",
            code="restore.sqlite",
        ) from None
    finally:
        database.close()
    return count


def _build_insert(table: str, columns: list[str]) -> str:
    names = ", ".join(map(quote_identifier, columns))
    placeholders = ", ".join("?" for _ in columns)
    return f"INSERT INTO {quote_identifier(table)} ({names}) VALUES ({placeholders})"


def _authorize(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    is_allowed = action in _ALLOWED_ACTIONS
    if action == sqlite3.SQLITE_UPDATE:
        is_allowed = first in _UPDATED_BY_SQLITE
    elif action == sqlite3.SQLITE_FUNCTION:
        is_allowed = second in _ALLOWED_FUNCTIONS
    if is_allowed:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY
