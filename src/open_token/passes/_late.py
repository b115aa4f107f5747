"""Regular expressions that are compiled when they are first used: a small export needs few of those
that there are."""

import re
from typing import Any, AnyStr, cast

_USED = (
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


class _Late:
    """Stands for an expression; what it is asked for once is from then on the expression's own."""

    def __init__(self, source: str | bytes, flags: int) -> None:
        self._source = source
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        if name not in _USED:
            raise AttributeError(name)
        made = re.compile(self._source, self._flags)
        self.__dict__.update({used: getattr(made, used) for used in _USED})
        return self.__dict__[name]


def late(source: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """As re.compile, later."""
    return cast("re.Pattern[AnyStr]", _Late(source, flags))
