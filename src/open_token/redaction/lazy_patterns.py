"""Regular expressions that are compiled on first use, to keep the start of a small export fast."""

import re
from typing import Any, AnyStr, cast

_PATTERN_ATTRIBUTES = (
    "search",
    "match",
    "fullmatch",
    "finditer",
    "findall",
    "split",
    "sub",
    "subn",
    "pattern",
    "groupindex",
)


class _LazyPattern:
    """Stand in for a pattern; the first access copies the bound methods of the compiled one."""

    def __init__(self, source: str | bytes, flags: int) -> None:
        self._source = source
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        if name not in _PATTERN_ATTRIBUTES:
            raise AttributeError(name)
        compiled = re.compile(self._source, self._flags)
        for attribute in _PATTERN_ATTRIBUTES:
            self.__dict__[attribute] = getattr(compiled, attribute)
        return self.__dict__[name]


def lazy_compile(source: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a pattern like re.compile does, but compile it on first use."""
    return cast("re.Pattern[AnyStr]", _LazyPattern(source, flags))
