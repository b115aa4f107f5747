"""The filter line of a list of sessions: `agent:codex since:2d failed:>0 touched:x.py words`."""

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from open_token.errors import UsageError
from open_token.jsontools.timestamps import parse_moment

NUMBERS = ("prompts", "calls", "failed", "added", "removed", "tokens", "cost", "secrets")
MARKS = ("live", "archived", "gone", "copy")
_TEXTS = ("agent", "project", "branch", "touched")
_TIMES = ("since", "until")
_WORD = re.compile(r'(?:([a-z]+):)?(?:"([^"]*)"?|(\S+))')
_NUMBER = re.compile(r"(>=|<=|>|<|=)?([0-9]{1,12}(?:\.[0-9]{1,6})?)")
_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
}


@dataclass(frozen=True)
class NumberTest:
    """A limit on a number, such as failed:>0."""

    name: str
    comparison: str
    limit: float

    def passes(self, value: float | None) -> bool:
        """Return whether a value is within the limit; an unknown one is not."""
        return value is not None and _COMPARISONS[self.comparison](value, self.limit)


@dataclass
class SessionFilter:
    """What a filter line asks for; an empty field means all."""

    words: list[str] = field(default_factory=list)
    """Texts in lower case that title, folder, branch or id must contain."""
    agent: str = ""
    project: str = ""
    branch: str = ""
    touched: str = ""
    since: float | None = None
    until: float | None = None
    numbers: list[NumberTest] = field(default_factory=list)
    marks: list[str] = field(default_factory=list)


def parse_filter(line: str, now: float) -> SessionFilter:
    """Parse a filter line; raises UsageError for a value that makes no sense."""
    wanted = SessionFilter()
    for match in _WORD.finditer(line[:1000]):
        name = match[1] or ""
        value = match[3] if match[2] is None else match[2]
        if name in _TEXTS and value:
            setattr(wanted, name, value)
        elif name in _TIMES:
            setattr(wanted, name, _parse_time(name, value, now))
        elif name in NUMBERS:
            wanted.numbers.append(_parse_number(name, value))
        elif name == "is":
            wanted.marks.append(_parse_mark(value))
        else:
            # A word with a colon that is no filter, such as a path of Windows, is a word.
            wanted.words.append(match[0].replace('"', "").lower())
    wanted.agent = wanted.agent.replace("-", "_").lower()
    return wanted


def _parse_time(name: str, value: str, now: float) -> float:
    moment = parse_moment(value, now, is_end=name == "until")
    if moment is None:
        raise UsageError(
            f"{name}: takes an age or a day",
            help=f"for example {name}:2d or {name}:2026-11-01",
        )
    return moment


def _parse_number(name: str, value: str) -> NumberTest:
    match = _NUMBER.fullmatch(value)
    if not match:
        raise UsageError(f"{name}: takes a number", help=f"for example {name}:>0")
    return NumberTest(name, match[1] or "=", float(match[2]))


def _parse_mark(value: str) -> str:
    if value not in MARKS:
        raise UsageError(f"is: takes {', '.join(MARKS)}", help="for example is:live")
    return value
