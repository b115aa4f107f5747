"""Documents with one value in the wrong shape, one after another: no reader may stumble over any of
them."""

import copy
from collections.abc import Iterator
from typing import Any

ODD: tuple[Any, ...] = (
    None,
    7,
    "odd",
    [],
    {},
    [None],
    {"odd": [1, {}]},
    True,
    -1.5,
    10**30,
    [["a"]],
)


def iter_misshapen(document: Any, rounds: int = 1) -> Iterator[Any]:
    """The document again and again, each time with another value replaced, by turns with every odd
    one."""
    number = 0
    for _ in range(rounds):
        for path in list(_paths(document)):
            yield _with(document, path, ODD[number % len(ODD)])
            number += 1
        number += 1


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for name, part in items:
        yield from _paths(part, (*path, name))


def _with(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    made = copy.deepcopy(document)
    holder = made
    for name in path[:-1]:
        holder = holder[name]
    holder[path[-1]] = value
    return made
