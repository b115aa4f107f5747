"""The beginning of a JSON text as a value: a look at a long document without reading it to its
end."""

import json
import re
from typing import Any

NOTHING = object()
_DEPTH = 6
_LONG = 400
"""From this length on a string that is cut off is worth having: no id or folder is as long."""
_CUT = ("", ".", "e", "E", "e+", "E+", "e-", "E-")
"""What may stand behind a number that breaks off."""
_decode = json.JSONDecoder().raw_decode
_space = re.compile(r"[ \t\r\n]*").match


def prefix(text: str) -> Any:
    """The value at the start of a text, as far as it goes: members that are cut off are left out,
    or cut themselves."""
    return _begun(text, _after_space(text, 0), _DEPTH)


def _begun(text: str, place: int, depth: int) -> Any:
    if text.startswith("{", place) and depth:
        return _object(text, place + 1, depth - 1)
    if text.startswith("[", place) and depth:
        return _list(text, place + 1, depth - 1)
    return _string(text, place) if text.startswith('"', place) else NOTHING


def _object(text: str, place: int, depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    place = _after_space(text, place)
    while text.startswith('"', place):
        name, place = _whole(text, place)
        place = _after_space(text, place)
        if not isinstance(name, str) or not text.startswith(":", place):
            break
        value, place = _member(text, _after_space(text, place + 1), depth)
        if value is not NOTHING:
            found[name] = value
    return found


def _list(text: str, place: int, depth: int) -> list[Any]:
    found: list[Any] = []
    place = _after_space(text, place)
    while place < len(text) and not text.startswith("]", place):
        value, place = _member(text, place, depth)
        if value is not NOTHING:
            found.append(value)
    return found


def _member(text: str, place: int, depth: int) -> tuple[Any, int]:
    """A member and where the next one starts, which is the end of the text when there is none."""
    value, end = _whole(text, place)
    if value is NOTHING:
        return _begun(text, place, depth), len(text)
    end = _after_space(text, end)
    return value, _after_space(text, end + 1) if text.startswith(",", end) else len(text)


def _whole(text: str, place: int) -> tuple[Any, int]:
    """The value at a place and where it ends, by the fast parser; nothing when it is not whole."""
    try:
        value, end = _decode(text, place)
    except (ValueError, RecursionError):
        return NOTHING, len(text)
    if isinstance(value, int | float) and text[end : end + 3] in _CUT:
        return NOTHING, len(text)  # more digits may follow
    return value, end


def _string(text: str, place: int) -> Any:
    """A long string as far as it goes; an escape that was cut in two is left out."""
    if len(text) - place <= _LONG:
        return NOTHING
    for cut in range(7):
        value, _ = _whole(text[place : len(text) - cut] + '" ', 0)
        if isinstance(value, str):
            return value
    return NOTHING


def _after_space(text: str, place: int) -> int:
    found = _space(text, place)
    return found.end() if found else place
