"""Finds what is to be masked: a gate tells where a rule may match, RE2 confirms, a validator
judges."""

import functools
import importlib
from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec

from open_token.context import AllowEntry
from open_token.passes._candidate import Candidate
from open_token.passes._gate import Gate, KeywordGate, Window, confirmation
from open_token.passes._hidden import DISGUISES, Look, looks_behind, stretches
from open_token.passes._hyperscan import hyperscan_gate, opened_gate, stored_databases
from open_token.passes._letters import all_encoded, decoded
from open_token.passes._marks import without_marks
from open_token.passes._rules import GLUED, START, Rule

_JUDGES = {
    "secrets": "open_token.passes._validators",
    "pii": "open_token.passes._persons",
    "strict": "open_token.passes._persons",
}
# With less text than this the gate of keywords is done before a database is compiled; more where
# none can be kept.
_SMALL = 1 << 16
_SMALL_WITHOUT_CACHE = 1 << 20
_BEFORE, _AFTER = 96, 24
_LONGEST_RETRY = 64
_DEEPEST = 4
# What was put together need not be put together again: that would cost the more, the more strings
# stand in a row.
_DEEPEST_GLUE = 2
# Sessions say the same again and again: files are read twice, lists are sent anew. So much text is
# remembered.
_MOST_REMEMBERED = 1 << 23
# Windows of at most this many bytes, and so many of them, are remembered beside.
_LONGEST_REMEMBERED = 1 << 9
_MOST_WINDOWS = 1 << 13
_CONTINUATION = range(0x80, 0xC0)
_STOPS = b".,;:"
Search = Callable[[bytes, int], list[tuple[int, int]] | None]
Judge = Callable[[Candidate], bool]
WORD = frozenset(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")


class Disguised(NamedTuple):
    """A stretch of a leaf that may hide something, and the rule that says how."""

    leaf: int
    raw: bytes
    start: int
    rank: int


class Finding(NamedTuple):
    """A stretch of a leaf, in bytes, and the rule that found it."""

    start: int
    end: int
    rank: int
    rule: Rule
    plain: str = ""
    """What stands there, where it stands there in disguise; else the stretch says it itself."""
    within: tuple[tuple[str, int, Rule], ...] = ()
    """Values that the stretch holds among others, with their rules."""


_NOTHING: list[Finding] = []


class Detector:
    """Searches by a set of rules, compiled as they are needed."""

    def __init__(
        self, rules: tuple[Rule, ...], cache: Path | None = None, engine: str = "auto"
    ) -> None:
        self.rules = rules
        self.cache = cache
        self.engine = engine
        self._seen = 0
        self._fast: Gate | None = None
        self._depth = 0
        self._ready: dict[int, tuple[Search, Judge | None]] = {}
        self._verdicts: dict[str, list[Finding]] = {}
        self._remembered = 0
        self._windows: dict[tuple[int, bytes], list[tuple[int, int]]] = {}

    def find(self, leaves: list[str]) -> list[tuple[int, list[Finding]]]:
        """The findings by leaf, for those leaves that have any; what was searched lately is
        remembered."""
        if self._depth:
            return self._search(leaves)
        known = self._verdicts
        fresh = [leaf for leaf in dict.fromkeys(leaves) if leaf not in known]
        if fresh:
            searched = self._search(fresh)
            known.update(dict.fromkeys(fresh, _NOTHING))
            known.update((fresh[number], findings) for number, findings in searched)
            self._remembered += sum(map(len, fresh))
        found = [
            (number, findings) for number, leaf in enumerate(leaves) if (findings := known[leaf])
        ]
        if self._remembered > _MOST_REMEMBERED:
            self._forget()
        return found

    @functools.cached_property
    def _escapes(self) -> int | None:
        return next(
            (number for number, rule in enumerate(self.rules) if rule.validator == "escapes"), None
        )

    @functools.cached_property
    def _person(self) -> int | None:
        return next((number for number, rule in enumerate(self.rules) if rule.finder), None)

    def allowance(self, rule: Rule, value: str, key: str) -> AllowEntry | None:
        """The entry that lets a value stand; the built-in rules know none."""
        return None

    def _forget(self) -> None:
        """Keep what was found while it is little: masking asks for it again, and for nothing
        else."""
        kept = {leaf: findings for leaf, findings in self._verdicts.items() if findings}
        size = sum(map(len, kept))
        self._verdicts, self._remembered = (
            (kept, size) if size <= _MOST_REMEMBERED * 3 // 4 else ({}, 0)
        )

    def _search(self, leaves: list[str]) -> list[tuple[int, list[Finding]]]:
        pieces = all_encoded(leaves)
        data = b"\0".join([b"", *pieces, b""])
        gate = self._gate(len(data))
        windows = gate(data)
        if self._person is not None:
            windows += self._opened_for_names(self._person, data, windows, gate)
        by_leaf = _by_leaf(windows, pieces)
        disguised = self._wide(pieces) if data.count(b"\0") > len(pieces) + 1 else []
        found = {
            number: self._confirm(number, pieces[number], by_leaf[number], disguised)
            for number in by_leaf
        }
        for number, finding in self._undisguised(disguised):
            found.setdefault(number, []).append(finding)
        return [(number, merged(found[number])) for number in sorted(found) if found[number]]

    def _wide(self, pieces: list[bytes]) -> list[Disguised]:
        """Strings with zero bytes, such as UTF-16 that was read as something else; no window
        reaches over one."""
        rank = self._escapes
        wide = (
            [number for number, piece in enumerate(pieces) if b"\0" in piece]
            if rank is not None
            else []
        )
        # A name before a text is no part of it.
        starts = [pieces[number].find(b"\x01") + 1 for number in wide]
        return [
            Disguised(number, without_marks(pieces[number])[start:], start, rank or 0)
            for number, start in zip(wide, starts, strict=True)
        ]

    def _opened_for_names(
        self, number: int, data: bytes, opened: list[Window], gate: Gate
    ) -> list[Window]:
        """The lines in which a word may be a name; the gate itself looks for what stands around
        names alone."""
        # To look first for the lines that may hold one is faster than to weigh all words.
        lines = self._people.telling_lines(data, gate.lines(number, data))
        known = {window for window in opened if window.rule == number} if lines else set()
        return [window for line in lines if (window := Window(number, *line)) not in known]

    @functools.cached_property
    def _people(self) -> Any:
        """The search for names, loaded when the first text is met that may hold one."""
        module = importlib.import_module("open_token.passes._people_search")
        module.keep_in(self.cache)
        return module

    def is_odd_key(self, key: str) -> bool:
        """Whether a key that looks like a plain name is to be searched; no built-in rule finds
        anything in one."""
        return False

    def find_raw(self, data: bytes) -> list[Finding]:
        """What the rules find in bytes as they are, whatever is encoded in them."""
        windows = self._gate(len(data))(data)
        return merged(self._confirm(0, data, windows, [])) if windows else []

    def _gate(self, size: int) -> Gate:
        if self._fast is not None:
            return self._fast
        self._seen += size
        is_first = self._seen == size and self.engine != "keywords"
        if is_first and (opened := opened_gate(self.rules)):
            self._fast = opened
            return opened
        stored = stored_databases(self.rules, self.cache) if is_first else None
        small = _SMALL if self.cache else _SMALL_WITHOUT_CACHE
        if self.engine == "hyperscan" or stored or (self.engine == "auto" and self._seen >= small):
            self._fast = hyperscan_gate(self.rules, self.cache, stored) or self._keywords
            return self._fast
        return self._keywords

    @functools.cached_property
    def _keywords(self) -> KeywordGate:
        return KeywordGate(self.rules)

    def _confirm(
        self, leaf_number: int, leaf: bytes, windows: list[Window], disguised: list[Disguised]
    ) -> list[Finding]:
        text = without_marks(leaf)
        value_start = text.find(b"\x01") + 1
        findings = []
        looked_at: dict[int, int] = {}
        for number, start, end in windows:
            rule = self.rules[number]
            for first, last in self._known_matches(number, rule, text[start:end]):
                if rule.validator in DISGUISES:
                    # A name before a text is no part of it, and lines that go on are looked at
                    # once.
                    begin = max(start + first, value_start)
                    if looked_at.get(number, 0) <= begin < start + last:
                        raws = stretches(text, begin, start + last, rule.validator)
                        disguised += [Disguised(leaf_number, raw, begin, number) for raw in raws]
                        looked_at[number] = begin + max(map(len, raws), default=0)
                elif start + first >= value_start:
                    within = self._within(number, rule, text[start + first : start + last])
                    findings.append(Finding(start + first, start + last, number, rule, "", within))
        return findings

    def _within(self, number: int, rule: Rule, value: bytes) -> tuple[tuple[str, int, Rule], ...]:
        """What of a full name, or of an address that spells one, is masked elsewhere."""
        if rule.finder:
            names = self._people.name_parts(value)
        elif rule.type == "email" and self._person is not None:
            names, number = self._people.names_of_address(value), self._person
        else:
            return ()
        # It counts before the name alone, which is not masked elsewhere.
        part = msgspec.structs.replace(self.rules[number], finder="part")
        return tuple((name, number - 1, part) for name in names)

    def _undisguised(self, disguised: list[Disguised]) -> Iterator[tuple[int, Finding]]:
        """What is found in base64, of which the whole run is masked, and behind escapes, in its own
        place."""
        if not disguised or self._depth == _DEEPEST:
            return
        looks = [(item, look) for item in disguised for look in self._looks(item)]
        for place, findings in self._deeper([look.text for _, look in looks]):
            item, look = looks[place]
            kept = (
                [finding for finding in findings if self._counts(finding, look)]
                if look.is_joined
                else findings
            )
            for finding in _brought_back(item, look, kept, self.rules[item.rank]):
                yield item.leaf, finding

    def _looks(self, item: Disguised) -> list[Look]:
        disguise = self.rules[item.rank].validator
        return (
            []
            if disguise == "glue" and self._depth >= _DEEPEST_GLUE
            else looks_behind(item.raw, disguise)
        )

    def _deeper(self, texts: list[bytes]) -> list[tuple[int, list[Finding]]]:
        self._depth += 1
        try:
            return self.find([decoded(text) for text in texts]) if texts else []
        finally:
            self._depth -= 1

    def _counts(self, finding: Finding, look: Look) -> bool:
        """Whether what was put together is a secret that the parts by themselves do not tell."""
        joint = look.changed.joint(finding.start, finding.end) if look.changed else None
        if joint is None or finding.rule.level != "secrets":
            return False
        parts = [look.text[finding.start : joint], look.text[joint : finding.end]]
        alone = dict(self._deeper(parts))
        if look.is_sure:
            return all(part.start > 0 for part in alone.get(1, ()))
        return not alone and tells_itself(finding.rule)

    def _known_matches(self, number: int, rule: Rule, text: bytes) -> list[tuple[int, int]]:
        """As `_matches`, remembered for short windows: what was masked is searched again, most
        lines as they were."""
        if len(text) > _LONGEST_REMEMBERED:
            return self._matches(number, rule, text)
        known = self._windows.get((number, text))
        if known is None:
            if len(self._windows) >= _MOST_WINDOWS:
                self._windows.clear()
            known = self._windows[number, text] = self._matches(number, rule, text)
        return known

    def _matches(self, number: int, rule: Rule, text: bytes) -> list[tuple[int, int]]:
        """The spans of what a rule masks; a find that is refused is looked into again, since it may
        hide another."""
        confirm, judge = self._ready.get(number) or self._prepare(number, rule)
        spans = []
        place = 0
        while found := confirm(text, place):
            first, last = found[0]
            start, end = next((span for span in found[1:] if span[0] >= 0), found[0])
            if text[start] in _CONTINUATION or (end < len(text) and text[end] in _CONTINUATION):
                start, end = _whole_letters(text, start, end)
            if text[end - 1] in _STOPS and rule.level == "secrets":
                end = _before_stop(text, start, end)
            place = max(last, place + 1)
            if self._accepts(rule, judge, text, start, end):
                spans.append((start, end))
            elif first < start and end - start <= _LONGEST_RETRY:
                place = start
        return spans

    def _prepare(self, number: int, rule: Rule) -> tuple[Search, Judge | None]:
        judge = (
            _judges(rule.level)[rule.validator]
            if rule.validator and rule.validator not in DISGUISES
            else None
        )
        search = (
            self._people.PeopleSearch(rule.pattern).spans
            if rule.finder
            else confirmation(rule.pattern).spans
        )
        ready = self._ready[number] = search, judge
        return ready

    def _accepts(self, rule: Rule, judge: Judge | None, text: bytes, start: int, end: int) -> bool:
        """Whether a find stands; `rules explain` listens here for what does not."""
        if rule.ends and end < len(text) and text[end] in WORD:
            return False
        if judge is None:
            return True
        before = decoded(text[max(0, start - _BEFORE) : start])
        return judge(Candidate(decoded(text[start:end]), before, decoded(text[end : end + _AFTER])))


def _by_leaf(windows: list[Window], pieces: list[bytes]) -> dict[int, list[Window]]:
    """The windows of a joined text by the piece in which they lie."""
    by_leaf: dict[int, list[Window]] = {}
    if windows:
        ends = list(accumulate(map((1).__add__, map(len, pieces))))
        for rule, start, end in windows:
            number = bisect_left(ends, start)
            offset = ends[number] - len(pieces[number])
            by_leaf.setdefault(number, []).append(Window(rule, start - offset, end - offset))
    return by_leaf


def _brought_back(
    item: Disguised, look: Look, findings: list[Finding], rule: Rule
) -> Iterator[Finding]:
    raw = look.text
    values = [
        (found.plain or decoded(raw[found.start : found.end]), found.rank, found.rule)
        for found in findings
    ]
    within = tuple(values) + tuple(inner for found in findings for inner in found.within)
    if look.changed is None:
        yield Finding(item.start, item.start + len(item.raw), item.rank, rule, "", within)
        return
    for found, (value, _, _) in zip(findings, values, strict=True):
        start, end = look.changed.span(found.start, found.end)
        yield Finding(
            item.start + start, item.start + end, found.rank, found.rule, value, found.within
        )


def tells_itself(rule: Rule) -> bool:
    """A token that its own letters tell, so that no two strings make one by chance."""
    return not rule.weak and rule.level == "secrets" and rule.pattern.startswith((START, GLUED))


@functools.cache
def _judges(level: str) -> dict[str, Judge]:
    """The validators that rules of a level name; loaded when the first of them is asked."""
    module = importlib.import_module(_JUDGES[level])
    return cast(dict[str, Judge], module.VALIDATORS)


def merged(findings: list[Finding]) -> list[Finding]:
    """Findings side by side: what overlaps becomes one, a secret if any is, else of the longest's
    kind; a weak one gives way to any other."""
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
            longest = max(last, item, key=_weight)
            start, end = last.start, max(last.end, item.end)
            plain = longest.plain if (longest.start, longest.end) == (start, end) else ""
            joined[-1] = Finding(
                start, end, longest.rank, longest.rule, plain, last.within + item.within
            )
        else:
            joined.append(item)
    return joined


def _overlaps(item: Finding, others: list[Finding], starts: list[int]) -> bool:
    number = bisect_left(starts, item.end)
    return number > 0 and others[number - 1].end > item.start


def _weight(finding: Finding) -> tuple[bool, int]:
    return finding.rule.level == "secrets", finding.end - finding.start


def _place(finding: Finding) -> tuple[int, int, int, str]:
    return finding.start, -finding.end, finding.rank, finding.plain


def _whole_letters(text: bytes, start: int, end: int) -> tuple[int, int]:
    """The span without a letter of several bytes cut in two."""
    while start > 0 and text[start] in _CONTINUATION:
        start -= 1
    while end < len(text) and text[end] in _CONTINUATION:
        end += 1
    return start, end


def _before_stop(text: bytes, start: int, end: int) -> int:
    """Where a value ends that stands at the end of a sentence or a part of it; alone under a key it
    is all its own."""
    is_end = end == len(text) or text[end : end + 1].isspace()
    is_all = (
        text[start - 1 : start] == b"\x01" or text[end - 2] in _STOPS
    )  # several stand for what was left out
    return end - 1 if is_end and not is_all else end
