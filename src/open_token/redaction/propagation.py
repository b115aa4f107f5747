"""Find known values where they occur without the context that identified them.

Each value is searched for verbatim, escaped for JSON or a URL, and encoded in base64.
"""

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from open_token.redaction.detector import WORD_BYTES
from open_token.redaction.found_values import FoundValues
from open_token.redaction.hyperscan_prefilter import compile_literals
from open_token.redaction.lazy_patterns import lazy_compile
from open_token.redaction.prefilter import compile_re2, escape_literal
from open_token.redaction.ruleset import Rule
from open_token.redaction.text_encoding import encode_text
from open_token.redaction.validators.values import may_recur

MAX_VALUES = 20_000
_MAX_ENCODED_VALUES = 2_000
_FORMS_PER_PATTERN = 500
_LONG_VALUE = 16
_LONG_BASE64 = 20
# Text after a value that may have been taken for its end: punctuation, further form fields.
_TRAILING_TEXT = lazy_compile(r"(?:&[\w.-]+=.*|[.,;:!?)\]}>*|\"'`\\]+)$", re.DOTALL)
_UNRESERVED = frozenset(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_.-~")

FormSearch = Callable[[bytes], Iterable[tuple[int, int]]]
"""Return the number and the end of each form in a text."""


class Occurrence(NamedTuple):
    """A span of bytes that holds a value in one of its forms."""

    start: int
    end: int
    value: str


def list_recurring_values(found: FoundValues) -> list[str]:
    """Return the values that are masked wherever they occur, in the order they were found."""
    return [value for value, (_, rule) in found.values.items() if is_propagated(value, rule)]


def is_propagated(value: str, rule: Rule) -> bool:
    """Return whether a value is masked wherever it occurs; of person names, only their parts."""
    if not rule.recurs:
        return False
    if rule.finder:
        return rule.finder == "part"
    return may_recur(value)


class ValueSearch:
    """Search for values in all their forms."""

    def __init__(self, values: Iterable[str], engine: str) -> None:
        forms: dict[bytes, str] = {}
        for number, value in enumerate(islice(values, MAX_VALUES)):
            with_base64 = number < _MAX_ENCODED_VALUES
            forms.update(dict.fromkeys(_iter_forms(value, with_base64), value))
            bare = _TRAILING_TEXT.sub("", value)
            if bare != value and may_recur(bare):
                for form in _iter_forms(bare, with_base64):
                    forms.setdefault(form, value)
        self._values = list(forms.items())
        self._search = _build_search(list(forms), engine)

    def __bool__(self) -> bool:
        return bool(self._values)

    def find(self, text: bytes) -> Iterator[Occurrence]:
        """Yield each occurrence of a value in a text."""
        for number, end in self._search(text):
            form, value = self._values[number]
            start = end - len(form)
            if _is_standalone(text, start, end):
                yield Occurrence(start, end, value)


def _build_search(forms: list[bytes], engine: str) -> FormSearch:
    if not forms:
        return lambda text: ()
    database = compile_literals(forms) if engine != "keywords" else None
    if database is None:
        return _build_re2_search(forms)

    def search(text: bytes) -> list[tuple[int, int]]:
        hits: list[tuple[int, int]] = []

        def add_hit(number: int, start: int, end: int, flags: int, context: object) -> None:
            hits.append((number, end))

        database.scan(text, match_event_handler=add_hit)
        return hits

    return search


def _build_re2_search(forms: list[bytes]) -> FormSearch:
    numbers = {form: number for number, form in enumerate(forms)}
    patterns = []
    for first in range(0, len(forms), _FORMS_PER_PATTERN):
        chunk = forms[first : first + _FORMS_PER_PATTERN]
        patterns.append(compile_re2("|".join(map(escape_literal, chunk)), longest=True))

    def search(text: bytes) -> Iterator[tuple[int, int]]:
        for pattern in patterns:
            position = 0
            while match := pattern.search(text, position):
                yield numbers[match.group()], match.end()
                position = match.start() + 1

    return search


def _is_standalone(text: bytes, start: int, end: int) -> bool:
    """Return whether an occurrence is not merely a part of a longer word or number.

    A long value that is no number is itself wherever it occurs.
    """
    if end - start >= _LONG_VALUE and not text[start:end].isdigit():
        return True
    if start > 0 and text[start - 1] in WORD_BYTES and text[start] in WORD_BYTES:
        return False
    return not (end < len(text) and text[end] in WORD_BYTES and text[end - 1] in WORD_BYTES)


def _iter_forms(value: str, with_base64: bool) -> Iterator[bytes]:
    raw = encode_text(value)
    yield raw
    for in_json in (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]):
        if in_json != value:
            yield encode_text(in_json)
    in_url = b"".join(bytes((byte,)) if byte in _UNRESERVED else b"%%%02X" % byte for byte in raw)
    if in_url != raw:
        yield in_url
    if with_base64 and len(raw) >= _LONG_VALUE:
        yield from _iter_base64_forms(raw)


def _iter_base64_forms(raw: bytes) -> Iterator[bytes]:
    """Yield the base64 of a value for each offset it may have within a group of three bytes.

    The characters at both ends, which neighbouring bytes have a part in, are left out.
    """
    for shift in range(3):
        first = -(-8 * shift // 6)
        last = 8 * (shift + len(raw)) // 6
        encoded = base64.b64encode(bytes(shift) + raw)[first:last]
        if len(encoded) >= _LONG_BASE64:
            yield encoded
