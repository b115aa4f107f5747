"""OT004 to OT008 for a document in memory: values that JSON cannot hold, or not for all parsers."""

import math
import re
from typing import Any

from open_token.integrity.strict_reader import ReportProblem
from open_token.jsontools.strict import MAX_DEPTH, MAX_INTEGER, describe_key

_SURROGATE = re.compile("[\ud800-\udfff]")


def is_too_deep(encoded: bytes, value: Any, depth: int) -> bool:
    """Return whether a value inside `depth` containers is nested too deep."""
    # Counting brackets mostly answers it without a walk.
    brackets = encoded.count(b"[") + encoded.count(b"{")
    allowed = MAX_DEPTH - depth
    return brackets > allowed and _measure_depth(value) > allowed


def _measure_depth(value: Any) -> int:
    depth = 0
    level = [value]
    while True:
        containers = [item for item in level if isinstance(item, dict | list)]
        if not containers:
            return depth
        depth += 1
        level = []
        for container in containers:
            level += container.values() if isinstance(container, dict) else container


def check_values(value: Any, place: str, depth: int, report: ReportProblem) -> None:
    """Report every problem in a value with its place; it is inside `depth` containers."""
    stack = [(value, place, depth)]
    has_reported_depth = False
    while stack:
        item, item_place, item_depth = stack.pop()
        if not isinstance(item, dict | list):
            _check_scalar(item, item_place, report)
            continue
        if item_depth >= MAX_DEPTH and not has_reported_depth:
            has_reported_depth = True
            report("OT006", item_place, f"containers are nested more than {MAX_DEPTH} deep")
        if item_depth < 2 * MAX_DEPTH:
            stack.extend(reversed(_list_parts(item, item_place, item_depth + 1, report)))


def _list_parts(
    container: Any, place: str, depth: int, report: ReportProblem
) -> list[tuple[Any, str, int]]:
    if isinstance(container, list):
        return [(item, f"{place}[{index}]", depth) for index, item in enumerate(container)]
    parts = []
    for key, item in container.items():
        if not isinstance(key, str):
            report("OT008", place, "a key that is not a string")
        elif _SURROGATE.search(key):
            report("OT005", f"{place}[key]", "the key holds one half of a surrogate pair")
        parts.append((item, (place + describe_key(key)).removeprefix("."), depth))
    return parts


def _check_scalar(value: Any, place: str, report: ReportProblem) -> None:
    kind = type(value)
    if kind is str:
        if not value.isascii() and _SURROGATE.search(value):
            report("OT005", place, "the string holds one half of a surrogate pair")
    elif kind is float:
        if not math.isfinite(value):
            report("OT004", place, "NaN and Infinity are not JSON")
    elif kind is int:
        if abs(value) > MAX_INTEGER:
            report("OT007", place, "the integer is beyond 2^53-1")
    elif value is not None and kind is not bool:
        report("OT008", place, "not a JSON type")
