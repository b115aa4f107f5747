"""The only module that decides bytes: RFC 8785 (JCS) serialization, built on orjson, and the hashes
made of it."""

import hashlib
import math
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

MAX_INTEGER = 2**53 - 1
MAX_DEPTH = 250
"""Nested containers that can be serialized; orjson itself stops at 254."""

_AS_IS = (
    orjson.OPT_STRICT_INTEGER
    | orjson.OPT_PASSTHROUGH_SUBCLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_DATACLASS
)
_SORTED = _AS_IS | orjson.OPT_SORT_KEYS
_REWRITTEN = frozenset({dict, list, float})


class CanonicalError(ValueError):
    """The value is outside the domain of RFC 8785; the message names the kind of trouble, never the
    value."""


def dumps(value: object) -> bytes:
    """Return the RFC 8785 bytes of a value made of str, int, float, bool, None, list and dict
    only."""
    out = _encode(value, _SORTED)
    return _settle(value, out, _numbers_fit([value], 0))


def event_bytes(event: Mapping[str, Any]) -> bytes:
    """Return the same bytes as dumps(event), quicker: most events hold only strings and integers in
    two levels."""
    try:
        out = orjson.dumps(event, None, _SORTED)
    except orjson.JSONEncodeError as error:
        raise CanonicalError(str(error)) from None
    if type(event) is not dict:
        return dumps(event)
    deep: list[object] = []
    for value in event.values():
        kind = type(value)
        if kind is str or kind is int:
            continue
        if kind is not dict:
            return _settle(event, out, _numbers_fit([event], 0))
        for inner in value.values():
            kind = type(inner)
            if kind is not str and kind is not int:
                deep.append(inner)
    if deep:
        return _settle(event, out, _numbers_fit(deep, 2))
    return out if out.isascii() else _settle(event, out, True)


def made_event_bytes(event: Mapping[str, Any]) -> bytes:
    """Return the same bytes as dumps(event) for an event whose envelope is known to hold only text
    and integers.

    So is every event that a Draft made; only the data of its content may hold anything else."""
    try:
        out = orjson.dumps(event, None, _SORTED)
    except orjson.JSONEncodeError as error:
        raise CanonicalError(str(error)) from None
    data = event["content"].get("data")
    if data is None or type(data) is str:
        return out
    return _settle(event, out, _numbers_fit([data], 2))


def made_events_bytes(events: list[Any]) -> bytes | None:
    """Return what made_event_bytes gives for each of many events, joined by commas and in brackets.

    None where one of them needs a closer look, which is rare.
    """
    deep = [data for event in events if (data := event["content"].get("data")) is not None]
    try:
        if deep and not _numbers_fit(deep, 2):
            events = [_with_fitting_numbers(event) for event in events]
        out = orjson.dumps(events, None, _SORTED)
    except (orjson.JSONEncodeError, CanonicalError):
        return None
    if out.isascii() or not _order_in_doubt(out) or not _has_astral_key(deep):
        return out
    return None


def _with_fitting_numbers(event: dict[str, Any]) -> Any:
    data = event["content"].get("data")
    return event if data is None or _numbers_fit([data], 2) else _with_es6_numbers(event)


def es6(x: float) -> str:
    """Return a finite float as ECMAScript's Number.prototype.toString writes it."""
    if not math.isfinite(x):
        raise CanonicalError("number is not finite")
    if x == 0:
        return "0"
    mantissa, _, exponent = float.__repr__(abs(x)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = int(exponent or 0) + len(digits) - len(fraction)
    digits = digits.rstrip("0")
    return ("-" if x < 0 else "") + _layout(digits, point)


def _layout(digits: str, point: int) -> str:
    if len(digits) <= point <= 21:
        return digits.ljust(point, "0")
    if 0 < point <= 21:
        return f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"0.{digits.rjust(len(digits) - point, '0')}"
    tail = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{tail}e{point - 1:+d}"


class EventsHash:
    """SHA-256 of the RFC 8785 bytes of an events array, fed with one event's bytes at a time."""

    __slots__ = ("_sha", "count")

    def __init__(self) -> None:
        self._sha = hashlib.sha256(b"[")
        self.count = 0

    def add(self, event_bytes: bytes) -> None:
        if self.count:
            self._sha.update(b",")
        self._sha.update(event_bytes)
        self.count += 1

    def add_all(self, array: bytes, count: int) -> None:
        """Take an array of that many events, at least one."""
        self._sha.update(b"," if self.count else b"")
        self._sha.update(memoryview(array)[1:-1])
        self.count += count

    def hexdigest(self) -> str:
        closed = self._sha.copy()
        closed.update(b"]")
        return closed.hexdigest()


def events_hash(events: Iterable[Mapping[str, Any]]) -> str:
    """Return the hash of an events array, the same for JSON and NDJSON."""
    running = EventsHash()
    for event in events:
        running.add(event_bytes(event))
    return running.hexdigest()


def document_hash(document: Mapping[str, object], events_hash: str) -> str:
    """Return the hash of everything in an export but its integrity, its events standing in by their
    hash."""
    covered = {key: value for key, value in document.items() if key != "integrity"}
    covered["events"] = events_hash
    return hashlib.sha256(dumps(covered)).hexdigest()


def _encode(value: object, option: int) -> bytes:
    try:
        return orjson.dumps(value, None, option)
    except orjson.JSONEncodeError as error:
        raise CanonicalError(str(error)) from None


def _numbers_fit(values: list[Any], depth: int) -> bool:
    """Tell whether orjson writes every float in values as RFC 8785 does; refuse the types that only
    orjson knows.

    It runs after orjson, which has met every cycle, long integer, lone surrogate and odd key
    already."""
    fit = True
    level: list[Any] = [values]
    while level:
        if depth > MAX_DEPTH:
            raise CanonicalError(f"nested more than {MAX_DEPTH} deep")
        below: list[Any] = []
        for holder in level:
            for item in holder.values() if type(holder) is dict else holder:
                kind = type(item)
                if kind is str or kind is int:
                    continue
                if kind is dict or kind is list:
                    below.append(item)
                elif kind is float:
                    fit = fit and 1e-4 <= abs(item) < 1e15 and not item.is_integer()
                elif kind is not bool and item is not None:
                    raise CanonicalError(f"not a JSON type: {kind.__name__}")
        level = below
        depth += 1
    return fit


def _settle(value: object, out: bytes, numbers_fit: bool) -> bytes:
    """Return out when it is RFC 8785 already, else encode a copy of value that orjson cannot get
    wrong."""
    if not numbers_fit:
        value = _with_es6_numbers(value)
        out = _encode(value, _SORTED)
    if out.isascii() or not _order_in_doubt(out) or not _has_astral_key(value):
        return out
    return _encode(_in_utf16_order(value), _AS_IS)


def _with_es6_numbers(value: Any) -> Any:
    kind = type(value)
    if kind is dict:
        return {
            key: _with_es6_numbers(item) if type(item) in _REWRITTEN else item
            for key, item in value.items()
        }
    if kind is list:
        return [_with_es6_numbers(item) if type(item) in _REWRITTEN else item for item in value]
    return _es6_number(value) if kind is float else value


def _es6_number(x: float) -> object:
    if x.is_integer() and abs(x) <= MAX_INTEGER:
        return int(x)
    return x if 1e-4 <= abs(x) < 1e15 else orjson.Fragment(es6(x).encode())


def _order_in_doubt(out: bytes) -> bool:
    """UTF-16 sorts as UTF-8 does, but puts keys beyond U+FFFF before U+E000 to U+FFFF; look for
    both lead bytes.

    An int is looked for because `bytes in bytes` pays for an exception inside first."""
    return (0xF0 in out or 0xF1 in out or 0xF2 in out or 0xF3 in out or 0xF4 in out) and (
        0xEF in out or 0xEE in out
    )


def _has_astral_key(value: object) -> bool:
    containers: list[Any] = [[value]]
    for container in containers:
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


def _in_utf16_order(value: Any) -> Any:
    kind = type(value)
    if kind is dict:
        ordered = sorted(value, key=lambda key: key.encode("utf-16-be"))
        return {key: _in_utf16_order(value[key]) for key in ordered}
    return [_in_utf16_order(item) for item in value] if kind is list else value
