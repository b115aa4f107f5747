"""Patterns that a user or a stranger's project wrote: RE2 alone runs them, over UTF-8, so that none can hang."""

import functools
import importlib
import re
from collections.abc import Callable
from typing import Any, cast

from open_token.passes._candidate import Candidate

Judge = Callable[[Candidate], bool]
_ANY_BYTE = re.compile(r"(?<!\\)(?:\\\\)*\\C")
_MOST_MEMORY = 8 << 20


class PatternError(ValueError):
    """RE2 does not take a pattern, or it would match everywhere; says why."""


@functools.cache
def own_pattern(pattern: str) -> Any:
    """A pattern over bytes that are UTF-8; `^` and `$` stand for the ends of a line."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MOST_MEMORY
    if _ANY_BYTE.search(pattern):
        raise PatternError(r"\C, which cuts letters in two")
    try:
        made = re2.compile(b"(?m)" + pattern.encode(), options)
    except re2.error as problem:
        raise PatternError(_reason(problem)) from None
    except UnicodeEncodeError:
        raise PatternError("it is not valid Unicode") from None
    if made.search(b""):
        raise PatternError("it matches where there is nothing")
    return made


def _reason(problem: Exception) -> str:
    told = problem.args[0] if problem.args else b""
    return told.decode("utf-8", "replace") if isinstance(told, bytes) else str(told)


@functools.cache
def judges() -> dict[str, Judge]:
    """The validators that a rule of one's own may name, of all levels."""
    parts = (importlib.import_module(f"open_token.passes.{name}").VALIDATORS for name in ("_persons", "_validators"))
    made: dict[str, Judge] = {}
    for part in parts:
        made |= cast(dict[str, Judge], part)
    return made
