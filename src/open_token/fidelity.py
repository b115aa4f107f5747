"""What of a source is in its export: records, text, fields, usage; counted on its own, not as the
reader tells it."""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import msgspec

from open_token.model import Event, Note, Record
from open_token.registry import load_reader
from open_token.sources.source import Source
from open_token.timestamps import to_utc
from open_token.units import Part, Unit, owned

LONG = 40
"""A string of that many characters is text; shorter ones are names, ids and words of the format."""
_HELD = 64 << 20
_LONGEST_JSON = 1 << 22
_MOST_FIELDS = 4000
_DEEPEST = 60
_MARK = re.compile(r"\[REDACTED:[a-z0-9_-]+:[0-9a-f]{8}\]")
_NAME = re.compile(r"(?=[^0-9]*(?:[0-9][^0-9]*){0,4}$)[A-Za-z_$][A-Za-z0-9_$.-]{0,39}")
"""A key that names a field; any other is content, such as a path or an id, and is not shown."""
_SEALED = re.compile(r"\s*(?:data:[\w.+-]+/[\w.+-]+;base64,)?[A-Za-z0-9+/=_:-]+\s*")
"""One run of letters: a hash, an id, a key of a database, a seal, an image, a pointer to a text;
nobody said it."""
_TAG = re.compile(r"</?[a-z][a-z_-]*>")
"""What clients and models put around prompts and reasoning; readers take a text apart there."""
_MOST_PIECES = 16
_ASIDE = frozenset(
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

_REASONING = frozenset(
    "thinking thought thoughts think reasoning reasoning_content reasoningText thinking_blocks".split()
)
_STREAM = re.compile(r"(?:(?:event|id): .*\r?\n)?data: [{\[]")
"""How a saved stream of events begins."""
_MARGIN = re.compile(r"[\s>#*|-]*")
_KEY = re.compile(r"[\w.-]{1,40}:\s+(?=\S)")
"""What may stand before the words of a line in a text: a margin, and in YAML and streams of events
a key."""


@dataclass
class Field:
    """One field of the source's records: how often it has a value, how often that value is in the
    export."""

    path: str
    seen: int = 0
    kept: int = 0
    first: str = ""


@dataclass
class Report:
    """The answer: what was read, what is carried, what is not."""

    records: int = 0
    carried: int = 0
    said: int = 0
    said_kept: int = 0
    reasoning_left: int = 0
    """How many of the characters that are not kept are hidden reasoning."""
    text: int = 0
    text_kept: int = 0
    fields: int = 0
    unmapped: list[Field] = field(default_factory=list)
    skipped: list[Note] = field(default_factory=list)
    usage: dict[str, int] = field(default_factory=dict)
    usage_events: int = 0

    @property
    def percent(self) -> float:
        """The share of what people, models and tools said that is in the export, in percent."""
        return 100.0 * self.said_kept / self.said if self.said else 100.0

    @property
    def percent_of_all(self) -> float:
        """The same of all text, side data and seals included."""
        return 100.0 * self.text_kept / self.text if self.text else 100.0

    def as_json(self) -> dict[str, Any]:
        """The report for scripts."""
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


class Witness:
    """Sees every event as it is written, and remembers what strings it holds."""

    def __init__(self) -> None:
        self._known: set[bytes] = set()
        self._long: list[str] = []
        self._masked: list[list[str]] = []
        self._size = 0
        self.usage: dict[str, int] = {}
        self.usage_events = 0

    def meet(self, record: Record) -> None:
        """What the export says of the whole."""
        for text in (record.conversation.get("title"), record.conversation["id"]):
            self.learn(text or "")
        for participant in record.participants:
            for value in participant.values():
                self.learn(str(value))

    def take(self, event: Event) -> None:
        """One more event."""
        for value in (event["content"], event.get("ts"), event.get("links")):
            for text, _ in _texts(value, ""):
                self.learn(text)
        if usage := event.get("usage"):
            self.usage_events += 1
            for name, count in usage.items():
                if isinstance(count, int):
                    self.usage[name] = self.usage.get(name, 0) + count
                    self._known.add(_digest(str(count)))

    def learn(self, text: str) -> None:
        """A string that is in the export."""
        text = text.strip()
        digest = _digest(text)
        if digest in self._known:
            return
        self._known.add(digest)
        if "</" in text:
            self._known.update(map(_digest, _pieces(text)))
        if len(text) < LONG:
            return
        if "\n" in text:
            self._known.update(
                _digest(line) for row in text.splitlines() if len(line := row.strip()) >= LONG
            )
        if "[REDACTED:" in text:
            self._masked.append(_MARK.split(text))
        if self._size < _HELD:
            self._long.append(text)
            self._size += len(text)

    def knows(self, text: str) -> bool:
        """Whether a string is in the export: whole, or each piece of it between tags."""
        if self._holds(text):
            return True
        pieces = _pieces(text) if "</" in text else []
        return bool(pieces) and all(map(self._holds, pieces))

    def _holds(self, text: str) -> bool:
        """Whether it is there as it is, as a time, or as a part of a longer one."""
        text = text.strip()
        if _digest(text) in self._known:
            return True
        if len(text) < LONG:
            return bool((when := to_utc(text)) and _digest(when) in self._known)
        return any(text in longer for longer in self._long) or any(
            _fits(text, pieces) for pieces in self._masked
        )


def _pieces(text: str) -> list[str]:
    """What stands before, between and behind tags."""
    return [piece for part in _TAG.split(text, _MOST_PIECES) if (piece := part.strip())]


def _fits(text: str, pieces: list[str]) -> bool:
    """Whether a text is what stood there before parts of it were masked."""
    if not text.startswith(pieces[0]) or not text.endswith(pieces[-1]):
        return False
    place = len(pieces[0])
    for piece in pieces[1:]:
        place = text.find(piece, place)
        if place < 0:
            return False
        place += len(piece)
    return True


def merged(notes: list[Note]) -> list[Note]:
    """The notes of several conversations: one of each kind, with the first place and how often in
    all."""
    made: dict[tuple[str, str], Note] = {}
    for note in notes:
        known = made.get((note.code, note.detail))
        made[note.code, note.detail] = (
            msgspec.structs.replace(known, count=known.count + note.count) if known else note
        )
    return list(made.values())


def judge(source: Source, reader: str, witness: Witness, notes: list[Note]) -> Report:
    """Walk the source on its own and look for all of it in the export."""
    report = Report(skipped=merged(notes), usage=witness.usage, usage_events=witness.usage_events)
    module = load_reader(reader)
    split = re.compile(module.definition.block_separator or "$")
    judging = _Judging(witness, report, _ASIDE.union(module.definition.technical_fields))
    for part, units in _units(source, module):
        for unit in units:
            if not isinstance(unit.value, bytes):
                report.records += 1
                texts = (
                    _lines(unit.value, split) if part.shape == "text" else _texts(unit.value, "")
                )
                report.carried += judging.judge(texts, _place(part, unit))
    report.fields = len(judging.fields)
    report.unmapped = [item for item in judging.fields.values() if not item.kept]
    return report


def _units(source: Source, module: Any) -> Iterator[tuple[Part, Iterator[Unit]]]:
    """The units of the source; of a text whose reader knows how to read the values in it, those."""
    is_whole = source.shape == "text" and source.conversation is None
    for part, units in owned(source, module):
        documents = None
        if is_whole and not part.file and part.shape == "text":
            documents = module.parse_documents(source)
        if documents is None:
            yield part, units
        else:
            yield (
                replace(part, shape="list"),
                (Unit(n, value) for n, value in enumerate(documents, 1)),
            )


def _lines(text: str, split: re.Pattern[str] | None = None) -> Iterator[tuple[str, str]]:
    """The lines of a text that is no JSON, each without its margin, and without the key that may
    stand before it.

    A line with which the reader says that a conversation begins is said by nobody."""
    for row in text.splitlines():
        line = row[_MARGIN.match(row).end() :].strip()  # type: ignore[union-attr]
        if len(line) >= LONG and not (split and split.match(row)):
            key = _KEY.match(line)
            words = line[key.end() :].strip("'\"") if key else line
            yield from _texts(words, key[0].strip(": ") if key else "line")


def _place(part: Part, unit: Unit) -> str:
    where = f"{part.file.lstrip('!')} " if part.file else ""
    if unit.at:
        return f"{where}{unit.at} {unit.place + 1 if part.shape == 'document' else unit.number}"
    return f"{where}{'line' if part.shape == 'lines' else 'record'} {unit.number}"


class _Judging:
    """Looks for texts in an export, and counts each once."""

    def __init__(self, witness: Witness, report: Report, aside: frozenset[str]) -> None:
        self._witness = witness
        self._report = report
        self._aside = aside
        self._judged: dict[bytes, bool] = {}
        self.fields: dict[str, Field] = {}

    def judge(self, texts: Iterator[tuple[str, str]], place: str) -> bool:
        """The texts of one unit; tells whether one of them is in the export."""
        carried = False
        for text, path in texts:
            known = self.fields.get(path)
            if known is None and len(self.fields) < _MOST_FIELDS:
                known = self.fields[path] = Field(path, first=place)
            is_long = len(text.strip()) >= LONG
            digest = _digest(text.strip())
            is_kept = self._judged.get(digest)
            if is_kept is None:
                is_kept = self._judged[digest] = self._witness.knows(text)
                if is_long:
                    self._count(path, text, is_kept)
            if known:
                known.seen += 1
                known.kept += is_kept
            carried = carried or (is_kept and is_long)
        return carried

    def _count(self, path: str, text: str, is_kept: bool) -> None:
        report, length = self._report, len(text)
        steps = path.replace("[]", "").split(".")
        report.text += length
        report.text_kept += length * is_kept
        if not self._aside.intersection(steps) and not _SEALED.fullmatch(text):
            report.said += length
            report.said_kept += length * is_kept
            report.reasoning_left += length * (not is_kept and not _REASONING.isdisjoint(steps))


def _texts(
    value: Any, path: str, depth: int = 0, inside: bool = False
) -> Iterator[tuple[str, str]]:
    """Every string and number of a value with its path, also inside JSON that a string holds, which
    is one field."""
    if isinstance(value, str):
        inner = _json(value)
        if depth > _DEEPEST or (inner is None and not _STREAM.match(value)):
            if value.strip():
                yield value, path
        elif inner is None:
            for line, _ in _lines(value):
                yield line, path
        else:
            yield from _texts(inner, path, depth + 1, True)
    elif depth > _DEEPEST and isinstance(value, dict | list):
        for text in _deep(value):
            yield text, path
    elif isinstance(value, dict):
        for key, item in value.items():
            name = key if _NAME.fullmatch(key) else "*"
            here = path if inside else f"{path}.{name}" if path else name
            yield from _texts(item, here, depth + 1, inside)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, path if inside else f"{path}[]", depth + 1, inside)
    elif isinstance(value, int | float) and not isinstance(value, bool) and not -9 <= value <= 9:
        yield str(value), path


def _deep(value: Any) -> Iterator[str]:
    """The strings and numbers of a value that is nested deeper than a walk should recurse."""
    left = [value]
    while left:
        item = left.pop()
        if isinstance(item, dict | list):
            left += reversed(list(item.values()) if isinstance(item, dict) else item)
        else:
            yield from (text for text, _ in _texts(item, ""))


def _json(text: str) -> Any:
    start = text.lstrip()[:1]
    if start not in ("{", "[") or len(text) > _LONGEST_JSON:
        return None
    try:
        inner = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return inner if inner and isinstance(inner, dict | list) else None


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
