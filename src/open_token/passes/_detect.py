"""Finds what is to be masked: a gate tells where a rule may match, RE2 confirms, a validator judges."""

import base64
import binascii
import functools
import importlib
import sys
from bisect import bisect_left
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple, cast

from open_token.passes._candidate import Candidate
from open_token.passes._gate import Gate, KeywordGate, Window, compiled
from open_token.passes._hyperscan import hyperscan_gate, stored_database
from open_token.passes._marks import without_marks
from open_token.passes._rules import Rule

_JUDGES = {
    "secrets": "open_token.passes._validators",
    "pii": "open_token.passes._persons",
    "strict": "open_token.passes._persons",
}
ENGINES = ("auto", "hyperscan", "keywords")
# With less text than this the gate of keywords is done before a database is compiled; more where none can be kept.
_SMALL = 1 << 16
_SMALL_WITHOUT_CACHE = 1 << 20
_BEFORE, _AFTER = 96, 24
_LONGEST_RETRY = 64
_COUNT = range(sys.maxsize)
_CONTINUATION = range(0x80, 0xC0)
WORD = frozenset(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")


class Finding(NamedTuple):
    """A stretch of a leaf, in bytes, and the rule that found it."""

    start: int
    end: int
    rank: int
    rule: Rule


class Detector:
    """Searches by a set of rules, compiled as they are needed."""

    def __init__(self, rules: tuple[Rule, ...], cache: Path | None = None, engine: str = "auto") -> None:
        self.rules = rules
        self._cache = cache
        self.engine = engine
        self._seen = 0
        self._fast: Gate | None = None
        self._patterns: dict[int, tuple[Any, range]] = {}

    def find(self, leaves: list[str]) -> list[tuple[int, list[Finding]]]:
        """The findings by leaf, for those leaves that have any."""
        pieces = all_encoded(leaves)
        data = b"\0".join(pieces) if len(pieces) > 1 else pieces[0]
        windows = self._gate(len(data))(data)
        if not windows:
            return []
        lengths = list(accumulate(map(len, pieces)))
        by_leaf: dict[int, list[Window]] = {}
        for rule, start, end in windows:
            number = bisect_left(_COUNT, start, 0, len(pieces), key=lambda place: lengths[place] + place)
            offset = lengths[number] + number - len(pieces[number])
            by_leaf.setdefault(number, []).append(Window(rule, start - offset, end - offset))
        found = [(number, self._confirm(pieces[number], by_leaf[number])) for number in sorted(by_leaf)]
        return [(number, findings) for number, findings in found if findings]

    def _gate(self, size: int) -> Gate:
        if self._fast is not None:
            return self._fast
        self._seen += size
        is_first = self._seen == size
        stored = stored_database(self.rules, self._cache) if is_first and self.engine != "keywords" else None
        small = _SMALL if self._cache else _SMALL_WITHOUT_CACHE
        if self.engine == "hyperscan" or stored or (self.engine == "auto" and self._seen >= small):
            self._fast = hyperscan_gate(self.rules, self._cache, stored) or self._keywords
            return self._fast
        return self._keywords

    @functools.cached_property
    def _keywords(self) -> KeywordGate:
        return KeywordGate(self.rules)

    def _confirm(self, leaf: bytes, windows: list[Window]) -> list[Finding]:
        text = without_marks(leaf)
        value_start = text.find(b"\x01") + 1
        findings = [
            Finding(start + first, start + last, number, self.rules[number])
            for number, start, end in windows
            for first, last in self._matches(number, self.rules[number], text[start:end])
            if start + first >= value_start
        ]
        return merged(findings)

    def _matches(self, number: int, rule: Rule, text: bytes) -> list[tuple[int, int]]:
        """The spans of what a rule masks; a find that is refused is looked into again, since it may hide another."""
        if number not in self._patterns:
            made = compiled(rule.pattern)
            self._patterns[number] = made, range(1, made.groups + 1)
        pattern, groups = self._patterns[number]
        spans = []
        place = 0
        while match := pattern.search(text, place):
            group = next((group for group in groups if match.start(group) >= 0), 0)
            start, end = _whole_letters(text, *match.span(group))
            place = max(match.end(), place + 1)
            if self._accepts(rule, text, start, end):
                spans.append((start, end))
            elif match.start() < start and end - start <= _LONGEST_RETRY:
                place = start
        return spans

    def _accepts(self, rule: Rule, text: bytes, start: int, end: int) -> bool:
        if rule.ends and end < len(text) and text[end] in WORD:
            return False
        value = decoded(text[start:end])
        if rule.validator == "base64":
            return self._holds_secret(value)
        if not rule.validator:
            return True
        before = decoded(text[max(0, start - _BEFORE) : start])
        judge = _judges(rule.level)[rule.validator]
        return judge(Candidate(value, before, decoded(text[end : end + _AFTER])))

    def _holds_secret(self, value: str) -> bool:
        """Whether base64 hides something that would be masked in clear."""
        try:
            raw = base64.b64decode(
                value + "=" * (-len(value) % 4), altchars=b"-_" if "-" in value or "_" in value else None
            )
            text = raw.decode("utf-8")
        except (binascii.Error, ValueError):
            return False
        return bool(self.find([text]))


@functools.cache
def _judges(level: str) -> dict[str, Callable[[Candidate], bool]]:
    """The validators that rules of a level name; loaded when the first of them is asked."""
    module = importlib.import_module(_JUDGES[level])
    return cast(dict[str, Callable[[Candidate], bool]], module.VALIDATORS)


def merged(findings: list[Finding]) -> list[Finding]:
    """Findings side by side: what overlaps becomes one, of the longest's kind; a weak one gives way to any other."""
    if len(findings) < 2:
        return findings
    strong = _joined([item for item in findings if not item.rule.weak])
    weak = _joined([item for item in findings if item.rule.weak])
    starts = [item.start for item in strong]
    kept = [item for item in weak if not _overlaps(item, strong, starts)]
    return sorted(strong + kept, key=_place) if kept else strong


def _joined(findings: list[Finding]) -> list[Finding]:
    joined: list[Finding] = []
    for item in sorted(findings, key=_place):
        if joined and item.start < joined[-1].end:
            last = joined[-1]
            longest = item if item.end - item.start > last.end - last.start else last
            joined[-1] = Finding(last.start, max(last.end, item.end), longest.rank, longest.rule)
        else:
            joined.append(item)
    return joined


def _overlaps(item: Finding, others: list[Finding], starts: list[int]) -> bool:
    number = bisect_left(starts, item.end)
    return number > 0 and others[number - 1].end > item.start


def _place(finding: Finding) -> tuple[int, int, int]:
    return finding.start, -finding.end, finding.rank


def _whole_letters(text: bytes, start: int, end: int) -> tuple[int, int]:
    """The span without a letter of several bytes cut in two."""
    while start > 0 and text[start] in _CONTINUATION:
        start -= 1
    while end < len(text) and text[end] in _CONTINUATION:
        end += 1
    return start, end


def all_encoded(texts: list[str]) -> list[bytes]:
    try:
        return list(map(str.encode, texts))
    except UnicodeEncodeError:
        return list(map(encoded, texts))


def encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def decoded(data: bytes) -> str:
    """Text of bytes that may begin or end within a letter."""
    return data.decode("utf-8", "replace")
