"""OT004 to OT008 for a document in memory: values that JSON cannot carry, or that readers take
differently."""

import math
import re
from typing import Any

from open_token.checking._findings import Add, key_shown
from open_token.strict import MAX_DEPTH, MAX_INTEGER

_SURROGATE = re.compile("[\ud800-\udfff]")


def is_too_deep(raw: bytes, value: Any, depth: int) -> bool:
    """Whether a value inside `depth` containers is nested too deep; its bytes mostly tell that
    without a walk."""
    brackets = raw.count(b"[") + raw.count(b"{")
    return brackets > MAX_DEPTH - depth and _depth(value) > MAX_DEPTH - depth


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while level := [item for item in level if isinstance(item, dict | list)]:
        depth += 1
        level = [
            part for item in level for part in (item.values() if isinstance(item, dict) else item)
        ]
    return depth


def check_values(value: Any, place: str, depth: int, add: Add) -> None:
    """Tell every such value with its place; `depth` containers stand around this one."""
    stack = [(value, place, depth)]
    is_deep = False
    while stack:
        item, where, around = stack.pop()
        if isinstance(item, dict | list):
            if around >= MAX_DEPTH and not is_deep:
                is_deep = True
                add("OT006", where, f"containers are nested more than {MAX_DEPTH} deep")
            if around < 2 * MAX_DEPTH:
                stack.extend(reversed(_parts(item, where, around + 1, add)))
        else:
            _check_scalar(item, where, add)


def _parts(container: Any, place: str, depth: int, add: Add) -> list[tuple[Any, str, int]]:
    if isinstance(container, list):
        return [(item, f"{place}[{number}]", depth) for number, item in enumerate(container)]
    for key in container:
        if not isinstance(key, str):
            add("OT008", place, "a key that is not a string")
        elif _SURROGATE.search(key):
            add("OT005", f"{place}[key]", "the key holds one half of a surrogate pair")
    return [
        (item, (place + key_shown(key)).removeprefix("."), depth) for key, item in container.items()
    ]


def _check_scalar(value: Any, place: str, add: Add) -> None:
    kind = type(value)
    if kind is str:
        if not value.isascii() and _SURROGATE.search(value):
            add("OT005", place, "the string holds one half of a surrogate pair")
    elif kind is float:
        if not math.isfinite(value):
            add("OT004", place, "NaN and Infinity are not JSON")
    elif kind is int:
        if abs(value) > MAX_INTEGER:
            add("OT007", place, "the integer is beyond 2^53-1")
    elif value is not None and kind is not bool:
        add("OT008", place, "not a JSON type")
