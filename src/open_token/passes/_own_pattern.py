"""Patterns that a user or a stranger's project wrote: RE2 alone runs them, over UTF-8, so that none
can hang."""

import functools
import importlib
import re
from collections.abc import Callable
from typing import Any, cast

from open_token.passes._candidate import Candidate

Judge = Callable[[Candidate], bool]
_ANY_BYTE = re.compile(r"(?<!\\)(?:\\\\)*\\C")
_MOST_MEMORY = 8 << 20


_LOOK_AROUND = "RE2 has no look-around; match what stands around, too, and put the part to mask into a group: 'id=([0-9]+)'"
_AGAIN = "RE2 has no back reference; write the part out once more"
_NO_BACKTRACKING = "RE2 never goes back, so it needs none of these; leave it out"
_REMEDIES = (
    (re.compile(r"\(\?<?[=!]"), _LOOK_AROUND),
    (re.compile(r"\\[1-9gk]|\(\?P$"), _AGAIN),
    (re.compile(r"\(\?>|[+*?}]\+"), _NO_BACKTRACKING),
    (re.compile(r"\(\?#"), "RE2 has no comments; write it into a line that begins with # above"),
    (
        re.compile(r"repetition size|too large"),
        "repeat at most 1,000 times in all, or use + and let a longer run match, too",
    ),
    (re.compile(r"\\[pP]"), r"classes of letters are \p{L}, \p{Lu}, \p{N}, \p{Greek} and so on"),
    (re.compile(r"\\Z"), r"the end of the text is \z, the end of a line $"),
)
_SYNTAX = "see the syntax of RE2; a \\ before a sign makes it an ordinary letter"


class PatternError(ValueError):
    """RE2 does not take a pattern, or it would match everywhere; says why, and what to write
    instead."""

    def __init__(self, what: str, help: str) -> None:
        super().__init__(what)
        self.help = help


@functools.cache
def own_pattern(pattern: str) -> Any:
    """A pattern over bytes that are UTF-8; `^` and `$` stand for the ends of a line."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MOST_MEMORY
    if _ANY_BYTE.search(pattern):
        raise PatternError(r"this pattern has \C, which cuts letters in two", "use . instead")
    try:
        made = re2.compile(b"(?m)" + pattern.encode(), options)
    except re2.error as problem:
        reason = _reason(problem).removesuffix(f": (?m){pattern}")
        raise PatternError(f"RE2 does not take this pattern: {reason}", _remedy(reason)) from None
    except UnicodeEncodeError:
        raise PatternError(
            "this pattern is not valid Unicode", "take out what stands for half a character"
        ) from None
    if made.search(b""):
        raise PatternError(
            "this pattern matches where there is nothing",
            "ask for one letter at least: + instead of *",
        )
    return made


def _reason(problem: Exception) -> str:
    told = problem.args[0] if problem.args else b""
    return told.decode("utf-8", "replace") if isinstance(told, bytes) else str(told)


def _remedy(reason: str) -> str:
    return next((remedy for sign, remedy in _REMEDIES if sign.search(reason)), _SYNTAX)


@functools.cache
def judges() -> dict[str, Judge]:
    """The validators that a rule of one's own may name, of all levels."""
    parts = (
        importlib.import_module(f"open_token.passes.{name}").VALIDATORS
        for name in ("_persons", "_validators")
    )
    made: dict[str, Judge] = {}
    for part in parts:
        made |= cast(dict[str, Judge], part)
    return made
