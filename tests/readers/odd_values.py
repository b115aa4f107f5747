"""Records as no runtime writes them: each part of a value taken away, or replaced by something of
another kind."""

import copy
import itertools
from collections.abc import Iterator
from typing import Any

ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    2**70,
    1.5,
    "",
    "x",
    [],
    [None, []],
    {},
    {"type": {"a": [1]}},
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, item in items:
        yield (*path, key)
        yield from _places(item, (*path, key))


def iter_mangled(value: Any) -> Iterator[Any]:
    """The value with one part missing or odd: every part twice, the odd things by turns.

    `test_all_other_values` tries every part with every odd thing.
    """
    turns = itertools.cycle((*ODD, iter_mangled))
    for path in _places(value):
        for odd in itertools.islice(turns, 2):
            made = copy.deepcopy(value)
            holder = made
            for key in path[:-1]:
                holder = holder[key]
            if odd is not iter_mangled:
                holder[path[-1]] = odd
            else:
                del holder[path[-1]]
            yield made
