"""The first and the last records of a file, from a few kilobytes at its ends.

Listing thousands of sessions must not read them. What is cut off at the end of the first bytes is
parsed as far as it goes.
"""

import codecs
import contextlib
import json
import re
from pathlib import Path
from typing import Any

import msgspec

from open_token.sources.decompress import decompress_start, find_compression
from open_token.storage.files import read_ends

_decode = msgspec.json.decode

NOTHING = object()
_MAX_DEPTH = 6
# A string that is cut off is returned only if it is longer than any id or path: those would be wrong.
_MIN_CUT_STRING = 400
# What may follow a number that is cut off.
_CUT_NUMBER_ENDS = ("", ".", "e", "E", "e+", "E+", "e-", "E-")
_decode_value = json.JSONDecoder().raw_decode
_match_space = re.compile(r"[ \t\r\n]*").match


def read_first_records(path: Path, budget: int) -> list[Any]:
    """Return the records that begin in the first `budget` bytes: of JSON lines, of a list, or the
    one document."""
    head, _ = read_ends(path, budget)
    is_whole = len(head) < budget
    if find_compression(head):
        head = decompress_start(head, budget)
        is_whole = False
    start = head.removeprefix(codecs.BOM_UTF8).lstrip()
    if start[:1] == b"{":
        records = _parse_lines(start, is_whole)
        if records:
            return records
    if start[:1] in (b"{", b"["):
        return _parse_document(start, is_whole)
    return []


def read_last_records(path: Path, budget: int) -> list[Any]:
    """Return the records of JSON lines that are complete in the last `budget` bytes."""
    _, tail = read_ends(path, 0, budget)
    return _decode_lines(tail.split(b"\n")[1:])


def _parse_lines(start: bytes, is_whole: bool) -> list[Any]:
    """Parse JSON lines; return nothing if the bytes are a document over several lines."""
    *lines, last = start.split(b"\n")
    if not lines or not lines[0].rstrip().endswith(b"}"):
        return []
    records = _decode_lines(lines)
    if is_whole:
        return records + _decode_lines([last])
    partial = parse_json_prefix(last.decode("utf-8", "ignore"))
    if isinstance(partial, dict) and partial:
        records.append(partial)
    return records


def _decode_lines(lines: list[bytes]) -> list[Any]:
    records = []
    for line in lines:
        with contextlib.suppress(ValueError, RecursionError):
            records.append(_decode(line))
    return records


def _parse_document(start: bytes, is_whole: bool) -> list[Any]:
    value: Any = None
    if is_whole:
        with contextlib.suppress(ValueError, RecursionError):
            value = _decode(start)
    if value is None:
        value = parse_json_prefix(start.decode("utf-8", "ignore"))
    if isinstance(value, list):
        return value
    return [value] if isinstance(value, dict) else []


def parse_json_prefix(text: str) -> Any:
    """Parse the value at the start of a JSON text that may be cut off anywhere.

    Members that are cut off are left out, or cut themselves; NOTHING if there is no value at all.
    """
    return _parse_partial(text, _skip_space(text, 0), _MAX_DEPTH)


def _parse_partial(text: str, position: int, depth: int) -> Any:
    if text.startswith("{", position) and depth:
        return _parse_partial_object(text, position + 1, depth - 1)
    if text.startswith("[", position) and depth:
        return _parse_partial_list(text, position + 1, depth - 1)
    if text.startswith('"', position):
        return _parse_partial_string(text, position)
    return NOTHING


def _parse_partial_object(text: str, position: int, depth: int) -> dict[str, Any]:
    members: dict[str, Any] = {}
    position = _skip_space(text, position)
    while text.startswith('"', position):
        name, position = _parse_complete(text, position)
        position = _skip_space(text, position)
        if not isinstance(name, str) or not text.startswith(":", position):
            break
        value, position = _parse_member(text, _skip_space(text, position + 1), depth)
        if value is not NOTHING:
            members[name] = value
    return members


def _parse_partial_list(text: str, position: int, depth: int) -> list[Any]:
    items: list[Any] = []
    position = _skip_space(text, position)
    while position < len(text) and not text.startswith("]", position):
        value, position = _parse_member(text, position, depth)
        if value is not NOTHING:
            items.append(value)
    return items


def _parse_member(text: str, position: int, depth: int) -> tuple[Any, int]:
    """Return a member and where the next one starts: the end of the text if there is none."""
    value, end = _parse_complete(text, position)
    if value is NOTHING:
        return _parse_partial(text, position, depth), len(text)
    end = _skip_space(text, end)
    if text.startswith(",", end):
        return value, _skip_space(text, end + 1)
    return value, len(text)


def _parse_complete(text: str, position: int) -> tuple[Any, int]:
    """Return a complete value and its end, by the fast parser; NOTHING if it is cut off."""
    try:
        value, end = _decode_value(text, position)
    except (ValueError, RecursionError):
        return NOTHING, len(text)
    if isinstance(value, int | float) and text[end : end + 3] in _CUT_NUMBER_ENDS:
        return NOTHING, len(text)  # more digits may follow
    return value, end


def _parse_partial_string(text: str, position: int) -> Any:
    """Return a long string as far as it goes, without an escape that was cut in two."""
    if len(text) - position <= _MIN_CUT_STRING:
        return NOTHING
    # The longest escape has six characters: one of these cuts is before it.
    for cut in range(7):
        value, _ = _parse_complete(text[position : len(text) - cut] + '" ', 0)
        if isinstance(value, str):
            return value
    return NOTHING


def _skip_space(text: str, position: int) -> int:
    match = _match_space(text, position)
    return match.end() if match else position
