"""JSON text that a fast parser refused: what can be mended, what broke off, and where the fault
stands."""

import codecs
from typing import Any

import orjson

from open_token.walk import without_lone_surrogates

UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def encoding(raw: bytes) -> str:
    """The encoding that the first bytes promise."""
    return "utf-16" if raw.startswith(UTF16) else "utf-8"


def breaks_off(line: bytes) -> bool:
    """Whether a line is the beginning of JSON and nothing is wrong with it but that it ends."""
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(line)
        orjson.loads(text)
    except orjson.JSONDecodeError as problem:
        return problem.pos >= len(text)
    except UnicodeDecodeError:
        return False
    return False


def with_surrogates(raw: bytes) -> Any | None:
    """The value when lone surrogates were the only fault, with each replaced by U+FFFD; else
    None."""
    if b"\\u" not in raw:
        return None
    import json

    try:
        value = json.loads(raw.decode("utf-8"), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return without_lone_surrogates(value)


def glued(raw: bytes) -> list[Any] | None:
    """The values of a file in which whole objects or lists stand one after another; None when it is
    none."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return None
    import json

    decode = json.JSONDecoder(parse_constant=_refuse).raw_decode
    values: list[Any] = []
    may_be_broken = "\\u" in text
    place, end = 0, len(text)
    try:
        while place < end:
            if text[place] in " \t\r\n":
                place += 1
                continue
            if text[place] not in "{[":
                return None
            value, place = decode(text, place)
            values.append(without_lone_surrogates(value) if may_be_broken else value)
    except (ValueError, RecursionError):
        return None
    return values if len(values) > 1 else None


def fault_place(raw: bytes) -> tuple[int, int]:
    """Line and column at which the bytes stop being JSON."""
    try:
        orjson.loads(raw)
    except orjson.JSONDecodeError as problem:
        return problem.lineno, problem.colno
    return 1, 1


def _refuse(word: str) -> Any:
    raise ValueError(word)
