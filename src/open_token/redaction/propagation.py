"""Find known values where they occur without the context that identified them.

Each value is searched for verbatim, escaped for JSON or a URL, and encoded in base64. The search
is linear in the text and in the values together, whatever they are: of a long form only the head
is searched for, and compared from there on.
"""

import base64
import json
from bisect import bisect_left
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
# RE2 needs memory for each byte of its pattern; without enough of it, it is slow.
_FORMS_PER_PATTERN = 500
_BYTES_PER_PATTERN = 1 << 14
_LONG_VALUE = 16
_LONG_BASE64 = 20
# What has this many bytes in common with a value is taken for it, as far as it goes on like it:
# no engine takes longer literals well, and to try whole values at every position is quadratic.
_HEAD_SIZE = 1 << 10
_BLOCK_SIZE = 64
# Text after a value that may have been taken for its end: punctuation, further form fields.
_TRAILING_MARKS = ".,;:!?)]}>*|\"'`\\"
_FORM_FIELD = lazy_compile(r"&[\w.-]+=")
_RESERVED_BYTE = lazy_compile(rb"[^0-9A-Za-z_.~-]")

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
            bare = _strip_trailing_text(value)
            if bare != value and may_recur(bare):
                for form in _iter_forms(bare, with_base64):
                    forms.setdefault(form, value)
        self._value_of_form = forms
        self._long_forms = _LongForms(form for form in forms if len(form) >= _HEAD_SIZE)
        heads: dict[bytes, str] = {}
        for form, value in forms.items():
            heads.setdefault(form[:_HEAD_SIZE], value)
        self._heads = list(heads.items())
        self._search = _build_search(list(heads), engine)

    def __bool__(self) -> bool:
        return bool(self._heads)

    def find(self, text: bytes) -> Iterator[Occurrence]:
        """Yield the occurrences of values in a text; those of long values as few, long spans."""
        long_hits: list[tuple[int, str]] = []
        for number, end in self._search(text):
            head, value = self._heads[number]
            start = end - len(head)
            if len(head) == _HEAD_SIZE:
                long_hits.append((start, value))
            elif _is_standalone(text, start, end):
                yield Occurrence(start, end, value)
        yield from self._extend(text, sorted(long_hits))

    def _extend(self, text: bytes, hits: list[tuple[int, str]]) -> Iterator[Occurrence]:
        """Yield the spans that begin with the heads of long forms, those that overlap as one."""
        first = 0
        last = 0
        first_value = ""
        for start, value in hits:
            if start >= last:
                if last:
                    yield self._name_span(text, first, last, first_value)
                first = start
                first_value = value
                last = start
            last = self._long_forms.find_end(text, start, last)
        if last:
            yield self._name_span(text, first, last, first_value)

    def _name_span(self, text: bytes, start: int, end: int, value: str) -> Occurrence:
        """Return a span as an occurrence of exactly its value, or else of one with that head."""
        return Occurrence(start, end, self._value_of_form.get(text[start:end], value))


class _LongForms:
    """Forms of values that are too long to be searched for as they are, cut into blocks."""

    def __init__(self, forms: Iterable[bytes]) -> None:
        followers: dict[bytes, set[bytes]] = {}
        for form in forms:
            previous = form[:_HEAD_SIZE]
            # The last block of a form is shorter than the others, and may be empty.
            for position in range(_HEAD_SIZE, len(form) + 1, _BLOCK_SIZE):
                block = form[position : position + _BLOCK_SIZE]
                followers.setdefault(previous, set()).add(block)
                previous = block
        self._followers = {previous: sorted(blocks) for previous, blocks in followers.items()}
        """What may follow a head or a block."""

    def find_end(self, text: bytes, start: int, covered: int) -> int:
        """Return how far a text goes on like a form whose head is at `start`, at least `covered`.

        What is covered is not compared again: heads may overlap at every other byte.
        """
        position = start + _HEAD_SIZE
        previous = text[start:position]
        if covered > position:
            position += (covered - position) // _BLOCK_SIZE * _BLOCK_SIZE
            if position > start + _HEAD_SIZE:
                previous = text[position - _BLOCK_SIZE : position]
        while followers := self._followers.get(previous):
            block = text[position : position + _BLOCK_SIZE]
            place = bisect_left(followers, block)
            neighbours = followers[max(0, place - 1) : place + 1]
            common = max(_count_common_bytes(block, other) for other in neighbours)
            position += common
            if common < _BLOCK_SIZE:
                break
            previous = block
        return max(position, covered)


def _count_common_bytes(one: bytes, other: bytes) -> int:
    if one == other:
        return len(one)
    for number, (byte, other_byte) in enumerate(zip(one, other, strict=False)):
        if byte != other_byte:
            return number
    return min(len(one), len(other))


def _strip_trailing_text(value: str) -> str:
    field = _FORM_FIELD.search(value)
    return value[: field.start()] if field else value.rstrip(_TRAILING_MARKS)


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
    patterns = [
        compile_re2("|".join(map(escape_literal, chunk)), longest=True)
        for chunk in _split_for_re2(forms)
    ]

    def search(text: bytes) -> Iterator[tuple[int, int]]:
        for pattern in patterns:
            position = 0
            while match := pattern.search(text, position):
                yield numbers[match.group()], match.end()
                position = match.start() + 1

    return search


def _split_for_re2(forms: list[bytes]) -> Iterator[list[bytes]]:
    chunk: list[bytes] = []
    size = 0
    for form in forms:
        if len(chunk) == _FORMS_PER_PATTERN or size > _BYTES_PER_PATTERN:
            yield chunk
            chunk = []
            size = 0
        chunk.append(form)
        size += len(form)
    yield chunk


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
    in_url = _RESERVED_BYTE.sub(lambda byte: b"%%%02X" % ord(byte[0]), raw)
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
