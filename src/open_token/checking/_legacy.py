"""Other readings of `json-c14n-like`, which the spec does not define: what another program may have
hashed."""

import hashlib
import json
from collections.abc import Iterable
from typing import Any, NamedTuple


class Reading(NamedTuple):
    """How events become bytes: sorted keys or not, ASCII only or not, spaces or not; one array or
    lines."""

    is_sorted: bool
    is_ascii: bool
    has_spaces: bool
    start: str = "["
    end: str = "]"


_LINES = {"start": "", "end": ""}
_CLOSED_LINES = {"start": "", "end": "\n"}
READINGS = {
    "py-compact": Reading(True, False, False),
    "py-ascii": Reading(True, True, False),
    "py-spaces": Reading(True, True, True),
    "py-spaces-utf8": Reading(True, False, True),
    "insertion-order": Reading(False, False, False),
    "insertion-order-ascii": Reading(False, True, False),
    "insertion-order-spaces": Reading(False, True, True),
    "lines": Reading(True, False, False, **_LINES),
    "lines-closed": Reading(True, False, False, **_CLOSED_LINES),
    "lines-insertion-order": Reading(False, False, False, **_LINES),
    "lines-insertion-order-closed": Reading(False, False, False, **_CLOSED_LINES),
}


def matching_reading(
    claimed: str, found: str, events: Iterable[Any], lines: Iterable[bytes]
) -> str | None:
    """The reading under which the hash holds; None when there is none. `lines` are the event lines
    of a stream."""
    wanted = claimed.lower()
    if wanted == found:
        return "upper-case"
    match = _of_events(wanted, events) or _of_lines(wanted, lines)
    return f"{match}, upper-case" if match and wanted != claimed else match


def _of_events(wanted: str, events: Iterable[Any]) -> str | None:
    hashes = {name: hashlib.sha256(reading.start.encode()) for name, reading in READINGS.items()}
    for number, event in enumerate(events):
        forms: dict[tuple[bool, bool, bool], bytes] = {}
        for name, reading in READINGS.items():
            form = reading[:3]
            if form not in forms:
                forms[form] = _written(event, *form)
            if number:
                hashes[name].update(
                    b"\n" if not reading.start else b", " if reading.has_spaces else b","
                )
            hashes[name].update(forms[form])
    for name, reading in READINGS.items():
        hashes[name].update(reading.end.encode())
        if hashes[name].hexdigest() == wanted:
            return name
    return None


def _written(event: Any, is_sorted: bool, is_ascii: bool, has_spaces: bool) -> bytes:
    separators = (", ", ": ") if has_spaces else (",", ":")
    text = json.dumps(event, sort_keys=is_sorted, ensure_ascii=is_ascii, separators=separators)
    return text.encode("utf-8", "surrogatepass")


def _of_lines(wanted: str, lines: Iterable[bytes]) -> str | None:
    """The lines of a stream as they lie, joined by line ends, with or without one at the end."""
    running = hashlib.sha256()
    for number, line in enumerate(lines):
        running.update(b"\n" + line if number else line)
    if running.hexdigest() == wanted:
        return "stream-lines"
    running.update(b"\n")
    return "stream-lines-closed" if running.hexdigest() == wanted else None
