"""Tells where in a text a rule may match: the windows that RE2 then searches, and the gate that
needs RE2 alone."""

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from open_token.passes._rules import Rule

# A keyword shorter than this stands everywhere; such a rule is searched for by itself.
_SHORTEST = 3
_FEW = 1 << 14


class Window(NamedTuple):
    """A stretch of the joined text in which one rule is to be tried."""

    rule: int
    start: int
    end: int


class Windows:
    """The windows that hits open: the line, the lines around it, or all up to the zero bytes
    between which strings stand; those of one rule that touch are one, so that it is the same
    whichever of its hits a gate tells."""

    def __init__(self, data: bytes, rules: tuple[Rule, ...]) -> None:
        self.opened: list[Window] = []
        self._data = data
        self._rules = rules
        self._piece = (0, 0)
        self._covered = [0] * len(rules)
        self._last: dict[int, int] = {}
        """Of rules that look at several lines: the number of the window that was opened last."""

    def hit(self, number: int, last: int) -> None:
        """A rule may match around the byte at `last`; the hits of a rule come in order."""
        if last < self._covered[number]:
            return
        start, end = self._piece
        if not start <= last <= end:  # a rule may look at the zero byte behind a string
            start, end = self._piece = self._piece_of(last, end if last >= end else 0)
        rule = self._rules[number]
        if rule.multiline:
            self._covered[number] = end
        elif rule.lines == 1:
            start = self._data.rfind(b"\n", start, last) + 1 or start
            behind = self._data.find(b"\n", last, end)
            end = self._covered[number] = end if behind < 0 else behind
        else:
            self._hit_lines(number, last, start, end)
            return
        self.opened.append(Window(number, start, end))

    def _hit_lines(self, number: int, last: int, start: int, end: int) -> None:
        behind = self._data.find(b"\n", last, end)
        self._covered[number] = end if behind < 0 else behind
        start, end = lines_around(self._data, last, self._rules[number].lines, start, end)
        before = self._last.get(number)
        if before is not None and start <= self.opened[before].end:
            self.opened[before] = self.opened[before]._replace(end=end)
            return
        self._last[number] = len(self.opened)
        self.opened.append(Window(number, start, end))

    def _piece_of(self, last: int, least: int) -> tuple[int, int]:
        start = self._data.rfind(b"\0", least, last) + 1 or least
        end = self._data.find(b"\0", last)
        return start, len(self._data) if end < 0 else end


def lines_around(data: bytes, place: int, count: int, start: int, end: int) -> tuple[int, int]:
    """The line of a byte, between two places, with the lines before and behind it, a count with
    it."""
    first, behind = place, place - 1
    for _ in range(count):
        if (first := data.rfind(b"\n", start, first)) < 0:
            break
    for _ in range(count):
        if (behind := data.find(b"\n", behind + 1, end)) < 0:
            break
    return first + 1 or start, end if behind < 0 else behind


class Gate(Protocol):
    """Finds where rules may match."""

    def __call__(self, data: bytes) -> list[Window]: ...

    def lines(self, number: int, data: bytes) -> list[tuple[int, int]]:
        """The lines, between line ends and zero bytes, in which the pattern of a rule with a finder
        matches."""
        ...


def compiled(pattern: str, *, longest: bool = False) -> Any:
    """An RE2 pattern over bytes: one byte is one letter, as in hyperscan."""
    import re2

    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    options.longest_match = longest
    options.max_mem = 32 << 20
    return re2.compile(pattern.encode(), options)


class Confirm:
    """A rule's pattern as it is asked thousands of times: the spans of the next match, and nothing
    around them."""

    def __init__(self, pattern: str) -> None:
        import re2

        made = compiled(pattern)
        self._made = made
        # What search() itself calls for bytes; it makes a generator and an object for each match
        # besides.
        self._match = made._regexp.Match
        self._unanchored = re2._Anchor.UNANCHORED

    def spans(self, text: bytes, place: int) -> list[tuple[int, int]] | None:
        """The whole match and its groups; None when there is none from this place on."""
        found: list[tuple[int, int]] = self._match(self._unanchored, text, place, len(text))
        return None if found[0][0] < 0 else found


@functools.lru_cache(maxsize=4096)
def confirmation(pattern: str) -> Confirm:
    """A pattern made ready, once for all that search in this process."""
    return Confirm(pattern)


class KeywordGate:
    """Looks for the keywords of all rules, and for rules without good keywords by the rule
    itself."""

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self._rules = rules
        self._of_word: dict[bytes, set[int]] = {}
        for number, rule in enumerate(rules):
            for word in rule.keywords if _has_keywords(rule) else ():
                self._of_word.setdefault(word.encode(), set()).add(number)

    def __call__(self, data: bytes) -> list[Window]:
        windows = Windows(data, self._rules)
        lowered = data.lower()
        few = len(data) < _FEW
        for place, numbers in self._each_word(lowered) if few else self._all_words(lowered):
            for number in numbers:
                windows.hit(number, place)
        for number, pattern in self._free:
            place = 0
            while match := pattern.search(data, place):
                windows.hit(number, match.end() - 1)
                # The zero byte that ends one string begins the next, and a rule may look at both.
                place = max(match.end() - 1, match.start() + 1)
        return windows.opened

    def lines(self, number: int, data: bytes) -> list[tuple[int, int]]:
        data = data.replace(b"\0", b"\n")
        spans = confirmation(self._rules[number].pattern).spans
        lines, place = [], 0
        while found := spans(data, place):
            first, last = found[0]
            start = data.rfind(b"\n", place, first) + 1
            end = data.find(b"\n", last)
            place = len(data) if end < 0 else end
            lines.append((start, place))
        return lines

    def _each_word(self, data: bytes) -> list[tuple[int, tuple[int, ...]]]:
        """Word by word: slower, but nothing must be compiled for a short text."""
        found = []
        for word, numbers in self._of_word.items():
            place = data.find(word)
            while place >= 0:
                found.append((place, tuple(numbers)))
                place = data.find(word, place + 1)
        return sorted(found)

    def _all_words(self, data: bytes) -> Iterator[tuple[int, tuple[int, ...]]]:
        """With one pattern, which finds the longest word at each place where one starts."""
        pattern, wanted = self._pattern
        place = 0
        while match := pattern.search(data, place):
            yield match.start(), wanted[match.group()]
            place = match.start() + 1

    @functools.cached_property
    def _free(self) -> list[tuple[int, Any]]:
        return [
            (number, compiled(rule.gate))
            for number, rule in enumerate(self._rules)
            if not _has_keywords(rule)
        ]

    @functools.cached_property
    def _pattern(self) -> tuple[Any, dict[bytes, tuple[int, ...]]]:
        wanted = {word: _with_prefixes(word, self._of_word) for word in self._of_word}
        return compiled(
            "|".join(map(escaped, sorted(wanted))) or "[^\\x00-\\xff]", longest=True
        ), wanted


def _has_keywords(rule: Rule) -> bool:
    return min(map(len, rule.keywords), default=0) >= _SHORTEST


def _with_prefixes(word: bytes, of_word: dict[bytes, set[int]]) -> tuple[int, ...]:
    numbers: set[int] = set()
    for length in range(1, len(word) + 1):
        numbers |= of_word.get(word[:length], set())
    return tuple(sorted(numbers))


def escaped(word: bytes) -> str:
    """A literal as a pattern."""
    return "".join(
        chr(byte) if chr(byte).isalnum() and byte < 128 else f"\\x{byte:02x}" for byte in word
    )
