"""OT001 to OT016: the bytes of an export, one JSON document or NDJSON lines in all three shapes,
read strictly."""

import io
from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from open_token.checking._findings import Add, Check, shown
from open_token.model import EVENT_TYPES
from open_token.strict import Fault, StrictError, parse

CHECKS = {
    "OT001": Check(
        "error",
        "The file is UTF-8 without a byte order mark",
        "JSON is exchanged as UTF-8; a byte order mark stops many parsers",
        "save the file as UTF-8 without a byte order mark",
    ),
    "OT002": Check(
        "error",
        "The file is JSON; of a stream, every line is",
        "the output must be machine-parseable, with nothing around it",
        "remove what is not JSON at that place, or export again",
    ),
    "OT003": Check(
        "error",
        "No key stands twice in one object",
        "readers differ in which value they keep, so two of them see different records",
        "keep one of the values",
    ),
    "OT004": Check(
        "error",
        "Every number is a finite 64-bit float",
        "NaN and Infinity are not JSON, and larger numbers become Infinity",
        "write the value as a string",
    ),
    "OT005": Check(
        "error",
        "No string holds half of a surrogate pair",
        "such a string cannot be written as UTF-8 and has no canonical bytes",
        "replace it by U+FFFD",
    ),
    "OT006": Check(
        "error",
        "Containers are nested at most 128 deep",
        "deeper ones crash readers",
        "write the inner part as a string of JSON",
    ),
    "OT007": Check(
        "error",
        "Integers lie within 2^53-1",
        "many readers round larger ones without a word, and the hash does not cover their last digits",
        "write the value as a string of digits and list it in integrity.coercions",
    ),
    "OT008": Check(
        "error",
        "Only JSON types, with strings for keys",
        "a document in memory must mean the same once it is written",
        "turn dates, tuples and other objects into JSON values first",
    ),
    "OT011": Check(
        "error",
        "A stream starts with its header",
        "the header says which version the lines follow",
        "put a header line first",
    ),
    "OT012": Check(
        "error",
        "A stream has one header",
        "two headers mean two exports in one file",
        "split the file",
    ),
    "OT013": Check(
        "error",
        "Every line is a header, an event or a footer",
        "other records have no meaning in an export",
        "remove the line",
    ),
    "OT014": Check(
        "error",
        "The footer is the last line",
        "what follows it is not covered by the hash",
        "remove the lines after the footer, or split the file",
    ),
    "OT015": Check(
        "warning",
        "A stream ends with a footer",
        "without one nobody can tell a whole stream from one that broke off",
        "export again, or wait until the session has ended",
    ),
    "OT016": Check(
        "warning",
        "The header of a stream carries conversation and participants",
        "without them the events have no names and no conversation id",
        "add both to the header line",
    ),
}

BROKEN: Any = object()
"""Stands for bytes that are not JSON."""

_FAULTS = {
    "bom": "OT001",
    "duplicate-key": "OT003",
    "not-a-number": "OT004",
    "number-range": "OT004",
    "lone-surrogate": "OT005",
    "too-deep": "OT006",
    "big-integer": "OT007",
}
_ENVELOPE = ("header", "event", "footer")
_LONGEST_HEADER = 1 << 24


def read_document(raw: bytes, add: Add) -> Any:
    """The JSON value of the bytes, BROKEN when there is none."""
    value, faults = _parse(raw, 0, add)
    _tell(faults, "", "document", add)
    return value


def _parse(raw: bytes, line: int, add: Add) -> tuple[Any, list[Fault]]:
    try:
        return parse(raw)
    except StrictError as error:
        check = "OT001" if error.reason == "invalid UTF-8" else "OT002"
        add(check, f"line {line or error.line}, column {error.column}", error.reason)
    return BROKEN, []


def _tell(faults: list[Fault], place: str, otherwise: str, add: Add) -> None:
    for fault in faults:
        path = fault.path.removeprefix("event.") if place else fault.path
        joined = f"{place}.{path}" if place and path and not path.startswith("[") else place + path
        add(_FAULTS[fault.code], joined or otherwise, fault.detail)


def is_stream(raw: bytes) -> bool:
    """Whether the bytes are lines of records and not one document."""
    first, _, rest = raw.lstrip().partition(b"\n")
    if len(first) > _LONGEST_HEADER and not rest.strip():
        return False
    try:
        record = orjson.loads(first)
    except orjson.JSONDecodeError:
        return first.rstrip().endswith(b"}") and rest.lstrip().startswith(b"{")
    return isinstance(record, dict) and (record.get("type") in _ENVELOPE or bool(rest.strip()))


def lines_of(raw: bytes) -> Iterator[bytes]:
    """The lines without their ends."""
    return (line.rstrip(b"\r\n") for line in io.BytesIO(raw))


class Stream:
    """An NDJSON export: its events one by one; after the last one the rest of the document is
    known."""

    def __init__(self, lines: Iterable[bytes], add: Add) -> None:
        self._lines = lines
        self._add = add
        self.document: dict[str, Any] = {}
        """Everything but the events, as it stands in the JSON form."""
        self.has_header = self.has_footer = False
        self.corrected: list[str] = []
        """What the footer says of the conversation in other words than the header, whose words no
        hash covers."""
        self.disputed: list[str] = []
        """What else they say differently: nobody can tell which of them counts."""
        self.count = 0

    def __iter__(self) -> Iterator[Any]:
        for number, line in enumerate(self._lines, 1):
            record, faults = _parse(line, number, self._add)
            if record is BROKEN:
                continue
            self._place_in_order(record, number)
            event = self._event(record, number)
            place = "" if event is BROKEN else f"events[{self.count}]"
            _tell(faults, place, f"line {number}", self._add)
            if event is not BROKEN:
                self.count += 1
                yield event
        self._check_end()

    def _place_in_order(self, record: Any, number: int) -> None:
        kind = record.get("type") if isinstance(record, dict) else None
        if self.has_footer:
            self._add("OT014", f"line {number}", "a record stands after the footer")
        if kind == "header" and self.has_header:
            self._add("OT012", f"line {number}", "a second header")
        if kind != "header" and number == 1:
            self._add("OT011", "line 1", f"the first record is {shown(kind)}, not a header")

    def _event(self, record: Any, number: int) -> Any:
        """The event of a line; BROKEN for a header, a footer and what is none of the three."""
        kind = record.get("type") if isinstance(record, dict) else None
        if kind == "header":
            self.has_header = True
            self.document |= {name: value for name, value in record.items() if name != "type"}
        elif kind == "footer":
            self.has_footer = True
            self._take_late_facts(record)
        elif (
            kind == "event" and "event_type" not in record and isinstance(record.get("event"), dict)
        ):
            if len(record) > 2:
                self._add("OT013", f"line {number}", "keys beside the event")
            return record["event"]
        elif kind == "event":
            return {_own_name(name): value for name, value in record.items() if name != "type"}
        elif isinstance(record, dict) and (
            kind in EVENT_TYPES or {"id", "seq", "actor_id"} <= record.keys()
        ):
            return record
        else:
            self._add("OT013", f"line {number}", f"a record of type {shown(kind)}")
        return BROKEN

    def _take_late_facts(self, footer: dict[str, Any]) -> None:
        for name, value in footer.items():
            known = self.document.get(name)
            if name == "conversation" and isinstance(value, dict) and isinstance(known, dict):
                self.corrected = [key for key in value if key in known and known[key] != value[key]]
                self.document[name] = {**known, **value}
            elif name == "participants" and isinstance(value, list) and isinstance(known, list):
                told = set(map(_plainly, known))
                self.document[name] = known + [
                    person for person in value if _plainly(person) not in told
                ]
            elif name != "type":
                if name in self.document and known != value:
                    self.disputed.append(name)
                self.document[name] = value

    def _check_end(self) -> None:
        if not self.has_footer:
            self._add("OT015", "the end", "the stream has no footer: it is not complete")
        for name in ("conversation", "participants"):
            if self.has_header and name not in self.document:
                self._add("OT016", "line 1", f"the header has no {name}")


def _plainly(person: Any) -> bytes:
    """The same bytes for the same participant: a list of many is not searched again for each."""
    try:
        return orjson.dumps(person, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:
        return repr(person).encode("utf-8", "replace")


def _own_name(name: str) -> str:
    return "type" if name == "event_type" else name
