"""Strict reading of export files, JSON or NDJSON, with a report of everything that is ambiguous.

Problems are reported with the ids OT001 to OT016 of `validation.file`.
"""

import io
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import orjson

from open_token.jsontools.strict import Fault, StrictError, describe_value, parse_strict
from open_token.model.document import EVENT_TYPES

BROKEN: Any = object()
"""Stands for bytes that are not JSON."""

ReportProblem = Callable[[str, str, str], None]
"""Takes the id of a check, the place and a message."""

_CHECK_OF_FAULT = {
    "bom": "OT001",
    "duplicate-key": "OT003",
    "not-a-number": "OT004",
    "number-range": "OT004",
    "lone-surrogate": "OT005",
    "too-deep": "OT006",
    "big-integer": "OT007",
}
FLAT = "flat"
"""A line that is the event with its type in `event_type`: the shape that we write."""
NESTED = "nested"
BARE = "bare"
_LINE_TYPES = ("header", "event", "footer")
_MAX_HEADER = 1 << 24


def read_document(raw: bytes, report: ReportProblem) -> Any:
    """Return the JSON value of the bytes, or BROKEN."""
    value, faults = _parse(raw, 0, report)
    _report_faults(faults, "", "document", report)
    return value


def _parse(raw: bytes, line: int, report: ReportProblem) -> tuple[Any, list[Fault]]:
    try:
        return parse_strict(raw)
    except StrictError as error:
        check = "OT001" if error.reason == "invalid UTF-8" else "OT002"
        report(check, f"line {line or error.line}, column {error.column}", error.reason)
    return BROKEN, []


def _report_faults(faults: list[Fault], place: str, default: str, report: ReportProblem) -> None:
    for fault in faults:
        path = fault.path
        if place:
            path = path.removeprefix("event.")
            if path and not path.startswith("["):
                path = f".{path}"
        report(_CHECK_OF_FAULT[fault.code], place + path or default, fault.detail)


def is_stream(raw: bytes) -> bool:
    """Return whether the bytes are NDJSON and not one document."""
    first, _, rest = raw.lstrip().partition(b"\n")
    if len(first) > _MAX_HEADER and not rest.strip():
        return False
    try:
        record = orjson.loads(first)
    except orjson.JSONDecodeError:
        return first.rstrip().endswith(b"}") and rest.lstrip().startswith(b"{")
    if not isinstance(record, dict):
        return False
    return record.get("type") in _LINE_TYPES or bool(rest.strip())


def iter_lines(raw: bytes) -> Iterator[bytes]:
    """Yield the lines without line ends."""
    return (line.rstrip(b"\r\n") for line in io.BytesIO(raw))


class NdjsonReader:
    """Iterates over the events of an NDJSON export in any of its three shapes.

    After the last event, `document` holds everything else, and `shapes` the shapes of its lines, of
    which a verified stream has one: a hash covers the event, not the line. `corrected` lists what
    the footer says differently about the conversation than the header, whose values no hash covers;
    `disputed` lists other fields in which they differ.
    """

    def __init__(self, lines: Iterable[bytes], report: ReportProblem) -> None:
        self._lines = lines
        self._report = report
        self.document: dict[str, Any] = {}
        self.has_header = False
        self.has_footer = False
        self.corrected: list[str] = []
        self.disputed: list[str] = []
        self.shapes: set[str] = set()
        self.count = 0

    def __iter__(self) -> Iterator[Any]:
        for number, line in enumerate(self._lines, 1):
            record, faults = _parse(line, number, self._report)
            if record is BROKEN:
                continue
            self._check_order(record, number)
            event = self._read_event(record, number)
            place = "" if event is BROKEN else f"events[{self.count}]"
            _report_faults(faults, place, f"line {number}", self._report)
            if event is not BROKEN:
                self.count += 1
                yield event
        self._check_end()

    def _check_order(self, record: Any, number: int) -> None:
        kind = record.get("type") if isinstance(record, dict) else None
        if self.has_footer:
            self._report("OT014", f"line {number}", "a record follows the footer")
        if kind == "header" and self.has_header:
            self._report("OT012", f"line {number}", "a second header")
        if kind != "header" and number == 1:
            described = describe_value(kind)
            self._report("OT011", "line 1", f"the first record is {described}, not a header")

    def _read_event(self, record: Any, number: int) -> Any:
        """Return the event of a line; BROKEN for a header, a footer and anything else."""
        kind = record.get("type") if isinstance(record, dict) else None
        if kind == "header":
            self.has_header = True
            self.document |= {name: value for name, value in record.items() if name != "type"}
            return BROKEN
        if kind == "footer":
            self.has_footer = True
            self._merge_footer(record)
            return BROKEN
        if kind == "event":
            return self._read_event_line(record, number)
        if isinstance(record, dict) and _is_bare_event(record):
            self.shapes.add(BARE)
            return record
        self._report("OT013", f"line {number}", f"a record of type {describe_value(kind)}")
        return BROKEN

    def _read_event_line(self, record: dict[str, Any], number: int) -> dict[str, Any]:
        """Read the flat shape, with event_type, or the nested one, with an event object."""
        if "event_type" not in record and isinstance(record.get("event"), dict):
            if len(record) > 2:
                self._report("OT013", f"line {number}", "keys beside the event")
            nested: dict[str, Any] = record["event"]
            self.shapes.add(NESTED)
            return nested
        self.shapes.add(FLAT)
        event = {}
        for name, value in record.items():
            # `type` says that the line is an event; the type of the event itself is `event_type`.
            if name == "event_type":
                event["type"] = value
            elif name != "type":
                event[name] = value
        return event

    def _merge_footer(self, footer: dict[str, Any]) -> None:
        """Add what a writer knew only at the end; where both know something, the footer wins."""
        for name, value in footer.items():
            if name == "type":
                continue
            known = self.document.get(name)
            if name == "conversation" and isinstance(value, dict) and isinstance(known, dict):
                self._merge_conversation(known, value)
            elif name == "participants" and isinstance(value, list) and isinstance(known, list):
                self.document[name] = _merge_participants(known, value)
            else:
                if name in self.document and known != value:
                    self.disputed.append(name)
                self.document[name] = value

    def _merge_conversation(self, known: dict[str, Any], added: dict[str, Any]) -> None:
        self.corrected = [key for key in added if key in known and known[key] != added[key]]
        self.document["conversation"] = {**known, **added}

    def _check_end(self) -> None:
        if not self.has_footer:
            self._report("OT015", "the end", "the stream has no footer: it is not complete")
        for name in ("conversation", "participants"):
            if self.has_header and name not in self.document:
                self._report("OT016", "line 1", f"the header has no {name}")


def _is_bare_event(record: dict[str, Any]) -> bool:
    """Return whether a line is the event itself, without a line type."""
    return record.get("type") in EVENT_TYPES or {"id", "seq", "actor_id"} <= record.keys()


def _merge_participants(known: list[Any], added: list[Any]) -> list[Any]:
    # By their bytes, so that a long list is not searched again for each of them.
    seen = {_encode_participant(participant) for participant in known}
    merged = list(known)
    for participant in added:
        if _encode_participant(participant) not in seen:
            merged.append(participant)
    return merged


def _encode_participant(participant: Any) -> bytes:
    try:
        return orjson.dumps(participant, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:
        return repr(participant).encode("utf-8", "replace")
