"""What a redaction finds, told without the values: type, rule, places, and the words around with
everything masked."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from open_token.context import Context
from open_token.model import Record
from open_token.passes import _masking
from open_token.passes._found import Found
from open_token.passes._marker import Marker, canonical
from open_token.passes._marks import MARK
from open_token.passes._own_detector import value_hash
from open_token.passes._rules import Rule
from open_token.passes._screen import detector_for
from open_token.passes._strict import WHOLE
from open_token.passes.redact import search
from open_token.passes.text import TextFilter, text_level

_FIRST_NUMBER = 0xF0000000
_AROUND = 160
_MOST_PLACES = 1000


class Place(NamedTuple):
    """Where a value stands, and the words on both sides of it, in which everything else is masked,
    too."""

    where: str
    before: str
    after: str


@dataclass
class Finding:
    """One value with its rule and all its places."""

    type: str
    rule: str
    level: str
    value: str = field(repr=False)
    count: int = 0
    places: list[Place] = field(default_factory=list)

    @property
    def canonical(self) -> str:
        """The value in the form in which equal ones are alike."""
        return canonical(self.type, self.value)

    @property
    def shape(self) -> str:
        """What may be said of the value."""
        kinds = [name for name, test in _KINDS if re.search(test, self.value)]
        return f"{len(self.value):,} characters: {', '.join(kinds)}"


_KINDS = (
    ("small letters", "[a-z]"),
    ("capitals", "[A-Z]"),
    ("digits", "[0-9]"),
    ("spaces", r"\s"),
    ("signs", r"[^\w\s]|_"),
    ("other letters", r"[^\W\d_a-zA-Z]"),
)


class Numbered(Marker):
    """Marks by which each value is found again in what was masked."""

    def __init__(self) -> None:
        super().__init__(lambda value: "")
        self.values: list[tuple[str, str]] = []
        self._numbers: dict[tuple[str, str], int] = {}

    def mark(self, type: str, value: str) -> str:
        """A number for a value."""
        number = self._numbers.setdefault((type, canonical(type, value)), len(self.values))
        if number == len(self.values):
            self.values.append((type, value))
        return f"[REDACTED:{type}:{_FIRST_NUMBER + number:08x}]"

    def value_of(self, mark: str) -> int | None:
        """The number of the value behind a mark of ours."""
        number = int(mark[-9:-1], 16) - _FIRST_NUMBER
        if 0 <= number < len(self.values) and mark.startswith(
            f"[REDACTED:{self.values[number][0]}:"
        ):
            return number
        return None


class _Collection:
    """Findings as they come to light in masked texts."""

    def __init__(self, marker: Numbered, found: Found) -> None:
        self._marker = marker
        self._known = found
        self._by_number: dict[int, Finding] = {}

    def take(self, where: str, text: str) -> None:
        """Look for marks in a masked text."""
        if "[REDACTED:" not in text:
            return
        for match in MARK.finditer(text):
            number = self._marker.value_of(match[0])
            if number is not None:
                self._add(number, Place(where, *_around(text, match.start(), match.end())))

    def _add(self, number: int, place: Place) -> None:
        if number not in self._by_number:
            kind, value = self._marker.values[number]
            known = self._known.values.get(value)
            rule = known.rule if known else WHOLE.get(kind) or Rule(kind, kind, "strict", "", "")
            self._by_number[number] = Finding(kind, rule.id, rule.level, value)
        finding = self._by_number[number]
        finding.count += 1
        if len(finding.places) < _MOST_PLACES:
            finding.places.append(place)

    def findings(self) -> list[Finding]:
        return list(self._by_number.values())


def _around(text: str, start: int, end: int) -> tuple[str, str]:
    """The words before and after, on the same line, with short names for marks."""
    before = text[max(0, start - 4 * _AROUND) : start].rpartition("\n")[2]
    after = text[end : end + 4 * _AROUND].partition("\n")[0]
    before, after = (
        MARK.sub(lambda mark: f"[{mark[0].split(':')[1]}]", part) for part in (before, after)
    )
    # A mark that was cut in two shows its head or its tail, which tell nothing.
    return before[-_AROUND:], after[:_AROUND]


def findings_of(record: Record, context: Context) -> list[Finding]:
    """What would be masked in a conversation."""
    level = text_level(context)
    if level is None:
        return []
    detector = detector_for(level, context)
    found = search(record, detector, whole=level == "strict")
    if not found:
        return []
    marker = Numbered()
    masked = _masking.mask(record, context, level, detector, found, marker)
    told = _Collection(marker, found)
    for holder, name in (
        (masked.conversation, "conversation"),
        (masked.participants, "participants"),
    ):
        for pointer, text in _told(holder, ""):
            told.take(f"{name} {pointer}", text)
    for event in masked.events:
        for pointer, text in _told(event, ""):
            told.take(f"{event.get('id', '')} {pointer}", text)
    return told.findings()


def findings_in(chunks: Iterable[bytes], context: Context, known: Found) -> list[Finding]:
    """What would be masked in a plain text whose values are known already."""
    marker = Numbered()
    told = _Collection(marker, known)
    line, rest = 1, ""
    for piece in TextFilter(chunks, context, marker, known):
        *lines, rest = (rest + piece.decode("utf-8", "replace")).split("\n")
        for text in lines:
            told.take(f"line {line}", text)
            line += 1 + _hidden_lines(text, marker)
    told.take(f"line {line}", rest)
    return told.findings()


def _hidden_lines(text: str, marker: Numbered) -> int:
    """How many lines lie behind the marks of a line."""
    if "[REDACTED:" not in text:
        return 0
    numbers = (marker.value_of(match[0]) for match in MARK.finditer(text))
    return sum(marker.values[number][1].count("\n") for number in numbers if number is not None)


def _told(value: Any, pointer: str) -> Iterator[tuple[str, str]]:
    """Every string of a value, keys too, with the JSON pointer to it."""
    if isinstance(value, str):
        yield pointer, value
    elif isinstance(value, dict):
        for key, item in value.items():
            inner = f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}"
            yield inner, key
            yield from _told(item, inner)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _told(item, f"{pointer}/{number}")


def told_as_json(findings: list[Finding], *, places: int = _MOST_PLACES) -> list[dict[str, Any]]:
    """The findings for scripts; nothing of a value is in it."""
    return [
        {
            "type": finding.type,
            "rule": finding.rule,
            "level": finding.level,
            "count": finding.count,
            "length": len(finding.value),
            "places": [short(place.where) for place in finding.places[:places]],
        }
        for finding in findings
    ]


def short(where: str) -> str:
    """A place without our numbers in the marks of masked keys."""
    return MARK.sub(lambda mark: f"[{mark[0].split(':')[1]}]", where)


def allow_hash(finding: Finding, key: bytes) -> str:
    """What an allow-list holds of a value."""
    return value_hash(key, finding.type, finding.value)
