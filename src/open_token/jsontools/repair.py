"""JSON that the fast parser refused: what can be repaired, what was cut off, where the error is."""

import codecs
from typing import Any

import orjson

from open_token.jsontools.walk import replace_lone_surrogates

UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_MAX_FAULTS = 16
"""How often the search for objects in a torn line starts again: each start may read the whole line."""
_BETWEEN_OBJECTS = " \t\r\n\0"
"""What may stand between the objects of a torn line; a power cut leaves runs of NUL."""


def detect_encoding(raw: bytes) -> str:
    """Return the encoding that a byte order mark announces; UTF-8 without one."""
    if raw.startswith(UTF16_MARKS):
        return "utf-16"
    return "utf-8"


def is_utf8(raw: bytes) -> bool:
    """Return whether bytes are valid UTF-8."""
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def is_truncated_json(line: bytes) -> bool:
    """Return whether a line is valid JSON up to its end, where it is cut off."""
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(line)
        orjson.loads(text)
    except orjson.JSONDecodeError as error:
        return error.pos >= len(text)
    except UnicodeDecodeError:
        return False
    return False


def parse_with_surrogates(raw: bytes) -> Any | None:
    """Parse JSON whose only fault is lone surrogates, replacing them by U+FFFD; otherwise None."""
    if b"\\u" not in raw:
        return None
    import json

    try:
        value = json.loads(raw.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return None
    return replace_lone_surrogates(value)


def split_concatenated(raw: bytes) -> list[Any] | None:
    """Parse objects or arrays that follow each other without a separator; None for anything else."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return None
    import json

    decode = json.JSONDecoder(parse_constant=_refuse_constant).raw_decode
    values: list[Any] = []
    may_have_surrogates = "\\u" in text
    position = 0
    try:
        while position < len(text):
            if text[position] in " \t\r\n":
                position += 1
                continue
            if text[position] not in "{[":
                return None
            value, position = decode(text, position)
            values.append(replace_lone_surrogates(value) if may_have_surrogates else value)
    except (ValueError, RecursionError):
        return None
    return values if len(values) > 1 else None


def find_objects(line: bytes) -> tuple[list[bytes], int]:
    """Return the whole objects of a line that is not JSON, and how many bytes are in none of them.

    A program that was stopped while it wrote leaves half a record, and the next one is appended to
    it. An object counts only if nothing but another object follows it, because an object inside a
    torn one is no record. The line is read a bounded number of times.
    """
    import json

    decode = json.JSONDecoder(parse_constant=_refuse_constant).raw_decode
    # Bytes that are not UTF-8 stay recognizable: a character may have been cut in two.
    text = line.decode("utf-8", "surrogateescape")
    found: list[bytes] = []
    lost = 0
    faults = 0
    position = 0
    done = 0  # everything before was either found or is lost
    while faults < _MAX_FAULTS:
        start = text.find("{", position)
        if start < 0:
            break
        try:
            _, end = decode(text, start)
        except json.JSONDecodeError as error:
            faults += 1
            position = _find_next_object(text, start, error.pos)
            continue
        except (ValueError, RecursionError):
            break
        following = _skip_between(text, end)
        is_first = _skip_between(text, done) == start
        if is_first or following == len(text) or text[following] == "{":
            found.append(_encode(text[start:end]))
            lost += len(_encode(text[done:start]).strip())
            done = end
        else:
            faults += 1
        position = following
    return found, lost + len(_encode(text[done:]).strip())


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _find_next_object(text: str, start: int, fault: int) -> int:
    """Return where the object after a torn one may begin.

    Half an object stops being JSON where the next one begins, or just behind that: if it was cut
    inside a string, that string ends at the first quote of the next object. If it was cut before a
    value, the next object is taken for that value, and only its first key tells it apart.
    """
    if fault < len(text.rstrip()):
        before = text.rfind("{", start + 1, fault + 1)
        return before if before > start else max(fault, start + 1)
    key_end = text.find('"', start + 2) + 1
    again = text.find(text[start:key_end], start + 1) if key_end else -1
    return again if again > start else len(text)


def _skip_between(text: str, position: int) -> int:
    while position < len(text) and text[position] in _BETWEEN_OBJECTS:
        position += 1
    return position


def parse_with_replacement(raw: bytes) -> Any | None:
    """Parse JSON whose only fault is bytes that are not UTF-8, replacing them; otherwise None."""
    try:
        return orjson.loads(raw.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def find_syntax_error(raw: bytes) -> tuple[int, int]:
    """Return line and column at which the bytes stop being JSON."""
    try:
        orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        return error.lineno, error.colno
    return 1, 1


def _refuse_constant(word: str) -> Any:
    raise ValueError(word)
