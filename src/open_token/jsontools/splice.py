"""Replace values in JSON text: all other bytes of the text stay as they are."""

import json
import re
from collections.abc import Callable
from typing import Any

import msgspec

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_CHARACTER = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u....|\\.|.", re.DOTALL
)
_STEPS = {"{": 1, "[": 1, "}": -1, "]": -1}


class _MismatchError(Exception):
    """The text does not spell the value: a key occurs twice in one object."""


def splice_json(text: str, old: Any, new: Any) -> str | None:
    """Return the JSON text of `old` with the changes that lead to `new`.

    `new` shares with `old` what is unchanged, and has as many keys and items. Returns None if the
    text has a key twice in one object, so that `old` does not hold all of it.
    """
    splice = _Splice(text)
    try:
        splice.compare(old, new)
    except _MismatchError:
        return None
    return splice.join()


class _Splice:
    """Walk through the tokens of a text and two values at once; collect what is replaced."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [match.span() for match in _TOKEN.finditer(text)]
        self._next = 0
        self._parts: list[str] = []
        self._position = 0

    def compare(self, old: Any, new: Any) -> None:
        """Pass the tokens of a value; replace those that differ."""
        if new is old or (not old and isinstance(old, dict | list)):
            self._skip()
        elif isinstance(old, dict) and isinstance(new, dict) and len(old) == len(new):
            self._next += 1
            for (key, item), (new_key, new_item) in zip(old.items(), new.items(), strict=True):
                self._compare_key(key, new_key)
                self.compare(item, new_item)
                self._next += 1
            self._require_end("}")
        elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
            self._next += 1
            for item, new_item in zip(old, new, strict=True):
                self.compare(item, new_item)
                self._next += 1
            self._require_end("]")
        else:
            self._replace(old, new)

    def join(self) -> str:
        """Return the text with all replacements."""
        return "".join([*self._parts, self._text[self._position :]])

    def _compare_key(self, key: str, new_key: str) -> None:
        if self._next >= len(self._tokens):
            raise _MismatchError
        start, end = self._tokens[self._next]
        spelled = self._text[start:end]
        if not spelled.startswith('"') or json.loads(spelled, strict=False) != key:
            raise _MismatchError
        if new_key is key:
            self._next += 1
        else:
            self._replace(key, new_key)
        self._next += 1

    def _require_end(self, bracket: str) -> None:
        if self._text[slice(*self._tokens[self._next - 1])] != bracket:
            raise _MismatchError

    def _skip(self) -> tuple[int, int]:
        """Pass the tokens of one value and return the span of its text."""
        depth = 0
        first = self._next
        while self._next < len(self._tokens):
            start, end = self._tokens[self._next]
            self._next += 1
            depth += _STEPS.get(self._text[start:end], 0) if end == start + 1 else 0
            if depth <= 0:
                return self._tokens[first][0], end
        raise _MismatchError

    def _replace(self, old: Any, new: Any) -> None:
        start, end = self._skip()
        spelled = self._text[start:end]
        if isinstance(old, str) and isinstance(new, str):
            replacement = _spell_string(spelled, old, new)
        else:
            replacement = msgspec.json.encode(new).decode()
        self._parts += [self._text[self._position : start], replacement]
        self._position = end


def _spell_string(spelled: str, old: str, new: str) -> str:
    """Return a string as JSON, with escapes as the original string has them."""
    spellings: list[Callable[[str], str]] = [
        lambda text: json.dumps(text, ensure_ascii=False),
        json.dumps,
        lambda text: json.dumps(text, ensure_ascii=False).replace("/", "\\/"),
        lambda text: json.dumps(text).replace("/", "\\/"),
    ]
    for spell in spellings:
        if spell(old) == spelled:
            return spell(new)
    return _splice_string(spelled, old, new)


def _splice_string(spelled: str, old: str, new: str) -> str:
    """Return a string whose escapes follow no rule: what is equal at both ends keeps its own."""
    pieces = _CHARACTER.findall(spelled[1:-1])
    if len(pieces) != len(old):
        return json.dumps(new, ensure_ascii=False)
    shorter = min(len(old), len(new))
    head = 0
    while head < shorter and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < shorter - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    middle = json.dumps(new[head : len(new) - tail], ensure_ascii=False)[1:-1]
    return '"' + "".join([*pieces[:head], middle, *pieces[len(pieces) - tail :]]) + '"'
