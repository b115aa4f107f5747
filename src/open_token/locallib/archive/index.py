"""The index of an archive: a line for each conversation, appended as it changes, written anew after
each pass."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from open_token.errors import InputError
from open_token.locallib.file_ends import read_first_records
from open_token.sources.origin import files_below
from open_token.storage.files import append, ends_of, read_optional, write_whole

NAME = "index.ndjson"
SCHEMA = "open-token/archive/1"
CURRENT, GONE, EARLIER, FAILED, PENDING = "current", "gone", "earlier", "failed", "pending"
EMPTY, COPY = "empty", "copy"
_ENDS = 1 << 16
_HASH = re.compile(rb'"events_hash"\s*:\s*"([0-9a-f]{64})"')


class Entry(msgspec.Struct, omit_defaults=True, kw_only=True, frozen=True):
    """One conversation: where it came from, where it lies, and how both were when they were last
    seen."""

    reader: str
    state: str
    file: str | None = None
    """Its export, below the folder of the archive."""
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
    """What the export does not carry: codes and counts."""
    options: str = ""
    sha256: str | None = None
    source_bytes: int = -1
    source_mtime_ns: int = -1
    updated: float | None = None
    beside: list[str] = []
    """Files and folders that belong to the source."""
    beside_stamp: str = ""
    error: str | None = None
    replaces: str | None = None

    @property
    def key(self) -> tuple[str, str]:
        """What it is one of: a conversation of a source, or a file whose source nobody knows."""
        return (self.source, self.conversation or "") if self.source else ("", self.file or "")


class _Head(msgspec.Struct):
    schema: str


class ExportFacts(msgspec.Struct, frozen=True):
    """What an export tells of itself at its ends."""

    id: str
    title: str | None = None
    started_at: str | None = None


class _Document(msgspec.Struct):
    open_token_version: str
    conversation: ExportFacts
    exported_at: str | None = None


class Index:
    """The entries of an archive by key, in the order in which they came."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / NAME
        self.entries: dict[tuple[str, str], Entry] = {}
        self.is_changed = False
        self._load()

    def _load(self) -> None:
        raw = read_optional(self._path)
        head, *lines = (raw or b"").split(b"\n")
        if not self._is_ours(head):
            lines.insert(0, head)
            self.is_changed = True
        # A line that was cut off, if only by its end, must not be gone on with.
        self.is_changed = self.is_changed or lines[-1:] != [b""]
        for line in filter(None, lines):
            try:
                entry = msgspec.json.decode(line.decode("utf-8"), type=Entry)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                self.is_changed = True  # damaged: the files tell what it was
                continue
            if entry.file is None or _is_below(entry.file):
                self.entries[entry.key] = entry

    def _is_ours(self, head: bytes) -> bool:
        with contextlib.suppress(msgspec.DecodeError, RecursionError):
            schema = msgspec.json.decode(head, type=_Head).schema
            if schema != SCHEMA:
                raise InputError(
                    "this archive is of another version",
                    where=str(self._path),
                    help="use the open-token that made it, or another folder",
                    code="archive.version",
                )
            return True
        return False

    def put(self, entry: Entry) -> None:
        """Take an entry in, on the disk too."""
        self.entries[entry.key] = entry
        self.is_changed = True
        append(self._path, msgspec.json.encode(entry) + b"\n")

    def take(self, old: Entry, new: Entry) -> None:
        """Put an entry in the place of another."""
        if old.key != new.key:
            self.entries.pop(old.key, None)
        self.put(new)

    def drop(self, entry: Entry) -> None:
        """Forget an entry, from the next writing on."""
        del self.entries[entry.key]
        self.is_changed = True

    def write(self) -> None:
        """Write the index anew, whole, if anything changed."""
        if self.is_changed:
            lines = [
                msgspec.json.encode(item) for item in ({"schema": SCHEMA}, *self.entries.values())
            ]
            write_whole(self._path, b"\n".join(lines) + b"\n", 0o600)
            self.is_changed = False


def list_archived_files(folder: Path) -> Iterator[str]:
    """The names of the files in the folders of an archive, as its index has them."""
    for suffix in ("json", "ndjson"):
        for path in files_below(folder, f"*/*.{suffix}"):
            if not path.name.startswith("."):
                yield f"{path.parent.name}/{path.name}"


def read_export_facts(path: Path) -> tuple[ExportFacts, str | None, str | None] | None:
    """What an export tells of its conversation, its hash, and the time of the export; None when it
    is none."""
    records = read_first_records(path, _ENDS)
    with contextlib.suppress(msgspec.ValidationError):
        document = msgspec.convert(records[0] if records else None, _Document)
        head, tail = ends_of(path, _ENDS, _ENDS)
        found = _HASH.findall(head + tail)
        return document.conversation, found[-1].decode() if found else None, document.exported_at
    return None


def _is_below(name: str) -> bool:
    """Whether a name in an index is that of a file in a folder of the archive, and not of one
    elsewhere."""
    parts = name.split("/")
    return len(parts) == 2 and all(
        part and not part.startswith(".") and "\\" not in part for part in parts
    )
