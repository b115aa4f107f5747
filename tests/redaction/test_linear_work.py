"""Redaction does work in proportion to its text, whatever the text is.

Work is counted, not timed: calls of functions, and bytes that patterns read. Each rule is attacked
with text that its own pattern and those of other rules begin to match again and again.
"""

import random
import re
import sys
import warnings
from collections.abc import Callable
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import pytest

from open_token.context import Context
from open_token.model.document import Record
from open_token.options import ExportOptions
from open_token.redaction import hyperscan_prefilter, prefilter, propagation
from open_token.redaction.lazy_patterns import _LazyPattern
from open_token.redaction.propagation import Occurrence, ValueSearch
from open_token.redaction.redactor import redact
from open_token.redaction.ruleset import Rule, load_rules

SIZE = 4_000
TIMES = 4
# Between what is linear and what is quadratic, which is 16 times as much.
LIMIT = TIMES * 1.8
SIGNS = ("=", ":", " ", "\n", "-", "/", '": "', "~/", "::", "&", "%3D", "@", ".", "")
RULES = load_rules("pii")
SLICES = 40
"""All rules in one test take longer than a test may."""
KNOWN = (
    "xoxb-",
    "password=1:1:~/",
    "2001:db8:password=",
    "1:1:password=",
    "password=" + "." * 500,
    "\\\\",
    "\\u0041\\\\\\\\",
    '"a" ',
    "<password>",
    '<a name="token" ',
    "token,a\n",
    "password: |\n  ",
    "tokens:\n  ",
    "name: api_key\n",
    "[secrets]\n",
    "password=a;",
    "cookie: a=b;",
    "login a\n",
    "mysql -p",
    "http://a/reset/",
    "token    ",
    "| password | ",
    "--password ",
    "Signat:",
    "secret_::",
)


class Work:
    """Count calls, and bytes that patterns read, while a function runs."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.amount = 0
        find_spans = prefilter.Matcher.find_spans

        def count_spans(matcher: prefilter.Matcher, text: bytes, position: int) -> Any:
            spans = find_spans(matcher, text, position)
            self.amount += (spans[0][1] if spans else len(text)) - position
            return spans

        patch.setattr(prefilter.Matcher, "find_spans", count_spans)
        patch.setattr(
            propagation,
            "compile_re2",
            lambda pattern, longest: CountedRe2(
                self, prefilter.compile_re2(pattern, longest=longest)
            ),
        )
        for name, module in list(sys.modules.items()):
            if not name.startswith("open_token.redaction"):
                continue
            for attribute, pattern in list(vars(module).items()):
                if isinstance(pattern, _LazyPattern):
                    patch.setattr(module, attribute, CountedPattern(self, pattern))

    def measure(self, run: Callable[[], object]) -> int:
        self.amount = 0
        sys.setprofile(self._on_event)
        try:
            run()
        finally:
            sys.setprofile(None)
        return self.amount

    def _on_event(self, frame: object, event: str, argument: object) -> None:
        if event in ("call", "c_call"):
            self.amount += 1


class CountedRe2:
    """A pattern of RE2 that counts what it reads."""

    def __init__(self, work: Work, compiled: Any) -> None:
        self._work = work
        self._compiled = compiled

    def search(self, text: bytes, position: int) -> Any:
        match = self._compiled.search(text, position)
        self._work.amount += (match.end() if match else len(text)) - position
        return match


class CountedPattern:
    """A pattern that counts the texts that it is given."""

    def __init__(self, work: Work, pattern: Any) -> None:
        self._work = work
        self._pattern = pattern

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._pattern, name)

        def count(*arguments: Any, **options: Any) -> Any:
            text, *span = arguments[1:] if name in ("sub", "subn") else arguments
            first, last = (*span, *(0, len(text))[len(span) :])
            found = method(*arguments, **options)
            if isinstance(found, re.Match):
                last = found.end()
            elif name == "match":
                # No pattern that is tried at one position reads more than its line.
                newline = "\n" if isinstance(text, str) else b"\n"
                line_end = text.find(newline, first)
                last = line_end if line_end >= 0 else last
            self._work.amount += last - first
            return found

        return count if callable(method) else method


def sample_text(pattern: str, chance: random.Random) -> str:
    """Return a text that a pattern matches, or nearly: the fewest repetitions, any alternative."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parsed = parser.parse(pattern)
    parts: list[str] = []
    stack = list(reversed(parsed))
    while stack:
        code, argument = stack.pop()
        if code is codes.LITERAL:
            parts.append(chr(argument))
        elif code in (codes.ANY, codes.NOT_LITERAL):
            parts.append("a")
        elif code is codes.IN:
            parts.append(sample_class(argument))
        elif code is codes.BRANCH:
            stack += reversed(chance.choice(argument[1]))
        elif code is codes.SUBPATTERN:
            stack += reversed(argument[3])
        elif code in (codes.MAX_REPEAT, codes.MIN_REPEAT):
            stack += list(reversed(argument[2])) * min(argument[0], 60)
    return "".join(parts).replace("\0", " ")


def sample_class(members: list[Any]) -> str:
    for code, argument in members:
        if code is codes.LITERAL:
            return chr(argument)
        if code is codes.RANGE:
            return chr(argument[0])
        if code is codes.NEGATE:
            return "a"
    return "1"


def build_unit(rules: list[Rule], chance: random.Random) -> str:
    """Return what is repeated: the beginnings of texts of some rules, with signs between them."""
    parts = []
    for rule in rules:
        words = [*rule.keywords, sample_text(rule.pattern, chance)]
        parts.append(chance.choice(words)[: chance.choice((6, 20, 200))] + chance.choice(SIGNS))
    return "".join(parts) or "a"


def redact_text(text: str, engine: str = "keywords") -> Record:
    event = {"id": "evt_000001", "type": "message", "content": {"text": text}}
    record = Record(conversation={"id": "c"}, participants=[], events=[event])  # type: ignore[list-item,typeddict-item]
    return redact(record, Context(ExportOptions(redact="pii")), engine)


def assert_linear(work: Work, unit: str, begin: str = "", end: str = "") -> None:
    def measure(size: int) -> int:
        text = begin + (unit * (size // len(unit) + 1))[:size] + end
        return work.measure(lambda: redact_text(text))

    measure(SIZE)  # whatever is compiled and loaded at first
    base = work.measure(lambda: redact_text("a"))
    once = measure(SIZE) - base
    more = measure(TIMES * SIZE) - base
    if more <= LIMIT * once + 100 * SIZE:
        return
    # What is looked at around a name is bounded, and only in longer texts is all of it there.
    most = measure(TIMES * TIMES * SIZE) - base
    assert most <= LIMIT * more, (unit, once, more, most)


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    redact_text("password=hunter2hunter2 " * 40)  # load all modules
    return Work(monkeypatch)


@pytest.mark.parametrize("unit", KNOWN)
def test_work_for_texts_that_once_took_too_long(work: Work, unit: str) -> None:
    assert_linear(work, unit)
    assert_linear(work, unit, "password=", "a")


def test_work_of_some_rules(work: Work) -> None:
    chance = random.Random(11)
    for _ in range(10):
        assert_linear(work, build_unit(chance.sample(RULES, chance.randint(1, 3)), chance))


@pytest.mark.full
@pytest.mark.parametrize("first", range(SLICES))
def test_work_of_each_rule_with_others(work: Work, first: int) -> None:
    chance = random.Random(first)
    for rule in RULES[first::SLICES]:
        for others in (0, 1):
            assert_linear(work, build_unit([rule, *chance.sample(RULES, others)], chance))


def test_a_search_can_be_ended_between_windows() -> None:
    """A server ends the search of a client that has gone, however long its text is."""
    calls = 0

    class GoneError(Exception):
        pass

    def stop() -> None:
        nonlocal calls
        calls += 1
        if calls == 5:
            raise GoneError

    event = {"id": "evt_000001", "type": "message", "content": {"text": "password=a1b2\n" * 2000}}
    record = Record(conversation={"id": "c"}, participants=[], events=[event])  # type: ignore[list-item,typeddict-item]
    with pytest.raises(GoneError):
        redact(record, Context(ExportOptions(redact="pii"), checkpoint=stop))
    assert calls == 5


LONG = "".join(f"part {number};" for number in range(1000))


@pytest.mark.parametrize("engine", ["hyperscan", "keywords"])
def test_no_engine_gets_a_long_literal(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[int] = []

    def compile_literals(words: list[bytes]) -> Any:
        lengths.extend(map(len, words))
        return hyperscan_prefilter.compile_literals(words)

    monkeypatch.setattr(propagation, "compile_literals", compile_literals)
    search = ValueSearch([LONG, "xoxb-" * 40_000], engine)
    assert list(search.find(f"a {LONG} b".encode())) == [Occurrence(2, 2 + len(LONG), LONG)]
    assert max(lengths, default=0) <= 1024


@pytest.mark.parametrize("engine", ["hyperscan", "keywords"])
def test_long_values_that_begin_alike_are_reported_apart(engine: str) -> None:
    values = [LONG + "x", LONG + "y" * 70, LONG]
    search = ValueSearch(values, engine)
    text = " ".join(values).encode()
    found = [(item.value, text[item.start : item.end].decode()) for item in search.find(text)]
    assert found == [(value, value) for value in values]


@pytest.mark.parametrize("engine", ["hyperscan", "keywords"])
def test_long_values_that_overlap_are_covered(engine: str) -> None:
    value = "xoxb-" * 1000
    text = b"a " + b"xoxb-" * 1700 + b" b " + value.encode()[:3000] + b" c"
    spans = [(item.start, item.end) for item in ValueSearch([value], engine).find(text)]
    assert spans == [(2, 2 + 5 * 1700), (5 + 5 * 1700, 5 + 5 * 1700 + 3000)]
