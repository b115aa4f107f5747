"""Source values beside the events made from them: a string that an event carries becomes a reference, and back."""

import base64
import hashlib
import json
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from open_token.blocks import set_in
from open_token.model import Event
from open_token.walk import pointed

SHORTEST = 40
_REMEMBERED = 150_000
_DEEPEST = 64
"""What marks add around a value must not make it deeper than an event may be."""
_PARTS = 16
_SAFE = 2**53 - 1
_LONGEST_JSON = 1 << 20
_HIDDEN = frozenset(
    ("thinking", "thought", "thoughts", "reasoning", "reasoning_content", "reasoningText", "thinking_blocks", "summary")
)
_STYLES: tuple[dict[str, Any], ...] = (
    {"ensure_ascii": False, "separators": (",", ":")},
    {},
    {"ensure_ascii": False},
    {"separators": (",", ":")},
    {"ensure_ascii": False, "indent": 2},
)


class Carried:
    """Where strings stand in the events: as many as are remembered around the place that the source has come to."""

    def __init__(self, events: Iterable[Event], remembered: int = _REMEMBERED) -> None:
        self._events = iter(events)
        self._most = remembered
        self._places: dict[bytes, tuple[int, str]] = {}
        self._order: deque[tuple[int, bytes]] = deque()
        self._count = 0
        self._fill()

    def find(self, text: str) -> str | None:
        """The reference to a string, when an event near by carries it."""
        found = self._places.get(self._digest(text))
        if found is None:
            return None
        number, place = found
        while len(self._order) > self._most // 2 and self._order[0][0] < number:
            self._forget()
        self._fill()
        return place

    def _digest(self, text: str) -> bytes:
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=20).digest()

    def _forget(self) -> None:
        number, digest = self._order.popleft()
        if self._places.get(digest, (0, ""))[0] == number:
            del self._places[digest]

    def _fill(self) -> None:
        while len(self._order) < self._most:
            event = next(self._events, None)
            if event is None:
                return
            self._count += 1
            for pointer, text in pointed(event["content"], "/content"):
                if len(text) >= SHORTEST:
                    digest = self._digest(text)
                    if digest not in self._places:
                        self._places[digest] = self._count, f"{event['id']}#{pointer}"
                        self._order.append((self._count, digest))


Find = Callable[[str], str | None]


def fold(value: Any, find: Find, *, conceal: bool = False, depth: int = 0) -> Any:
    """The value with its carried strings as references; with `conceal`, hidden reasoning is left out."""
    kind = type(value)
    if kind is str:
        return _fold_text(value, find, conceal, depth) if len(value) >= SHORTEST else value
    if kind is dict:
        return _fold_dict(value, find, conceal, depth)
    if kind is list:
        if depth > _DEEPEST:
            return {"$deep": json.dumps(value)}
        items = [fold(item, find, conceal=conceal, depth=depth + 1) for item in value]
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items
    if kind is int and not -_SAFE <= value <= _SAFE:
        return {"$int": str(value)}
    if kind is float and value - value != 0:
        return {"$float": repr(value)}
    if kind is bytes:
        return {"$bytes": base64.b64encode(value).decode()}
    return value


def _fold_text(text: str, find: Find, conceal: bool, depth: int) -> Any:
    if place := find(text):
        return {"$ref": place}
    if text[0] not in "{[" or text[-1] not in "}]" or len(text) > _LONGEST_JSON or depth > _DEEPEST:
        return text
    try:
        inner = json.loads(text)
    except (ValueError, RecursionError):
        return text
    folded = fold(inner, find, conceal=conceal, depth=depth + 3)
    if folded is inner:
        return text
    for number, style in enumerate(_STYLES):
        if json.dumps(inner, **style) == text:
            return {"$json": [number, folded]}
    return text


def _fold_dict(value: dict[str, Any], find: Find, conceal: bool, depth: int) -> Any:
    if depth > _DEEPEST:
        return {"$deep": json.dumps(value)}
    if _is_mark(value):
        return {"$raw": [next(iter(value)), fold(next(iter(value.values())), find, conceal=conceal, depth=depth + 3)]}
    changed = None
    for key, item in value.items():
        if conceal and key in _HIDDEN and item:
            new: Any = {"$withheld": "reasoning"}
        else:
            new = fold(item, find, conceal=conceal, depth=depth + 1)
        if new is not item:
            changed = dict(value) if changed is None else changed
            changed[key] = new
    return value if changed is None else changed


def liken(values: list[Any]) -> list[Any]:
    """Records that follow each other, each told only as far as it differs from an earlier one with the same keys."""
    bases: dict[Any, int] = {}
    made: list[Any] = []
    for number, value in enumerate(values):
        if not _has_parts(value):
            made.append(value)
            continue
        shape, keys = _shape(value, 2), tuple(value)
        base = bases.get(shape, bases.get(keys))
        made.append(value if base is None else {"$like": [base, _changes(value, values[base])]})
        bases[shape] = bases[keys] = number
    return made


def _shape(value: dict[str, Any], depth: int) -> Any:
    """The names of a record's keys, and of those in its parts."""
    return tuple((key, _shape(item, depth - 1)) if depth and _has_parts(item) else key for key, item in value.items())


def _changes(value: dict[str, Any], base: dict[str, Any], depth: int = 0) -> dict[str, Any]:
    """What differs from a record with the same keys; a part that differs in part is told in part.

    Each part in a part adds a level, so far inside a part is told whole.
    """
    changed = {}
    for key, item in value.items():
        other = base[key]
        if depth < _PARTS and _has_parts(item) and _has_parts(other) and list(item) == list(other):
            if inner := _changes(item, other, depth + 1):
                changed[key] = {"$in": inner}
        elif not _same(item, other):
            changed[key] = item
    return changed


def _has_parts(value: Any) -> bool:
    return type(value) is dict and bool(value) and not _is_mark(value)


def _is_mark(value: dict[str, Any]) -> bool:
    return len(value) == 1 and next(iter(value)).startswith("$")


def _same(one: Any, other: Any) -> bool:
    """Whether two values are alike in JSON: 1, 1.0 and true are not, and neither are keys in another order."""
    if type(one) is not type(other):
        return False
    if type(one) is dict:
        return list(one) == list(other) and all(_same(item, other[key]) for key, item in one.items())
    if type(one) is list:
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


class Unresolved(Exception):
    """A value cannot be given back: it was withheld, or what it refers to is not there or has changed."""


def unfold(value: Any, resolve: Callable[[str], str]) -> Any:
    """The value as it was in the source."""
    if isinstance(value, list):
        return [unfold(item, resolve) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        (name, given), *_ = value.items()
        if name.startswith("$"):
            return _unfold_mark(name, given, resolve)
    return {key: unfold(item, resolve) for key, item in value.items()}


def unfold_all(values: list[Any], resolve: Callable[[str], str]) -> list[Any]:
    """Records that were told together, as they were in the source."""
    made: list[Any] = []
    for value in values:
        match value:
            case {"$like": [int() as base, dict() as changed]} if len(value) == 1 and 0 <= base < len(made):
                made.append(_changed(made[base], changed, resolve))
            case _:
                made.append(unfold(value, resolve))
    return made


def _changed(base: Any, changes: dict[str, Any], resolve: Callable[[str], str]) -> dict[str, Any]:
    if not isinstance(base, dict):
        raise Unresolved("$like")
    made = dict(base)
    for key, item in changes.items():
        if isinstance(item, dict) and len(item) == 1 and isinstance(inner := item.get("$in"), dict):
            made[key] = _changed(made.get(key), inner, resolve)
        else:
            made[key] = unfold(item, resolve)
    return made


def _unfold_mark(name: str, given: Any, resolve: Callable[[str], str]) -> Any:
    match name, given:
        case "$ref", str():
            return resolve(given)
        case "$json", [int() as style, inner] if 0 <= style < len(_STYLES):
            return json.dumps(unfold(inner, resolve), **_STYLES[style])
        case "$raw", [str() as key, inner]:
            return {key: unfold(inner, resolve)}
        case "$parts", list():
            return "".join(str(unfold(piece, resolve)) for piece in given)
        case "$cut", [str() as place, int() as start, int() as end]:
            return resolve(place)[start:end]
        case "$lines", [str() as place, str() as before, str() as behind, bool() as bare]:
            return set_in(resolve(place), before, behind, bare)
        case "$lines", [
            [str() as place, int() as start, int() as end],
            str() as before,
            str() as behind,
            bool() as bare,
        ]:
            return set_in(resolve(place)[start:end], before, behind, bare)
        case "$bytes", str():
            return base64.b64decode(given)
        case "$deep", str():
            return msgspec.json.decode(given)
        case "$int", str():
            return int(given)
        case "$float", str():
            return float(given)
    raise Unresolved(name)
