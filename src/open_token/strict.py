"""Strict JSON parsing for the validator: finds what two readers may read differently, each with its
place."""

import json
import math
import re
from dataclasses import dataclass
from typing import Any

import orjson

MAX_DEPTH = 128
"""Nested containers without a fault."""

DEEPEST = 1024
"""Nested containers that are read at all; the same as orjson's."""

MAX_INTEGER = 2**53 - 1

MAX_FAULTS = 1000
"""Faults that are kept; a hostile document could else ask for far more memory than it has bytes."""

_BOM = b"\xef\xbb\xbf"
_DETAILS = {
    "bom": "the document starts with a byte order mark",
    "duplicate-key": "the key stands more than once in its object; readers differ in which value they keep",
    "not-a-number": "NaN and Infinity are not JSON",
    "number-range": "the number is too large for a 64-bit float",
    "big-integer": "the integer is beyond 2^53-1; some readers lose its last digits",
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
_STRING_TROUBLES = {
    "Unterminated string starting at": "string is not closed",
    "Invalid control character at": "control character in a string",
}


@dataclass(frozen=True)
class Fault:
    """Something that readers of the same bytes may understand differently."""

    code: str
    path: str
    detail: str


class StrictError(ValueError):
    """The bytes are not JSON; says where and what kind of error, never the text."""

    def __init__(self, reason: str, line: int, column: int) -> None:
        super().__init__(f"{reason} (line {line}, column {column})")
        self.reason = reason
        self.line = line
        self.column = column


def parse(raw: bytes) -> tuple[object, list[Fault]]:
    """Return the value and its faults in document order, at most MAX_FAULTS; raise StrictError when
    raw is not JSON."""
    faults: list[Fault] = []
    if raw.startswith(_BOM):
        faults.append(Fault("bom", "", _DETAILS["bom"]))
        raw = raw[len(_BOM) :]
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError:
        faultless = False
    else:
        faultless = _is_faultless(raw, value)
    if not faultless:
        value = _PlacedReader(_decode(raw), faults).read()
    return value, faults


def _is_faultless(raw: bytes, value: object) -> bool:
    """Tell cheaply that nothing was lost in parsing; False means only that a closer look is needed.

    A dropped duplicate takes the quotes of its key with it. Orjson makes floats of integers beyond
    64 bits."""
    try:
        again = orjson.dumps(value, None, orjson.OPT_STRICT_INTEGER)
    except orjson.JSONEncodeError:
        return False
    if raw.count(b'"') != again.count(b'"') or b"\\u0022" in raw:
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


class _PlacedReader:
    """Reads JSON without recursion, and knows at every token where in the document it stands."""

    def __init__(self, text: str, faults: list[Fault]) -> None:
        self.text = text
        self.faults = faults
        self.start = self.end = 0
        self.kind = self.lexeme = ""
        self.open: list[Any] = []
        self.place: list[str | int | None] = []
        self.deep_noted = False

    def read(self) -> object:
        self._advance()
        root = self._value()
        while self.open:
            self._member()
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
        self.kind = self.lexeme if match.lastgroup == "punctuation" else match.lastgroup
        self.end = match.end()
        self.start = self.end - len(self.lexeme)

    def _value(self) -> object:
        """Read a scalar, or open a container that _member fills later."""
        value: object
        if self.kind == "{":
            value = self._enter({})
        elif self.kind == "[":
            value = self._enter([])
        else:
            value = self._scalar()
        self._advance()
        return value

    def _enter(self, container: Any) -> object:
        if len(self.open) == DEEPEST:
            raise self._error(f"nested more than {DEEPEST} deep")
        if len(self.open) == MAX_DEPTH and not self.deep_noted:
            self.deep_noted = True
            self._note("too-deep")
        self.open.append(container)
        self.place.append(None)
        return container

    def _member(self) -> None:
        """Read the next member of the innermost open container, or close it."""
        container = self.open[-1]
        is_object = type(container) is dict
        if self.kind == ("}" if is_object else "]"):
            self.open.pop()
            self.place.pop()
            self._advance()
            return
        if self.place[-1] is not None:
            self._expect(",", "expected a comma or a closing bracket")
        if is_object:
            key = self._key(container)
            container[key] = self._value()
        else:
            self.place[-1] = len(container)
            container.append(self._value())

    def _key(self, container: dict[str, object]) -> str:
        if self.kind not in ("text", "quote"):
            raise self._error("expected a key in double quotes")
        key = self._string()
        self.place[-1] = key
        if key in container:
            self._note("duplicate-key")
        self._note_surrogate(key)
        self._advance()
        self._expect(":", "expected a colon after a key")
        return key

    def _expect(self, kind: str, reason: str) -> None:
        if self.kind != kind:
            raise self._error(reason)
        self._advance()

    def _scalar(self) -> object:
        if self.kind in ("text", "quote"):
            string = self._string()
            self._note_surrogate(string)
            return string
        if self.kind == "number":
            return self._number()
        if self.kind == "word":
            return _WORDS[self.lexeme]
        if self.kind == "odd":
            self._note("not-a-number")
            return float(self.lexeme)
        raise self._error("expected a value")

    def _string(self) -> str:
        if self.kind == "text":
            return self.lexeme[1:-1]
        try:
            string, self.end = _STRINGS.raw_decode(self.text, self.start)
        except json.JSONDecodeError as error:
            self.start = error.pos
            raise self._error(
                _STRING_TROUBLES.get(error.msg, "invalid escape in a string")
            ) from None
        return str(string)

    def _number(self) -> float:
        number = float(self.lexeme)
        if math.isinf(number):
            self._note("number-range")
        elif self.lexeme.lstrip("-").isdigit():
            number = int(self.lexeme)
            if abs(number) > MAX_INTEGER:
                self._note("big-integer")
        return number

    def _note_surrogate(self, string: str) -> None:
        if not string.isascii() and _SURROGATE.search(string):
            self._note("lone-surrogate")

    def _note(self, code: str) -> None:
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(Fault(code, _path(self.place), _DETAILS[code]))

    def _error(self, reason: str) -> StrictError:
        if self.kind == "end":
            reason = "unexpected end of the document" if self.open else "no value in the document"
        return _error_at(self.text, self.start, reason)


def _path(place: list[str | int | None]) -> str:
    """Write a place as events[17].content.data; keys that may be content themselves are shown as
    [key]."""
    path = ""
    for step in place:
        if isinstance(step, str) and _PLAIN_KEY.fullmatch(step):
            path += f".{step}" if path else step
        else:
            path += f"[{step}]" if isinstance(step, int) else "[key]"
    return path
