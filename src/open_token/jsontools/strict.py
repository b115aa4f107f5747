"""Strict JSON parsing: find what two parsers may read differently, with its position."""

import json
import math
import re
from dataclasses import dataclass
from typing import Any

import orjson

# Deeper nesting is a fault.
MAX_DEPTH = 128
# Deeper nesting is not parsed at all, as in orjson.
PARSER_DEPTH_LIMIT = 1024
MAX_INTEGER = 2**53 - 1
# A hostile document could otherwise cause far more memory use than it has bytes.
MAX_FAULTS = 1000

_BOM = b"\xef\xbb\xbf"
_DETAILS = {
    "bom": "the document starts with a byte order mark",
    "duplicate-key": "duplicate key; parsers differ in which value they keep",
    "not-a-number": "NaN and Infinity are not JSON",
    "number-range": "the number is too large for a 64-bit float",
    "big-integer": "the integer is beyond 2^53-1; some parsers lose its last digits",
    "lone-surrogate": "the string holds one half of a surrogate pair",
    "too-deep": f"containers are nested more than {MAX_DEPTH} deep",
}

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_DIGITS_AS_ZERO = bytes.maketrans(b"123456789", b"000000000")
_NINETEEN_DIGITS = b"0" * 19
_LONG_INTEGER = re.compile(rb"(?:\A|[:,\[\s-])\d{19,}+\s*(?:[,\]}]|\Z)")
_SURROGATE = re.compile("[\ud800-\udfff]")
_TOKEN = re.compile(
    r"""[ \t\n\r]*(?:
    (?P<text>"[^"\\\x00-\x1f]*")
    |(?P<punctuation>[\[\]{},:])
    |(?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)
    |(?P<word>true|false|null)
    |(?P<odd>NaN|-?Infinity)
    |(?P<quote>")
    |(?P<end>\Z)
    )""",
    re.VERBOSE,
)
_WORDS = {"true": True, "false": False, "null": None}
_STRINGS = json.JSONDecoder()
_STRING_ERRORS = {
    "Unterminated string starting at": "string is not closed",
    "Invalid control character at": "control character in a string",
}
_IDENTIFIER = re.compile(r"[A-Za-z0-9_./-]{1,24}")
_TYPE_NAMES = {
    str: "a string",
    dict: "an object",
    list: "an array",
    bool: "true or false",
    int: "a number",
    float: "a number",
}


@dataclass(frozen=True)
class Fault:
    """Something that parsers of the same bytes may read differently."""

    code: str
    path: str
    detail: str


class StrictError(ValueError):
    """The bytes are not JSON; the message has position and kind of error, never the text."""

    def __init__(self, reason: str, line: int, column: int) -> None:
        super().__init__(f"{reason} (line {line}, column {column})")
        self.reason = reason
        self.line = line
        self.column = column


def parse_strict(raw: bytes) -> tuple[object, list[Fault]]:
    """Return the value and its faults in document order, at most MAX_FAULTS.

    Raise StrictError if the bytes are not JSON.
    """
    faults: list[Fault] = []
    if raw.startswith(_BOM):
        faults.append(Fault("bom", "", _DETAILS["bom"]))
        raw = raw[len(_BOM) :]
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError:
        is_faultless = False
    else:
        is_faultless = _is_faultless(raw, value)
    if not is_faultless:
        value = _LocatingParser(_decode(raw), faults).parse()
    return value, faults


def _is_faultless(raw: bytes, value: object) -> bool:
    """Return whether nothing was lost in parsing; False only means that a closer look is needed.

    A duplicate key that was dropped takes its quotes with it. orjson turns integers beyond 64 bits
    into floats.
    """
    try:
        encoded = orjson.dumps(value, None, orjson.OPT_STRICT_INTEGER)
    except orjson.JSONEncodeError:
        return False
    if raw.count(b'"') != encoded.count(b'"') or b"\\u0022" in raw:
        return False
    if _NINETEEN_DIGITS in raw.translate(_DIGITS_AS_ZERO) and _LONG_INTEGER.search(raw):
        return False
    return not _is_too_deep(value)


def _is_too_deep(value: object) -> bool:
    level: list[Any] = [[value]]
    for _ in range(MAX_DEPTH + 1):
        below: list[Any] = []
        for container in level:
            for item in container:
                kind = type(item)
                if kind is dict:
                    below.append(item.values())
                elif kind is list:
                    below.append(item)
        if not below:
            return False
        level = below
    return True


def _decode(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode()
    raise _error_at(before, len(before), "invalid UTF-8")


def _error_at(text: str, position: int, reason: str) -> StrictError:
    line_start = text.rfind("\n", 0, position) + 1
    return StrictError(reason, text.count("\n", 0, position) + 1, position - line_start + 1)


class _LocatingParser:
    """Parses JSON without recursion and knows the path of every token."""

    def __init__(self, text: str, faults: list[Fault]) -> None:
        self.text = text
        self.faults = faults
        self.start = 0
        self.end = 0
        self.kind = ""
        self.lexeme = ""
        self.open: list[Any] = []
        # The current key or index of each open container; None before its first member.
        self.steps: list[str | int | None] = []
        self.has_noted_depth = False

    def parse(self) -> object:
        self._advance()
        root = self._parse_value()
        while self.open:
            self._parse_member()
        if self.kind != "end":
            raise self._error("text after the document")
        return root

    def _advance(self) -> None:
        match = _TOKEN.match(self.text, self.end)
        if match is None or match.lastgroup is None:
            rest = self.text[self.end :].lstrip(" \t\n\r")
            self.start = len(self.text) - len(rest)
            raise self._error("unexpected character")
        self.lexeme = match[match.lastgroup]
        if match.lastgroup == "punctuation":
            self.kind = self.lexeme
        else:
            self.kind = match.lastgroup
        self.end = match.end()
        self.start = self.end - len(self.lexeme)

    def _parse_value(self) -> object:
        """Parse a scalar, or open a container that _parse_member fills later."""
        value: object
        if self.kind == "{":
            value = self._open_container({})
        elif self.kind == "[":
            value = self._open_container([])
        else:
            value = self._parse_scalar()
        self._advance()
        return value

    def _open_container(self, container: Any) -> object:
        if len(self.open) == PARSER_DEPTH_LIMIT:
            raise self._error(f"nested more than {PARSER_DEPTH_LIMIT} deep")
        if len(self.open) == MAX_DEPTH and not self.has_noted_depth:
            self.has_noted_depth = True
            self._add_fault("too-deep")
        self.open.append(container)
        self.steps.append(None)
        return container

    def _parse_member(self) -> None:
        """Parse the next member of the innermost open container, or close it."""
        container = self.open[-1]
        is_object = type(container) is dict
        if self.kind == ("}" if is_object else "]"):
            self.open.pop()
            self.steps.pop()
            self._advance()
            return
        if self.steps[-1] is not None:
            self._expect(",", "expected a comma or a closing bracket")
        if is_object:
            key = self._parse_key(container)
            container[key] = self._parse_value()
        else:
            self.steps[-1] = len(container)
            container.append(self._parse_value())

    def _parse_key(self, container: dict[str, object]) -> str:
        if self.kind not in ("text", "quote"):
            raise self._error("expected a key in double quotes")
        key = self._parse_string()
        self.steps[-1] = key
        if key in container:
            self._add_fault("duplicate-key")
        self._note_surrogate(key)
        self._advance()
        self._expect(":", "expected a colon after a key")
        return key

    def _expect(self, kind: str, reason: str) -> None:
        if self.kind != kind:
            raise self._error(reason)
        self._advance()

    def _parse_scalar(self) -> object:
        if self.kind in ("text", "quote"):
            string = self._parse_string()
            self._note_surrogate(string)
            return string
        if self.kind == "number":
            return self._parse_number()
        if self.kind == "word":
            return _WORDS[self.lexeme]
        if self.kind == "odd":
            self._add_fault("not-a-number")
            return float(self.lexeme)
        raise self._error("expected a value")

    def _parse_string(self) -> str:
        if self.kind == "text":
            return self.lexeme[1:-1]
        try:
            string, self.end = _STRINGS.raw_decode(self.text, self.start)
        except json.JSONDecodeError as error:
            self.start = error.pos
            raise self._error(_STRING_ERRORS.get(error.msg, "invalid escape in a string")) from None
        return str(string)

    def _parse_number(self) -> float:
        number = float(self.lexeme)
        if math.isinf(number):
            self._add_fault("number-range")
        elif self.lexeme.lstrip("-").isdigit():
            number = int(self.lexeme)
            if abs(number) > MAX_INTEGER:
                self._add_fault("big-integer")
        return number

    def _note_surrogate(self, string: str) -> None:
        if not string.isascii() and _SURROGATE.search(string):
            self._add_fault("lone-surrogate")

    def _add_fault(self, code: str) -> None:
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(Fault(code, _format_path(self.steps), _DETAILS[code]))

    def _error(self, reason: str) -> StrictError:
        if self.kind == "end":
            if self.open:
                reason = "unexpected end of the document"
            else:
                reason = "no value in the document"
        return _error_at(self.text, self.start, reason)


def _format_path(steps: list[str | int | None]) -> str:
    """Format a path as events[17].content.data; keys that may be content are shown as [key]."""
    path = ""
    for step in steps:
        if isinstance(step, int):
            path += f"[{step}]"
        elif isinstance(step, str) and _PLAIN_KEY.fullmatch(step):
            path += f".{step}" if path else step
        else:
            path += "[key]"
    return path


def describe_value(value: Any) -> str:
    """Return a value for a message: short identifiers and small numbers, otherwise only the type."""
    if value is None:
        return "null"
    if value == "":
        return "an empty string"
    if isinstance(value, str) and _IDENTIFIER.fullmatch(value):
        return f'"{value}"'
    if type(value) is int and abs(value) < 10**9:
        return str(value)
    return _TYPE_NAMES.get(type(value), "no JSON value")


def describe_key(key: Any) -> str:
    """Return a key as a step of a path: short identifiers, otherwise a placeholder."""
    if isinstance(key, str) and _IDENTIFIER.fullmatch(key):
        return f".{key}"
    return "[key]"
