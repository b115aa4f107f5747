"""Finds confirmed values where they stand without the context that gave them away, also escaped and
encoded."""

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from open_token.passes._detect import WORD
from open_token.passes._found import Found
from open_token.passes._gate import compiled, escaped
from open_token.passes._hyperscan import literal_database
from open_token.passes._late import late
from open_token.passes._letters import encoded
from open_token.passes._rules import Rule
from open_token.passes._values import may_recur

MOST_VALUES = 20_000
_MOST_ENCODED = 2_000
_CHUNK = 500
_LONG = 16
_LONG_ENCODED = 20
# What stands behind a value and may have been taken for its end: signs of the text around it, more
# of a form.
_REST = late(r"(?:&[\w.-]+=.*|[.,;:!?)\]}>*|\"'`\\]+)$", re.DOTALL)
_UNRESERVED = frozenset(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_.-~")


class Occurrence(NamedTuple):
    """A stretch of bytes that holds a value in one of its forms."""

    start: int
    end: int
    value: str


def recurring(found: Found) -> list[str]:
    """The values that are masked wherever else they stand, in the order in which they were
    found."""
    return [value for value, (_, rule) in found.values.items() if is_sought(value, rule)]


def is_sought(value: str, rule: Rule) -> bool:
    """Whether a value is masked wherever else it stands; a name only as a whole or as a part of
    one."""
    return rule.recurs and (rule.finder == "part" if rule.finder else may_recur(value))


class Spread:
    """Finds values wherever they stand: as they are, escaped for JSON or a URL, and in base64."""

    def __init__(self, values: Iterable[str], engine: str) -> None:
        forms: dict[bytes, str] = {}
        for number, value in enumerate(islice(values, MOST_VALUES)):
            forms.update(dict.fromkeys(_forms(value, number < _MOST_ENCODED), value))
            if (bare := _REST.sub("", value)) != value and may_recur(bare):
                for form in _forms(bare, number < _MOST_ENCODED):
                    forms.setdefault(form, value)
        self._values = list(forms.items())
        self._search = _search_for(list(forms), engine)

    def __bool__(self) -> bool:
        return bool(self._values)

    def find(self, text: bytes) -> Iterator[Occurrence]:
        for number, end in self._search(text):
            form, value = self._values[number]
            start = end - len(form)
            if _stands_alone(text, start, end):
                yield Occurrence(start, end, value)


Search = Callable[[bytes], Iterable[tuple[int, int]]]


def _search_for(forms: list[bytes], engine: str) -> Search:
    """What tells the number and the end of each form in a text."""
    if not forms:
        return lambda text: ()
    database = literal_database(forms) if engine != "keywords" else None
    if database is None:
        return _re2_search(forms)

    def search(text: bytes) -> list[tuple[int, int]]:
        hits: list[tuple[int, int]] = []
        database.scan(
            text,
            match_event_handler=lambda number, start, end, flags, context: hits.append(
                (number, end)
            ),
        )
        return hits

    return search


def _re2_search(forms: list[bytes]) -> Search:
    numbers = {form: number for number, form in enumerate(forms)}
    chunks = [forms[place : place + _CHUNK] for place in range(0, len(forms), _CHUNK)]
    patterns = [compiled("|".join(map(escaped, chunk)), longest=True) for chunk in chunks]

    def search(text: bytes) -> Iterator[tuple[int, int]]:
        for pattern in patterns:
            place = 0
            while match := pattern.search(text, place):
                yield numbers[match.group()], match.end()
                place = match.start() + 1

    return search


def _stands_alone(text: bytes, start: int, end: int) -> bool:
    """A short value or a number may be part of something else; a long one is itself wherever it
    stands."""
    if end - start >= _LONG and not text[start:end].isdigit():
        return True
    before = start > 0 and text[start - 1] in WORD and text[start] in WORD
    after = end < len(text) and text[end] in WORD and text[end - 1] in WORD
    return not before and not after


def _forms(value: str, encoded_too: bool) -> Iterator[bytes]:
    raw = encoded(value)
    yield raw
    for in_json in (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]):
        if in_json != value:
            yield encoded(in_json)
    in_url = b"".join(bytes((byte,)) if byte in _UNRESERVED else b"%%%02X" % byte for byte in raw)
    if in_url != raw:
        yield in_url
    if encoded_too and len(raw) >= _LONG:
        for shift in range(3):
            text = base64.b64encode(bytes(shift) + raw)[
                -(-8 * shift // 6) : 8 * (shift + len(raw)) // 6
            ]
            if len(text) >= _LONG_ENCODED:
                yield text
