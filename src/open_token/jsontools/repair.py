"""JSON that the fast parser refused: what can be repaired, what was cut off, where the error is."""

import codecs
from typing import Any

import orjson

from open_token.jsontools.walk import replace_lone_surrogates

UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def detect_encoding(raw: bytes) -> str:
    """Return the encoding that a byte order mark announces; UTF-8 without one."""
    return "utf-16" if raw.startswith(UTF16_MARKS) else "utf-8"


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


def find_syntax_error(raw: bytes) -> tuple[int, int]:
    """Return line and column at which the bytes stop being JSON."""
    try:
        orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        return error.lineno, error.colno
    return 1, 1


def _refuse_constant(word: str) -> Any:
    raise ValueError(word)
