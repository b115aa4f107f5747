"""List what a redaction finds without the values: type, rule, places, and masked text around."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from open_token.context import Context
from open_token.model.document import Record
from open_token.redaction import masker
from open_token.redaction.detector import build_detector
from open_token.redaction.found_values import FoundValues
from open_token.redaction.marker_factory import MarkerFactory, canonicalize_value
from open_token.redaction.markers import MARKER, MARKER_START, format_marker
from open_token.redaction.redactor import search_record
from open_token.redaction.ruleset import Rule
from open_token.redaction.strict_mode import WHOLE_TEXT_RULES
from open_token.redaction.text_stream import TextFilter, get_text_level
from open_token.redaction.user_detector import hash_value

_FIRST_NUMBER = 0xF0000000
_CONTEXT_SIZE = 160
_MAX_PLACES = 1000
_CHARACTER_KINDS = (
    ("small letters", "[a-z]"),
    ("capitals", "[A-Z]"),
    ("digits", "[0-9]"),
    ("spaces", r"\s"),
    ("signs", r"[^\w\s]|_"),
    ("other letters", r"[^\W\d_a-zA-Z]"),
)


class Place(NamedTuple):
    """Where a value occurs, with the text before and after it, in which all else is masked, too."""

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
        """The form of the value that all its spellings share."""
        return canonicalize_value(self.type, self.value)

    @property
    def shape(self) -> str:
        """What may be shown of the value: its length and the kinds of its characters."""
        kinds = [name for name, pattern in _CHARACTER_KINDS if re.search(pattern, self.value)]
        return f"{len(self.value):,} characters: {', '.join(kinds)}"


class NumberedMarkerFactory(MarkerFactory):
    """Build markers by which each value is found again in masked text."""

    def __init__(self) -> None:
        super().__init__(lambda value: "")
        self.values: list[tuple[str, str]] = []
        self._numbers: dict[tuple[str, str], int] = {}

    def build_marker(self, type: str, value: str) -> str:
        """Return a marker with the number of a value."""
        key = (type, canonicalize_value(type, value))
        number = self._numbers.setdefault(key, len(self.values))
        if number == len(self.values):
            self.values.append((type, value))
        return format_marker(type, f"{_FIRST_NUMBER + number:08x}")

    def iter_numbers(self, text: str) -> Iterator[tuple[re.Match[str], int]]:
        """Yield the markers of this factory in a text, with the numbers of their values."""
        if MARKER_START not in text:
            return
        for match in MARKER.finditer(text):
            number = int(match["hash"], 16) - _FIRST_NUMBER
            if 0 <= number < len(self.values) and match["type"] == self.values[number][0]:
                yield match, number


class _Collection:
    """Collect findings from masked texts."""

    def __init__(self, factory: NumberedMarkerFactory, found: FoundValues) -> None:
        self._factory = factory
        self._known = found
        self._by_number: dict[int, Finding] = {}

    def add_text(self, where: str, text: str) -> None:
        """Add the markers of a masked text."""
        for match, number in self._factory.iter_numbers(text):
            before, after = _cut_context(text, match.start(), match.end())
            self._add(number, Place(where, before, after))

    def _add(self, number: int, place: Place) -> None:
        if number not in self._by_number:
            type_name, value = self._factory.values[number]
            rule = self._find_rule(type_name, value)
            self._by_number[number] = Finding(type_name, rule.id, rule.level, value)
        finding = self._by_number[number]
        finding.count += 1
        if len(finding.places) < _MAX_PLACES:
            finding.places.append(place)

    def _find_rule(self, type: str, value: str) -> Rule:
        known = self._known.values.get(value)
        if known:
            return known.rule
        return WHOLE_TEXT_RULES.get(type) or Rule(type, type, "strict", "", "")

    def list_findings(self) -> list[Finding]:
        return list(self._by_number.values())


def _cut_context(text: str, start: int, end: int) -> tuple[str, str]:
    """Return the text before and after on the same line, with abbreviated markers.

    A marker that is cut in two shows its start or its end, which reveal nothing.
    """
    before = text[max(0, start - 4 * _CONTEXT_SIZE) : start].rpartition("\n")[2]
    after = text[end : end + 4 * _CONTEXT_SIZE].partition("\n")[0]
    return abbreviate(before)[-_CONTEXT_SIZE:], abbreviate(after)[:_CONTEXT_SIZE]


def list_record_findings(record: Record, context: Context) -> list[Finding]:
    """Return what would be masked in a conversation."""
    level = get_text_level(context)
    if level is None:
        return []
    detector = build_detector(level, context)
    found = search_record(record, detector, whole=level == "strict")
    if not found:
        return []
    factory = NumberedMarkerFactory()
    masked = masker.mask_record(record, context, level, detector, found, factory)
    collection = _Collection(factory, found)
    for pointer, text in _iter_strings(masked.conversation, ""):
        collection.add_text(f"conversation {pointer}", text)
    for pointer, text in _iter_strings(masked.participants, ""):
        collection.add_text(f"participants {pointer}", text)
    for event in masked.events:
        for pointer, text in _iter_strings(event, ""):
            collection.add_text(f"{event.get('id', '')} {pointer}", text)
    return collection.list_findings()


def list_text_findings(
    chunks: Iterable[bytes], context: Context, known: FoundValues
) -> list[Finding]:
    """Return what would be masked in a plain text whose values are known already."""
    factory = NumberedMarkerFactory()
    collection = _Collection(factory, known)
    line_number = 1
    rest = ""
    for piece in TextFilter(chunks, context, factory, known):
        *lines, rest = (rest + piece.decode("utf-8", "replace")).split("\n")
        for line in lines:
            collection.add_text(f"line {line_number}", line)
            line_number += 1 + _count_masked_newlines(line, factory)
    collection.add_text(f"line {line_number}", rest)
    return collection.list_findings()


def _count_masked_newlines(text: str, factory: NumberedMarkerFactory) -> int:
    return sum(factory.values[number][1].count("\n") for _, number in factory.iter_numbers(text))


def _iter_strings(value: Any, pointer: str) -> Iterator[tuple[str, str]]:
    """Yield every string of a value, keys too, with its JSON pointer."""
    if isinstance(value, str):
        yield pointer, value
    elif isinstance(value, dict):
        for key, item in value.items():
            inner = f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}"
            yield inner, key
            yield from _iter_strings(item, inner)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _iter_strings(item, f"{pointer}/{number}")


def to_json(findings: list[Finding], *, places: int = _MAX_PLACES) -> list[dict[str, Any]]:
    """Return the findings for scripts, without anything of a value."""
    return [
        {
            "type": finding.type,
            "rule": finding.rule,
            "level": finding.level,
            "count": finding.count,
            "length": len(finding.value),
            "places": [abbreviate(place.where) for place in finding.places[:places]],
        }
        for finding in findings
    ]


def abbreviate(text: str) -> str:
    """Return a text with `[<type>]` for each marker."""
    return MARKER.sub(r"[\g<type>]", text)


def compute_allow_hash(finding: Finding, key: bytes) -> str:
    """Return what an allow-list holds of a value."""
    return hash_value(key, finding.type, finding.value)
