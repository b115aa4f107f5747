"""Source values beside the events made from them: a string that an event carries becomes a
reference, and back."""

import base64
import hashlib
import json
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from open_token.blocks import set_in
from open_token.model import Event
from open_token.nesting import spelled, unspelled
from open_token.timestamps import to_epoch_ms
from open_token.walk import pointed

SHORTEST = 40
_REMEMBERED = 150_000
_DEEPEST = 64
"""What marks add around a value must not make it deeper than an event may be."""
_SAFE = 2**53 - 1
_LONGEST_JSON = 1 << 20
_HIDDEN = frozenset(
    (
        "thinking",
        "thought",
        "thoughts",
        "reasoning",
        "reasoning_content",
        "reasoningText",
        "thinking_blocks",
        "summary",
    )
)
_STYLES: tuple[dict[str, Any], ...] = (
    {"ensure_ascii": False, "separators": (",", ":")},
    {},
    {"ensure_ascii": False},
    {"separators": (",", ":")},
    {"ensure_ascii": False, "indent": 2},
)


class Carried:
    """Where strings stand in the events: as many as are remembered around the place that the source
    has come to."""

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
    """The value with its carried strings as references; with `conceal`, hidden reasoning is left
    out."""
    kind = type(value)
    if kind is str:
        return _fold_text(value, find, conceal, depth) if len(value) >= SHORTEST else value
    if kind is dict:
        return _fold_dict(value, find, conceal, depth)
    if kind is list:
        if depth > _DEEPEST:
            return {"$deep": spelled(value)}
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
        return {"$deep": spelled(value)}
    if is_mark(value):
        return {
            "$raw": [
                next(iter(value)),
                fold(next(iter(value.values())), find, conceal=conceal, depth=depth + 3),
            ]
        }
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


def has_parts(value: Any) -> bool:
    """Whether a folded value is an object of the source that is not empty."""
    return type(value) is dict and bool(value) and not is_mark(value)


def is_mark(value: dict[str, Any]) -> bool:
    """Whether an object in a folded value stands for something else."""
    return len(value) == 1 and next(iter(value)).startswith("$")


def same(one: Any, other: Any) -> bool:
    """Whether two values are alike in JSON: 1, 1.0 and true are not, and neither are keys in
    another order."""
    if type(one) is not type(other):
        return False
    if type(one) is dict:
        return list(one) == list(other) and all(same(item, other[key]) for key, item in one.items())
    if type(one) is list:
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


class Unresolved(Exception):
    """A value cannot be given back: it was withheld, or what it refers to is not there or has
    changed."""


class TooLarge(Exception):
    """What a value stands for is more than there is room for."""


class Room:
    """How many letters marks may still grow to: a short one can stand for a long text, and any
    number of them may."""

    def __init__(self, letters: int) -> None:
        self._left = letters

    def take(self, letters: int) -> None:
        """Use some up; TooLarge when there are not so many."""
        self._left -= letters
        if self._left < 0:
            raise TooLarge


Resolve = Callable[[str], Any]


def unfold(value: Any, resolve: Resolve, room: Room, before: list[Any] | None = None) -> Any:
    """The value as it was in the source; before it stand the records that were told together with
    it."""
    if isinstance(value, list):
        return [unfold(item, resolve, room, before) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        (name, given), *_ = value.items()
        if name == "$at":
            return _counted(_at(given, before or []), room)
        if name.startswith("$"):
            return _unfold_mark(name, given, resolve, room)
    return {key: unfold(item, resolve, room, before) for key, item in value.items()}


def _counted(value: Any, room: Room) -> Any:
    room.take(len(value) if isinstance(value, str) else 1)
    return value


def _at(given: Any, before: list[Any]) -> Any:
    """What stands in an earlier record: so many records back, at this place."""
    back, *steps = given.split("/") if isinstance(given, str) else [""]
    if not back.isdecimal() or not 0 < int(back) <= len(before):
        raise Unresolved("$at")
    value = before[-int(back)]
    try:
        for step in steps:
            value = value[int(step)] if isinstance(value, list) else value[step]
    except (KeyError, IndexError, ValueError, TypeError):
        raise Unresolved("$at") from None
    if not isinstance(value, str | int | float):  # whole records in records would double with each
        raise Unresolved("$at")
    return value


def unfold_all(values: list[Any], resolve: Resolve, room: Room) -> list[Any]:
    """Records that were told together, as they were in the source."""
    told: list[Any] = []
    made: list[Any] = []
    for value in values:
        match value:
            case {"$like": [int() as base, dict() as changed, *shift]} if len(
                value
            ) == 1 and 0 <= base < len(told):
                value = _changed(shifted(told[base], *shift) if shift else told[base], changed)
                room.take(len(msgspec.json.encode(value)))
        told.append(value)
        made.append(unfold(value, resolve, room, made))
    return made


def shifted(value: Any, by: int) -> Any:
    """A folded value whose references lead to events so many numbers further on."""
    if not by:
        return value
    if isinstance(value, list):
        return [shifted(item, by) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        (name, given), *_ = value.items()
        if name in ("$ref", "$ms") and isinstance(given, str):
            number, _, pointer = given.removeprefix("evt_").partition("#")
            if not number.isdecimal() or type(by) is not int:
                raise Unresolved(name)
            return {name: f"evt_{int(number) + by:06d}#{pointer}"}
    return {key: shifted(item, by) for key, item in value.items()}


def _changed(base: Any, changes: dict[str, Any]) -> Any:
    if isinstance(base, list):
        made: Any = list(base)
        places = {key: int(key) for key in changes if key.isdecimal() and int(key) < len(base)}
    elif isinstance(base, dict):
        made, places = dict(base), {key: key for key in changes}  # type: ignore[misc]
    else:
        raise Unresolved("$like")
    if len(places) < len(changes):
        raise Unresolved("$like")
    for key, item in changes.items():
        place: Any = places[key]
        if isinstance(item, dict) and len(item) == 1 and isinstance(inner := item.get("$in"), dict):
            made[place] = _changed(
                made[place] if isinstance(made, list) else made.get(place), inner
            )
        else:
            made[place] = item
    return made


def _unfold_mark(name: str, given: Any, resolve: Resolve, room: Room) -> Any:
    match name, given:
        case "$ref", str():
            return _counted(resolve(given), room)
        case "$ms", str() if (moment := to_epoch_ms(resolve(given))) is not None:
            return moment
        case "$json", [int() as style, inner] if 0 <= style < len(_STYLES):
            return _as_json(unfold(inner, resolve, room), style, room)
        case "$raw", [str() as key, inner]:
            return {key: unfold(inner, resolve, room)}
        case "$parts", list():
            # A list among them is spelled out, and around it each level would double the
            # backslashes.
            return "".join(_counted(str(unfold(piece, resolve, room)), room) for piece in given)
        case "$cut", [str() as place, int() as start, int() as end]:
            return _counted(str(resolve(place))[start:end], room)
        case "$lines", [words, str() as left, str() as right, bool() as bare]:
            said = unfold(
                {"$ref": words} if isinstance(words, str) else {"$cut": words}, resolve, room
            )
            room.take(said.count("\n") * (len(left) + len(right)))
            return set_in(said, left, right, bare)
        case "$bytes", str():
            return base64.b64decode(given)
        case "$deep", str():
            return unspelled(given)
        case "$int", str():
            return int(given)
        case "$float", str():
            return float(given)
    raise Unresolved(name)


def _as_json(value: Any, style: int, room: Room) -> str:
    """JSON inside a string; around it, each level of such strings doubles the backslashes."""
    how = _STYLES[style]
    if "indent" in how:
        room.take(_margins(value, how["indent"]))
    text: str = _counted(json.dumps(value, **how), room)
    return text


def _margins(value: Any, width: int) -> int:
    """How many blanks stand before the parts of a value when it is written in lines: many, where it
    is deep."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return sum(width + _margins(item, width + 2) for item in inner)
