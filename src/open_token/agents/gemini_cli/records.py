"""The records of a Gemini CLI file in order, each message once: its last form, in the place of its
first."""

import hashlib
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from open_token.jsontools.nesting import encode_deep
from open_token.sources.source import Source, decode_json

_TOLD = ("content", "displayContent", "thoughts", "tokens")
"""What a message says, but for its calls: they have ids of their own, and are told once."""


class Record(NamedTuple):
    """One record: a header, a message or a patch, with its place for notes."""

    place: str
    value: Any


class _Mark(msgspec.Struct, gc=False):
    """All that the first look at a line needs."""

    id: Any = None
    rewind: Any = msgspec.field(default=None, name="$rewindTo")


_mark = msgspec.json.Decoder(_Mark).decode


def records(source: Source) -> Iterator[Record]:
    """Every record; the messages of a whole document follow their header."""
    for number, value in _each_once(source):
        yield Record(f"line {number}", value)
        messages = (
            value.get("messages") if isinstance(value, dict) and "sessionId" in value else None
        )
        if isinstance(messages, list):
            yield from (
                Record(f"message {place}", message) for place, message in enumerate(messages, 1)
            )


def _each_once(source: Source) -> Iterator[tuple[int, Any]]:
    """The lines, with those held back that wait for a later form of their message."""
    first_of, last_of = _rewritten(source)
    held: deque[tuple[int, Any]] = deque()
    renewed: dict[int, Any] = {}
    out = _Out()
    for number, value in source.records():
        first = first_of.get(number)
        if first is None:
            held.append((number, value))
        elif last_of[first] == number:
            renewed[first] = value
        while held and (held[0][0] not in last_of or held[0][0] in renewed):
            line, known = held.popleft()
            last = renewed.pop(line, known)
            if (rest := out.rest(last) if source.grows else last) is not None:
                yield line, rest
    yield from held


class _Out:
    """The messages of a growing file that are out already: a later form of one tells only what is
    new in it."""

    def __init__(self) -> None:
        self._told: dict[str, set[bytes]] = {}

    def rest(self, value: Any) -> Any:
        """The record without what an earlier form of it has told; None when nothing is left."""
        if not isinstance(value, dict):
            return value
        if isinstance(target := value.get("$rewindTo"), str):
            self._forget(target)
        name = value.get("id")
        if not isinstance(name, str):
            return value
        is_first, told = name not in self._told, self._told.setdefault(name, set())
        parts = {field: _listed(value[field]) for field in _TOLD if field in value}
        new = {
            field: [part for part in held if _digest(part) not in told]
            for field, held in parts.items()
        }
        told.update(_digest(part) for held in parts.values() for part in held)
        if is_first:
            return value
        less = {field: left for field, left in new.items() if len(left) < len(parts[field])}
        return {**value, **less} if any(new.values()) or value.get("toolCalls") else None

    def _forget(self, target: str) -> None:
        """What was taken back may come again."""
        names = list(self._told)
        for name in names[names.index(target) if target in self._told else 0 :]:
            del self._told[name]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _digest(part: Any) -> bytes:
    return hashlib.blake2b(encode_deep(part).encode(), digest_size=16).digest()


def _rewritten(source: Source) -> tuple[dict[int, int], dict[int, int]]:
    """For each line that repeats a message the line of its first form, and for each such first line
    the last."""
    lives: dict[str, int] = {}
    first_of: dict[int, int] = {}
    last_of: dict[int, int] = {}
    for number, mark in source.records(_look, is_preview=True):
        if isinstance(mark, dict):
            mark = _Mark(mark.get("id"), mark.get("$rewindTo"))
        if not isinstance(mark, _Mark):
            continue
        if isinstance(mark.rewind, str):
            _forget(lives, mark.rewind)
        elif isinstance(mark.id, str):
            first = lives.setdefault(mark.id, number)
            if first != number:
                first_of[number] = first
                last_of[first] = number
    return first_of, last_of


def _forget(lives: dict[str, int], target: str) -> None:
    """A rewind ends the messages from its target on, or all when it names none of them."""
    start = lives.get(target, 0)
    while lives:
        name, line = lives.popitem()
        if line < start:
            lives[name] = line
            return


def _look(raw: bytes) -> Any:
    try:
        return _mark(raw)
    except msgspec.ValidationError:
        return decode_json(raw)
