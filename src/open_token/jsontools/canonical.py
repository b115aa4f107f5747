"""RFC 8785 (JCS) canonical JSON, built on orjson, and the hashes over it.

orjson sorts keys by UTF-8 and writes some floats differently than RFC 8785. Both are rare, so the
output of orjson is checked, and only values that need it are encoded again.
"""

import hashlib
import math
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

MAX_INTEGER = 2**53 - 1
# orjson itself stops at 254 nested containers.
MAX_DEPTH = 250

_UNSORTED = (
    orjson.OPT_STRICT_INTEGER
    | orjson.OPT_PASSTHROUGH_SUBCLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_DATACLASS
)
_SORTED = _UNSORTED | orjson.OPT_SORT_KEYS
_TYPES_WITH_FLOATS = frozenset({dict, list, float})


class CanonicalError(ValueError):
    """The value has no canonical form; the message names the kind of problem, never the value."""


def encode_canonical(value: object) -> bytes:
    """Return the RFC 8785 bytes of a value of str, int, float, bool, None, list and dict."""
    encoded = _encode(value, _SORTED)
    return _correct_encoding(value, encoded, _has_plain_numbers([value], 0))


def encode_event(event: Mapping[str, Any]) -> bytes:
    """Return the canonical bytes of an event.

    Faster than `encode_canonical`: most events hold only strings and integers in two levels.
    """
    encoded = _encode(event, _SORTED)
    if type(event) is not dict:
        return encode_canonical(event)
    nested: list[object] = []
    for value in event.values():
        kind = type(value)
        if kind is str or kind is int:
            continue
        if kind is not dict:
            return _correct_encoding(event, encoded, _has_plain_numbers([event], 0))
        for inner in value.values():
            kind = type(inner)
            if kind is not str and kind is not int:
                nested.append(inner)
    if nested:
        return _correct_encoding(event, encoded, _has_plain_numbers(nested, 2))
    if encoded.isascii():
        return encoded
    return _correct_encoding(event, encoded, True)


def encode_built_event(event: Mapping[str, Any]) -> bytes:
    """Return the canonical bytes of an event that a Draft built.

    Everything in it but the data of its content holds only text and integers.
    """
    encoded = _encode(event, _SORTED)
    data = event["content"].get("data")
    if data is None or type(data) is str:
        return encoded
    return _correct_encoding(event, encoded, _has_plain_numbers([data], 2))


def encode_built_events(events: list[Any]) -> bytes | None:
    """Return the canonical bytes of a list of built events.

    None if one of them must be encoded by itself, which is rare.
    """
    contents = [event["content"].get("data") for event in events]
    nested = [data for data in contents if data is not None]
    try:
        if nested and not _has_plain_numbers(nested, 2):
            events = [_correct_event_numbers(event) for event in events]
        encoded = orjson.dumps(events, None, _SORTED)
    except (orjson.JSONEncodeError, CanonicalError):
        return None
    if _needs_utf16_order(nested, encoded):
        return None
    return encoded


def _correct_event_numbers(event: dict[str, Any]) -> Any:
    data = event["content"].get("data")
    if data is None or _has_plain_numbers([data], 2):
        return event
    return _with_es6_numbers(event)


def format_es6_number(x: float) -> str:
    """Return a finite float as ECMAScript's Number.prototype.toString writes it."""
    if not math.isfinite(x):
        raise CanonicalError("number is not finite")
    if x == 0:
        return "0"
    # repr gives the shortest digits that read back as the same number, as ECMAScript does; only
    # the places of the decimal point and of the exponent differ.
    mantissa, _, exponent = float.__repr__(abs(x)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = int(exponent or 0) + len(digits) - len(fraction)
    sign = "-" if x < 0 else ""
    return sign + _format_digits(digits.rstrip("0"), point)


def _format_digits(digits: str, point: int) -> str:
    """Format significant digits; `point` is the position of the decimal point among them."""
    if len(digits) <= point <= 21:
        return digits.ljust(point, "0")
    if 0 < point <= 21:
        return f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"0.{digits.rjust(len(digits) - point, '0')}"
    tail = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{tail}e{point - 1:+d}"


class EventsHash:
    """SHA-256 over the canonical bytes of an events array, event by event."""

    __slots__ = ("_sha", "count")

    def __init__(self) -> None:
        self._sha = hashlib.sha256(b"[")
        self.count = 0

    def add(self, encoded: bytes) -> None:
        """Add the canonical bytes of the next event."""
        if self.count:
            self._sha.update(b",")
        self._sha.update(encoded)
        self.count += 1

    def add_all(self, array: bytes, count: int) -> None:
        """Add the canonical bytes of an array of events, at least one."""
        if self.count:
            self._sha.update(b",")
        self._sha.update(memoryview(array)[1:-1])
        self.count += count

    def hexdigest(self) -> str:
        """Return the hash of the events so far."""
        closed = self._sha.copy()
        closed.update(b"]")
        return closed.hexdigest()


def hash_events(events: Iterable[Mapping[str, Any]]) -> str:
    """Return the hash of an events array, the same for JSON and NDJSON."""
    events_hash = EventsHash()
    for event in events:
        events_hash.add(encode_event(event))
    return events_hash.hexdigest()


def hash_document(document: Mapping[str, object], events_hash: str) -> str:
    """Return the hash of an export without its integrity, with its events replaced by their hash."""
    covered = {key: value for key, value in document.items() if key != "integrity"}
    covered["events"] = events_hash
    return hashlib.sha256(encode_canonical(covered)).hexdigest()


def _encode(value: object, option: int) -> bytes:
    try:
        return orjson.dumps(value, None, option)
    except orjson.JSONEncodeError as error:
        raise CanonicalError(str(error)) from None


def _has_plain_numbers(values: list[Any], depth: int) -> bool:
    """Return whether orjson writes every float as RFC 8785 does; raise for types that are not JSON.

    It runs after orjson, which has already refused cycles, long integers, lone surrogates and keys
    that are not strings.
    """
    # Level by level instead of recursively: deep input cannot exhaust the stack.
    is_plain = True
    level: list[Any] = [values]
    while level:
        if depth > MAX_DEPTH:
            raise CanonicalError(f"nested more than {MAX_DEPTH} deep")
        below: list[Any] = []
        for container in level:
            for item in container.values() if type(container) is dict else container:
                kind = type(item)
                if kind is str or kind is int:
                    continue
                if kind is dict or kind is list:
                    below.append(item)
                elif kind is float:
                    is_plain = is_plain and _is_plain_float(item)
                elif kind is not bool and item is not None:
                    raise CanonicalError(f"not a JSON type: {kind.__name__}")
        level = below
        depth += 1
    return is_plain


def _is_plain_float(x: float) -> bool:
    # Within these bounds no exponent is written. Whole numbers, which orjson writes with `.0`,
    # and everything beyond are formatted by hand.
    return 1e-4 <= abs(x) < 1e15 and not x.is_integer()


def _correct_encoding(value: object, encoded: bytes, has_plain_numbers: bool) -> bytes:
    """Return what orjson encoded if it is canonical already; otherwise encode a corrected copy."""
    if not has_plain_numbers:
        value = _with_es6_numbers(value)
        encoded = _encode(value, _SORTED)
    if _needs_utf16_order(value, encoded):
        return _encode(_sort_by_utf16(value), _UNSORTED)
    return encoded


def _with_es6_numbers(value: Any) -> Any:
    kind = type(value)
    if kind is dict:
        return {
            key: _with_es6_numbers(item) if type(item) in _TYPES_WITH_FLOATS else item
            for key, item in value.items()
        }
    if kind is list:
        return [
            _with_es6_numbers(item) if type(item) in _TYPES_WITH_FLOATS else item for item in value
        ]
    if kind is float:
        return _to_es6_number(value)
    return value


def _to_es6_number(x: float) -> object:
    if x.is_integer() and abs(x) <= MAX_INTEGER:
        return int(x)
    if 1e-4 <= abs(x) < 1e15:
        return x
    return orjson.Fragment(format_es6_number(x).encode())


def _needs_utf16_order(value: object, encoded: bytes) -> bool:
    """Return whether keys must be sorted again.

    UTF-16 sorts like UTF-8, except that characters beyond U+FFFF come before U+E000 to U+FFFF. So
    the order differs only if the bytes that begin both kinds of characters occur.
    """
    if encoded.isascii():
        return False
    # Searched as integers: `bytes in bytes` raises and catches an exception first, which is slower.
    has_astral = (
        0xF0 in encoded or 0xF1 in encoded or 0xF2 in encoded or 0xF3 in encoded or 0xF4 in encoded
    )
    if not has_astral or not (0xEF in encoded or 0xEE in encoded):
        return False
    return _has_astral_key(value)


def _has_astral_key(value: object) -> bool:
    """Return whether a key has a character beyond U+FFFF."""
    containers: list[Any] = [[value]]
    for container in containers:  # grows while it is iterated
        if type(container) is dict:
            keys = "".join(container)
            if not keys.isascii() and max(keys) > "\uffff":
                return True
            container = container.values()
        for item in container:
            kind = type(item)
            if kind is dict or kind is list:
                containers.append(item)
    return False


def _sort_by_utf16(value: Any) -> Any:
    kind = type(value)
    if kind is dict:
        ordered = sorted(value, key=lambda key: key.encode("utf-16-be"))
        return {key: _sort_by_utf16(value[key]) for key in ordered}
    if kind is list:
        return [_sort_by_utf16(item) for item in value]
    return value
