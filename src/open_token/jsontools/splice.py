"""Replace values in JSON text: all other bytes of the text stay as they are."""

import json
import re
from typing import Any

import msgspec

# A string, a bracket or separator, or a number or literal.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
# One character as JSON spells it. An escaped surrogate pair is one character in Python.
_CHARACTER = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u....|\\.|.", re.DOTALL
)
_DEPTH_CHANGES = {"{": 1, "[": 1, "}": -1, "]": -1}


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
        """The index of the next token."""
        self._parts: list[str] = []
        """The new text as far as it is known: up to the last replacement."""
        self._position = 0
        """Where in the old text the parts end."""

    def compare(self, old: Any, new: Any) -> None:
        """Pass the tokens of a value; replace those that differ."""
        is_empty_container = isinstance(old, dict | list) and not old
        if new is old or is_empty_container:
            self._skip()
        elif isinstance(old, dict) and isinstance(new, dict) and len(old) == len(new):
            self._compare_objects(old, new)
        elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
            self._compare_lists(old, new)
        else:
            self._replace(old, new)

    def _compare_objects(self, old: dict[str, Any], new: dict[str, Any]) -> None:
        self._next += 1  # the opening bracket
        for (key, item), (new_key, new_item) in zip(old.items(), new.items(), strict=True):
            self._compare_key(key, new_key)
            self.compare(item, new_item)
            self._next += 1  # a comma, or the closing bracket
        self._require_end("}")

    def _compare_lists(self, old: list[Any], new: list[Any]) -> None:
        self._next += 1
        for item, new_item in zip(old, new, strict=True):
            self.compare(item, new_item)
            self._next += 1
        self._require_end("]")

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
        self._next += 1  # the colon

    def _require_end(self, bracket: str) -> None:
        """Check that the last token closed the container: the text may hold more than the value."""
        start, end = self._tokens[self._next - 1]
        if self._text[start:end] != bracket:
            raise _MismatchError

    def _skip(self) -> tuple[int, int]:
        """Pass the tokens of one value and return the span of its text."""
        depth = 0
        first = self._next
        while self._next < len(self._tokens):
            start, end = self._tokens[self._next]
            self._next += 1
            is_single_character = end == start + 1
            if is_single_character:
                depth += _DEPTH_CHANGES.get(self._text[start], 0)
            if depth <= 0:
                value_start = self._tokens[first][0]
                return value_start, end
        raise _MismatchError

    def _replace(self, old: Any, new: Any) -> None:
        start, end = self._skip()
        spelled = self._text[start:end]
        if isinstance(old, str) and isinstance(new, str):
            replacement = _spell_string(spelled, old, new)
        else:
            replacement = msgspec.json.encode(new).decode()
        self._parts.append(self._text[self._position : start])
        self._parts.append(replacement)
        self._position = end


def _spell_string(spelled: str, old: str, new: str) -> str:
    """Return a string as JSON, with escapes as the original string has them."""
    # Serializers differ in two points: whether they escape what is not ASCII, and slashes.
    for ensure_ascii in (False, True):
        for slash in ("/", "\\/"):
            if json.dumps(old, ensure_ascii=ensure_ascii).replace("/", slash) == spelled:
                return json.dumps(new, ensure_ascii=ensure_ascii).replace("/", slash)
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
    changed = new[head : len(new) - tail]
    middle = json.dumps(changed, ensure_ascii=False).removeprefix('"').removesuffix('"')
    before = "".join(pieces[:head])
    after = "".join(pieces[len(pieces) - tail :])
    return f'"{before}{middle}{after}"'
