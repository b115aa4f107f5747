"""The prefilter: find the windows of a text in which a rule may match, which RE2 then searches.

This module has the prefilter that needs RE2 alone; `hyperscan_prefilter` has the fast one.
"""

import functools
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol

from open_token.redaction.ruleset import Rule

# A shorter keyword occurs everywhere; such a rule is searched for by its own pattern.
_MIN_KEYWORD_LENGTH = 3
_SMALL_TEXT = 1 << 14
_MATCHES_NOTHING = r"[^\x00-\xff]"


class Window(NamedTuple):
    """A span of the joined text in which one rule is to be tried."""

    rule: int
    start: int
    end: int


class Windows:
    """Collect the windows that hits open in strings joined by zero bytes.

    A window is the line of a hit, the lines around it, or the whole string, as the rule says.
    Windows of one rule that touch are merged, so that the outcome does not depend on which of
    several hits a prefilter reports.
    """

    def __init__(self, data: bytes, rules: tuple[Rule, ...]) -> None:
        self.opened: list[Window] = []
        self._data = data
        self._rules = rules
        self._string_span = (0, 0)
        self._covered = [0] * len(rules)
        self._last_opened: dict[int, int] = {}
        """Of rules that span several lines: the number of the window that was opened last."""

    def add_hit(self, number: int, position: int) -> None:
        """Open a window of a rule around a position; the hits of a rule must come in order."""
        # Called for every hit of every rule: kept in one function.
        if position < self._covered[number]:
            return
        start, end = self._string_span
        # A rule may also look at the zero byte after a string.
        if not start <= position <= end:
            least = end if position >= end else 0
            start, end = self._string_span = self._find_string(position, least)
        rule = self._rules[number]
        if rule.multiline:
            self._covered[number] = end
        elif rule.lines == 1:
            start = self._data.rfind(b"\n", start, position) + 1 or start
            line_end = self._data.find(b"\n", position, end)
            if line_end >= 0:
                end = line_end
            self._covered[number] = end
        else:
            self._add_lines(number, position, start, end)
            return
        self.opened.append(Window(number, start, end))

    def _add_lines(self, number: int, position: int, start: int, end: int) -> None:
        line_end = self._data.find(b"\n", position, end)
        self._covered[number] = end if line_end < 0 else line_end
        count = self._rules[number].lines
        start, end = find_surrounding_lines(self._data, position, count, start, end)
        last = self._last_opened.get(number)
        if last is not None:
            window = self.opened[last]
            if start <= window.end:
                self.opened[last] = Window(number, window.start, end)
                return
        self._last_opened[number] = len(self.opened)
        self.opened.append(Window(number, start, end))

    def _find_string(self, position: int, least: int) -> tuple[int, int]:
        start = self._data.rfind(b"\0", least, position) + 1 or least
        end = self._data.find(b"\0", position)
        return start, len(self._data) if end < 0 else end


def find_surrounding_lines(
    data: bytes, position: int, count: int, start: int, end: int
) -> tuple[int, int]:
    """Return the span of a line, within limits, with `count - 1` lines before and after it."""
    first = position
    for _ in range(count):
        first = data.rfind(b"\n", start, first)
        if first < 0:
            break
    last = position - 1
    for _ in range(count):
        last = data.find(b"\n", last + 1, end)
        if last < 0:
            break
    return first + 1 or start, end if last < 0 else last


class Prefilter(Protocol):
    """Find where rules may match."""

    def __call__(self, data: bytes) -> list[Window]: ...

    def find_lines(self, number: int, data: bytes) -> list[tuple[int, int]]:
        """Return the lines, between newlines and zero bytes, in which the pattern of a rule with
        a finder matches."""
        ...


def compile_re2(pattern: str, *, longest: bool = False) -> Any:
    """Compile an RE2 pattern over bytes: one byte is one character, as in hyperscan."""
    import re2

    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    options.longest_match = longest
    options.max_mem = 32 << 20
    return re2.compile(pattern.encode(), options)


class Matcher:
    """A compiled pattern that returns the spans of the next match and nothing else."""

    def __init__(self, pattern: str) -> None:
        import re2

        compiled = compile_re2(pattern)
        self._compiled = compiled
        # search() calls this for bytes, but also makes a generator and an object for each match.
        self._match = compiled._regexp.Match
        self._unanchored = re2._Anchor.UNANCHORED

    def find_spans(self, text: bytes, position: int) -> list[tuple[int, int]] | None:
        """Return the spans of the next match and of its groups; None if there is no match."""
        spans: list[tuple[int, int]] = self._match(self._unanchored, text, position, len(text))
        return None if spans[0][0] < 0 else spans


@functools.lru_cache(maxsize=4096)
def get_matcher(pattern: str) -> Matcher:
    """Return the matcher of a pattern, compiled once a process."""
    return Matcher(pattern)


class KeywordPrefilter:
    """Search for the keywords of all rules; for rules without good ones, by the rule's pattern."""

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self._rules = rules
        self._rules_of_word: dict[bytes, set[int]] = {}
        for number, rule in enumerate(rules):
            if _has_good_keywords(rule):
                for word in rule.keywords:
                    self._rules_of_word.setdefault(word.encode(), set()).add(number)

    def __call__(self, data: bytes) -> list[Window]:
        windows = Windows(data, self._rules)
        lowered = data.lower()
        hits: Iterable[tuple[int, tuple[int, ...]]]
        if len(data) < _SMALL_TEXT:
            hits = self._find_each_word(lowered)
        else:
            hits = self._iter_all_words(lowered)
        for position, numbers in hits:
            for number in numbers:
                windows.add_hit(number, position)
        for number, pattern in self._patterns_without_keywords:
            position = 0
            while match := pattern.search(data, position):
                windows.add_hit(number, match.end() - 1)
                # The zero byte that ends one string begins the next, and a rule may look at both.
                position = max(match.end() - 1, match.start() + 1)
        return windows.opened

    def find_lines(self, number: int, data: bytes) -> list[tuple[int, int]]:
        """Return the lines in which the pattern of a rule matches."""
        data = data.replace(b"\0", b"\n")
        find_spans = get_matcher(self._rules[number].pattern).find_spans
        lines = []
        position = 0
        while spans := find_spans(data, position):
            first, last = spans[0]
            start = data.rfind(b"\n", position, first) + 1
            end = data.find(b"\n", last)
            position = len(data) if end < 0 else end
            lines.append((start, position))
        return lines

    def _find_each_word(self, data: bytes) -> list[tuple[int, tuple[int, ...]]]:
        """Search word by word: slower, but nothing is compiled for a short text."""
        hits = []
        for word, numbers in self._rules_of_word.items():
            position = data.find(word)
            while position >= 0:
                hits.append((position, tuple(numbers)))
                position = data.find(word, position + 1)
        return sorted(hits)

    def _iter_all_words(self, data: bytes) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Search by one pattern, which finds the longest word at each position."""
        pattern, rules_of_word = self._word_pattern
        position = 0
        while match := pattern.search(data, position):
            yield match.start(), rules_of_word[match.group()]
            position = match.start() + 1

    @functools.cached_property
    def _patterns_without_keywords(self) -> list[tuple[int, Any]]:
        return [
            (number, compile_re2(rule.gate))
            for number, rule in enumerate(self._rules)
            if not _has_good_keywords(rule)
        ]

    @functools.cached_property
    def _word_pattern(self) -> tuple[Any, dict[bytes, tuple[int, ...]]]:
        rules_of_word = {
            word: _collect_prefix_rules(word, self._rules_of_word) for word in self._rules_of_word
        }
        pattern = "|".join(map(escape_literal, sorted(rules_of_word)))
        return compile_re2(pattern or _MATCHES_NOTHING, longest=True), rules_of_word


@functools.lru_cache(maxsize=32)
def get_keyword_prefilter(rules: tuple[Rule, ...]) -> KeywordPrefilter:
    """Return the keyword prefilter of these rules, made once a process."""
    return KeywordPrefilter(rules)


def _has_good_keywords(rule: Rule) -> bool:
    return min(map(len, rule.keywords), default=0) >= _MIN_KEYWORD_LENGTH


def _collect_prefix_rules(word: bytes, rules_of_word: dict[bytes, set[int]]) -> tuple[int, ...]:
    """Return the rules of a word and of all keywords that it begins with."""
    numbers: set[int] = set()
    for length in range(1, len(word) + 1):
        numbers |= rules_of_word.get(word[:length], set())
    return tuple(sorted(numbers))


def escape_literal(word: bytes) -> str:
    """Return a pattern that matches these bytes."""
    return "".join(
        chr(byte) if chr(byte).isalnum() and byte < 128 else f"\\x{byte:02x}" for byte in word
    )
