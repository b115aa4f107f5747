"""The index of an archive: NDJSON, appended at every change and rewritten after each pass."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from open_token.errors import InputError
from open_token.library.file_ends import read_first_records
from open_token.sources.origin import find_files
from open_token.storage.files import append_bytes, read_ends, read_optional, write_atomic

INDEX_NAME = "index.ndjson"
INDEX_SCHEMA = "open-token/archive/1"

# The states of an entry.
CURRENT = "current"
GONE = "gone"
EARLIER = "earlier"
FAILED = "failed"
PENDING = "pending"
EMPTY = "empty"
COPY = "copy"

# The header of an export and its hash are within this many bytes of its ends.
_END_SIZE = 1 << 16
_EVENTS_HASH = re.compile(rb'"events_hash"\s*:\s*"([0-9a-f]{64})"')


class Entry(msgspec.Struct, omit_defaults=True, kw_only=True, frozen=True):
    """One conversation: its source, its export, and the state of both when they were last seen."""

    reader: str
    state: str
    file: str | None = None
    """Its export, relative to the archive."""
    source: str | None = None
    conversation: str | None = None
    """Its id in a source that may hold several."""
    id: str | None = None
    title: str | None = None
    started_at: str | None = None
    archived_at: str | None = None
    exported_at: str | None = None
    gone_at: str | None = None
    events: int | None = None
    events_hash: str | None = None
    bytes: int | None = None
    notes: dict[str, int] = {}
    """What the export omits: codes and counts."""
    options: str = ""
    sha256: str | None = None
    source_bytes: int = -1
    source_mtime_ns: int = -1
    updated: float | None = None
    related_files: list[str] = msgspec.field(default_factory=list, name="beside")
    """Other files and directories that belong to the source."""
    related_stamp: str = msgspec.field(default="", name="beside_stamp")
    heading: str | None = None
    """Its title, or else its first prompt: says in lists, and in its file name, what it is."""
    error: str | None = None
    replaces: str | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Identifies a conversation of a source, or a file whose source is unknown."""
        if self.source:
            return self.source, self.conversation or ""
        return "", self.file or ""


class _Head(msgspec.Struct):
    schema: str


class ExportFacts(msgspec.Struct, frozen=True):
    """What an export says about its conversation."""

    id: str
    title: str | None = None
    started_at: str | None = None


class _Document(msgspec.Struct):
    open_token_version: str
    conversation: ExportFacts
    exported_at: str | None = None


class Index:
    """The entries of an archive by key, in the order in which they were added."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / INDEX_NAME
        self.entries: dict[tuple[str, str], Entry] = {}
        self.is_changed = False
        self._load()

    def _load(self) -> None:
        raw = read_optional(self._path)
        head, *lines = (raw or b"").split(b"\n")
        if not self._is_ours(head):
            lines.insert(0, head)
            self.is_changed = True
        # After a line that was cut off, even if only its newline is missing, nothing may be appended.
        self.is_changed = self.is_changed or lines[-1:] != [b""]
        for line in filter(None, lines):
            try:
                entry = msgspec.json.decode(line.decode("utf-8"), type=Entry)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                self.is_changed = True  # damaged: the entry is rebuilt from the file
                continue
            if entry.file is None or _is_below(entry.file):
                self.entries[entry.key] = entry

    def _is_ours(self, head: bytes) -> bool:
        with contextlib.suppress(msgspec.DecodeError, RecursionError):
            schema = msgspec.json.decode(head, type=_Head).schema
            if schema != INDEX_SCHEMA:
                raise InputError(
                    "unsupported archive version",
                    where=str(self._path),
                    help="use the version of open-token that wrote it, or another directory",
                    code="archive.version",
                )
            return True
        return False

    def put(self, entry: Entry) -> None:
        """Add or replace an entry, also on disk."""
        self.entries[entry.key] = entry
        self.is_changed = True
        append_bytes(self._path, msgspec.json.encode(entry) + b"\n")

    def replace(self, old: Entry, new: Entry) -> None:
        """Replace an entry by one that may have another key."""
        if old.key != new.key:
            self.entries.pop(old.key, None)
        self.put(new)

    def drop(self, entry: Entry) -> None:
        """Remove an entry; the file follows with the next `write`."""
        del self.entries[entry.key]
        self.is_changed = True

    def write(self) -> None:
        """Rewrite the index atomically if anything changed."""
        if not self.is_changed:
            return
        lines = [msgspec.json.encode({"schema": INDEX_SCHEMA})]
        lines += [msgspec.json.encode(entry) for entry in self.entries.values()]
        write_atomic(self._path, b"\n".join(lines) + b"\n", 0o600)
        self.is_changed = False


def list_archived_files(folder: Path) -> Iterator[str]:
    """Yield the files of an archive by the names that its index uses."""
    for suffix in ("json", "ndjson"):
        for path in find_files(folder, f"*/*.{suffix}"):
            if not path.name.startswith("."):
                yield f"{path.parent.name}/{path.name}"


def read_export_facts(path: Path) -> tuple[ExportFacts, str | None, str | None] | None:
    """Return what an export says about its conversation, its hash and its time.

    Return None if the file is not an export.
    """
    records = read_first_records(path, _END_SIZE)
    with contextlib.suppress(msgspec.ValidationError):
        document = msgspec.convert(records[0] if records else None, _Document)
        head, tail = read_ends(path, _END_SIZE, _END_SIZE)
        hashes = _EVENTS_HASH.findall(head + tail)
        events_hash = hashes[-1].decode() if hashes else None
        return document.conversation, events_hash, document.exported_at
    return None


def _is_below(name: str) -> bool:
    """Return whether a name in an index stays inside the archive."""
    parts = name.split("/")
    return len(parts) == 2 and all(
        part and not part.startswith(".") and "\\" not in part for part in parts
    )
