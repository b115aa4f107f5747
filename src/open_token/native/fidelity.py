"""Fidelity: how much of a source is in its export.

Records, text, fields and usage are counted from the source itself, independently of its reader.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import msgspec

from open_token.jsontools.timestamps import to_utc
from open_token.model.document import Event, Record
from open_token.model.omissions import Note
from open_token.native.units import SourcePart, SourceUnit, iter_owned_units
from open_token.redaction.markers import MARKER_START, split_at_markers
from open_token.registry import Reader, load_reader
from open_token.sources.source import IrregularLine, Source

# Shorter strings are names, ids and keywords of the format, not text.
MIN_TEXT = 40

_MAX_HELD_TEXT = 64 << 20
_MAX_JSON = 1 << 22
_MAX_FIELDS = 4000
_MAX_DEPTH = 60
_MAX_PIECES = 16
# A key that names a field. Any other key, such as a path or an id, is content and is not shown.
_FIELD_NAME = re.compile(r"(?=[^0-9]*(?:[0-9][^0-9]*){0,4}$)[A-Za-z_$][A-Za-z0-9_$.-]{0,39}")
# One word: a hash, an id, a database key, a signature, an image. Nobody said it.
_OPAQUE = re.compile(r"\s*(?:data:[\w.+-]+/[\w.+-]+;base64,)?[A-Za-z0-9+/=_:-]+\s*")
# Clients and models put tags around prompts and reasoning, and readers split text there.
_TAG = re.compile(r"</?[A-Za-z][A-Za-z_-]*>")
# The beginning of a saved stream of server-sent events.
_EVENT_STREAM = re.compile(r"(?:(?:event|id): .*\r?\n)?data: [{\[]")
# What may precede the text of a line: a margin, and in YAML and event streams a key.
_MARGIN = re.compile(r"[\s>#*|-]*")
_LINE_KEY = re.compile(r"[\w.-]{1,40}:\s+(?=\S)")
# Fields that hold side data, not what somebody said.
_SIDE_DATA_KEYS = frozenset(
    (
        "toolUseResult",
        "signature",
        "thinkingSignature",
        "thoughtSignature",
        "thought_signature",
        "encrypted_content",
        "reasoningOpaque",
        "snapshot",
        "trackedFileBackups",
    )
)
_REASONING_KEYS = frozenset(
    (
        "thinking",
        "thought",
        "thoughts",
        "think",
        "reasoning",
        "reasoning_content",
        "reasoningText",
        "thinking_blocks",
    )
)


@dataclass
class FieldCoverage:
    """A field of the source's records: how often it has a value, and how often that is exported."""

    path: str
    seen: int = 0
    kept: int = 0
    first: str = ""


@dataclass
class FidelityReport:
    """What was read, and how much of it is in the export.

    `said` counts characters of messages and tool data, `text` those of all long strings, side data
    included. `reasoning_left` counts characters of hidden reasoning that are not in the export.
    """

    records: int = 0
    carried: int = 0
    said: int = 0
    said_kept: int = 0
    reasoning_left: int = 0
    text: int = 0
    text_kept: int = 0
    fields: int = 0
    unmapped: list[FieldCoverage] = field(default_factory=list)
    skipped: list[Note] = field(default_factory=list)
    usage: dict[str, int] = field(default_factory=dict)
    usage_events: int = 0

    @property
    def percent(self) -> float:
        """The percentage of what people, models and tools said that is in the export."""
        return 100.0 * self.said_kept / self.said if self.said else 100.0

    @property
    def percent_of_all(self) -> float:
        """The same for all text, side data and signatures included."""
        return 100.0 * self.text_kept / self.text if self.text else 100.0

    def as_json(self) -> dict[str, Any]:
        """Return the report for scripts."""
        return {
            "schema": "open-token/fidelity/1",
            "records": {"read": self.records, "carried": self.carried},
            "said": {
                "characters": self.said,
                "kept": self.said_kept,
                "percent": round(self.percent, 2),
                "reasoning_left_out": self.reasoning_left,
            },
            "text": {
                "characters": self.text,
                "kept": self.text_kept,
                "percent": round(self.percent_of_all, 2),
            },
            "fields": {"seen": self.fields, "unmapped": [asdict(item) for item in self.unmapped]},
            "skipped": [msgspec.to_builtins(note) for note in self.skipped],
            "usage": {**self.usage, "events": self.usage_events},
        }


class ExportObserver:
    """Sees every event as it is written, and remembers which strings it holds."""

    def __init__(self) -> None:
        self._known: set[bytes] = set()
        self._long_texts: list[str] = []
        self._masked_texts: list[list[str]] = []
        self._size = 0
        self.usage: dict[str, int] = {}
        self.usage_events = 0

    def meet(self, record: Record) -> None:
        """Take the facts about the whole conversation."""
        self.learn(record.conversation.get("title") or "")
        self.learn(record.conversation["id"] or "")
        for participant in record.participants:
            for value in participant.values():
                self.learn(str(value))

    def take(self, event: Event) -> None:
        """Take one event."""
        for value in (event["content"], event.get("ts"), event.get("links")):
            for text, _ in _iter_texts(value, ""):
                self.learn(text)
        usage = event.get("usage")
        if usage:
            self.usage_events += 1
            for name, count in usage.items():
                if isinstance(count, int):
                    self.usage[name] = self.usage.get(name, 0) + count
                    self._known.add(_compute_digest(str(count)))

    def learn(self, text: str) -> None:
        """Remember a string that is in the export."""
        text = text.strip()
        digest = _compute_digest(text)
        if digest in self._known:
            return
        self._known.add(digest)
        if "</" in text:
            self._known.update(map(_compute_digest, _split_at_tags(text)))
        if len(text) < MIN_TEXT:
            return
        if "\n" in text:
            for row in text.splitlines():
                line = row.strip()
                if len(line) >= MIN_TEXT:
                    self._known.add(_compute_digest(line))
                    self._learn_json(line)
        if MARKER_START in text:
            self._masked_texts.append(split_at_markers(text))
        if self._size < _MAX_HELD_TEXT:
            self._long_texts.append(text)
            self._size += len(text)

    def _learn_json(self, line: str) -> None:
        """Remember the strings of a JSON value that is one line of a text: a tool's output."""
        value = _parse_json(line) if line[-1] in "}]" else None
        if value is not None:
            for text, _ in _iter_texts(value, ""):
                self.learn(text)

    def knows(self, text: str) -> bool:
        """Return whether a string is in the export, as a whole or piece by piece between tags."""
        if self._contains(text):
            return True
        pieces = _split_at_tags(text) if "</" in text else []
        return bool(pieces) and all(map(self._contains, pieces))

    def _contains(self, text: str) -> bool:
        """Return whether a string is there verbatim, as a timestamp, or inside a longer string."""
        text = text.strip()
        if _compute_digest(text) in self._known:
            return True
        if len(text) < MIN_TEXT:
            timestamp = to_utc(text)
            return timestamp is not None and _compute_digest(timestamp) in self._known
        if any(text in longer for longer in self._long_texts):
            return True
        return any(_matches_masked(text, pieces) for pieces in self._masked_texts)


def _split_at_tags(text: str) -> list[str]:
    """Return the pieces of a text before, between and after tags."""
    pieces = [part.strip() for part in _TAG.split(text, _MAX_PIECES)]
    return [piece for piece in pieces if piece]


def _matches_masked(text: str, pieces: list[str]) -> bool:
    """Return whether a text is what a masked text was before redaction."""
    if not text.startswith(pieces[0]) or not text.endswith(pieces[-1]):
        return False
    position = len(pieces[0])
    for piece in pieces[1:]:
        position = text.find(piece, position)
        if position < 0:
            return False
        position += len(piece)
    return True


def merge_notes(notes: list[Note]) -> list[Note]:
    """Merge the notes of several conversations: one of each kind, with the total count."""
    merged: dict[tuple[str, str], Note] = {}
    for note in notes:
        key = (note.code, note.detail)
        known = merged.get(key)
        merged[key] = note if known is None else known.plus(note)
    return list(merged.values())


def measure_fidelity(
    source: Source, reader: str, observer: ExportObserver, notes: list[Note]
) -> FidelityReport:
    """Walk the source independently of its reader, and look for all of it in the export."""
    report = FidelityReport(
        skipped=merge_notes(notes), usage=observer.usage, usage_events=observer.usage_events
    )
    loaded = load_reader(reader)
    split = re.compile(loaded.definition.block_separator or "$")
    side_data = _SIDE_DATA_KEYS.union(loaded.definition.technical_fields)
    search = _TextSearch(observer, report, side_data)
    for part, units in _iter_units(source, loaded):
        for unit in units:
            # Blocks of a file that nobody could parse: an export has nothing to compare them with.
            if isinstance(unit.value, bytes):
                continue
            report.records += 1
            texts: Iterator[tuple[str, str]]
            if isinstance(unit.value, IrregularLine):
                texts = _iter_irregular_texts(unit.value)
            elif part.shape == "text":
                texts = _iter_lines(unit.value, split)
            elif part.shape == "sqlite":
                row = dict(zip(part.facts["columns"][unit.at], unit.value, strict=True))
                texts = _iter_texts(row, "", named=side_data)
            else:
                texts = _iter_texts(unit.value, "", named=side_data)
            place = _format_place(part, unit)
            report.carried += search.search(texts, place, is_side_data=unit.at in side_data)
    report.fields = len(search.fields)
    report.unmapped = [item for item in search.fields.values() if not item.kept]
    return report


def _iter_units(
    source: Source, reader: Reader
) -> Iterator[tuple[SourcePart, Iterator[SourceUnit]]]:
    """Yield the units of the source; for text, the values in it if its reader can parse them."""
    is_whole_text = source.shape == "text" and source.conversation is None
    documents = reader.parse_documents(source) if is_whole_text else None
    for part, units in iter_owned_units(source, reader):
        if documents is not None and not part.file and part.shape == "text":
            values = enumerate(documents, 1)
            yield replace(part, shape="list"), (SourceUnit(n, value) for n, value in values)
        else:
            yield part, units


def _iter_lines(text: str, split: re.Pattern[str] | None = None) -> Iterator[tuple[str, str]]:
    """Yield the long lines of a text with their keys, without margins.

    A line at which a conversation begins is part of the format; nobody said it.
    """
    for row in text.splitlines():
        margin = _MARGIN.match(row)
        line = row[margin.end() :].strip() if margin else row.strip()
        if len(line) < MIN_TEXT or (split and split.match(row)):
            continue
        key = _LINE_KEY.match(line)
        if key:
            value = line[key.end() :].strip("'\"")
            yield from _iter_texts(value, key[0].strip(": "))
        else:
            yield from _iter_texts(line, "line")


def _format_place(part: SourcePart, unit: SourceUnit) -> str:
    """Return where a unit is, in the words of an error message: `file.jsonl line 3`."""
    if unit.at:
        # In a document a unit is numbered within its list; in a database within its table.
        number = unit.place + 1 if part.shape == "document" else unit.number
        place = f"{unit.at} {number}"
    elif part.shape == "lines":
        place = f"line {unit.number}"
    else:
        place = f"record {unit.number}"
    if part.file:
        file = part.file.lstrip("!")
        return f"{file} {place}"
    return place


class _TextSearch:
    """Looks for the texts of a source in an export, and counts each text once."""

    def __init__(
        self, observer: ExportObserver, report: FidelityReport, side_data: frozenset[str]
    ) -> None:
        self._observer = observer
        self._report = report
        self._side_data = side_data
        self._results: dict[bytes, bool] = {}
        self.fields: dict[str, FieldCoverage] = {}

    def search(
        self, texts: Iterator[tuple[str, str]], place: str, is_side_data: bool = False
    ) -> bool:
        """Search the texts of one unit; return whether a long one of them is in the export.

        `is_side_data` says that the whole unit holds nothing anybody said.
        """
        is_carried = False
        for text, path in texts:
            coverage = self.fields.get(path)
            if coverage is None and len(self.fields) < _MAX_FIELDS:
                coverage = self.fields[path] = FieldCoverage(path, first=place)
            is_long = len(text.strip()) >= MIN_TEXT
            digest = _compute_digest(text.strip())
            is_kept = self._results.get(digest)
            if is_kept is None:
                is_kept = self._results[digest] = self._observer.knows(text)
                if is_long:
                    self._count(path, text, is_kept, is_side_data)
            if coverage:
                coverage.seen += 1
                coverage.kept += is_kept
            is_carried = is_carried or (is_kept and is_long)
        return is_carried

    def _count(self, path: str, text: str, is_kept: bool, is_side_data: bool) -> None:
        report = self._report
        length = len(text)
        steps = path.replace("[]", "").split(".")
        report.text += length
        report.text_kept += length * is_kept
        is_side_data = is_side_data or not self._side_data.isdisjoint(steps)
        if is_side_data or _OPAQUE.fullmatch(text):
            return
        report.said += length
        report.said_kept += length * is_kept
        if not is_kept and not _REASONING_KEYS.isdisjoint(steps):
            report.reasoning_left += length


def _iter_texts(
    value: Any,
    path: str,
    depth: int = 0,
    inside: bool = False,
    named: frozenset[str] = frozenset(),
) -> Iterator[tuple[str, str]]:
    """Yield every string and number of a value with its path.

    JSON inside a string is searched as well; all of it has the path of that string, to which only
    the fields in `named` are added.
    """
    if isinstance(value, str):
        yield from _iter_string_texts(value, path, depth, named)
    elif depth > _MAX_DEPTH and isinstance(value, dict | list):
        for text in _iter_deep_texts(value):
            yield text, path
    elif isinstance(value, dict):
        for key, item in value.items():
            inner_path = path
            if not inside or key in named:
                name = key if _FIELD_NAME.fullmatch(key) else "*"
                inner_path = f"{path}.{name}" if path else name
            yield from _iter_texts(item, inner_path, depth + 1, inside, named)
    elif isinstance(value, list):
        inner_path = path if inside else f"{path}[]"
        for item in value:
            yield from _iter_texts(item, inner_path, depth + 1, inside, named)
    elif isinstance(value, int | float) and not isinstance(value, bool) and not -9 <= value <= 9:
        yield str(value), path


def _iter_irregular_texts(line: IrregularLine) -> Iterator[tuple[str, str]]:
    """Yield the texts of the records of a line; the whole line if there are none."""
    if not line.records:
        yield line.raw.decode("utf-8", "replace"), "line"
    for record in line.records:
        yield from _iter_texts(record, "")


def _iter_string_texts(
    value: str, path: str, depth: int, named: frozenset[str]
) -> Iterator[tuple[str, str]]:
    inner = _parse_json(value) if depth <= _MAX_DEPTH else None
    if inner is not None:
        yield from _iter_texts(inner, path, depth + 1, True, named)
    elif depth <= _MAX_DEPTH and _EVENT_STREAM.match(value):
        for line, _ in _iter_lines(value):
            yield line, path
    elif value.strip():
        yield value, path


def _iter_deep_texts(value: Any) -> Iterator[str]:
    """Yield the strings and numbers of a value nested deeper than one should recurse."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            stack += reversed(list(item.values()))
        elif isinstance(item, list):
            stack += reversed(item)
        else:
            for text, _ in _iter_texts(item, ""):
                yield text


def _parse_json(text: str) -> Any:
    """Return the object, array or string that a string holds as JSON; None if it holds none."""
    start = text.lstrip()[:1]
    if start not in ("{", "[", '"') or len(text) > _MAX_JSON:
        return None
    try:
        inner = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return inner if inner and isinstance(inner, dict | list | str) else None


def _compute_digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
