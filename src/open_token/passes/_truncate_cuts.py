"""How one event is made smaller, step by step: its text first, then long strings and long arrays
inside its data."""

from collections.abc import Callable, Iterator
from itertools import accumulate, takewhile
from typing import Any, NamedTuple, cast

import orjson

from open_token.model import Content, Event
from open_token.passes._late import late

HEAD, TAIL, GAP = 1024, 256, "…"
LONGEST = HEAD + len(GAP) + TAIL
"""A text of so many characters or fewer stays whole, and so does an array of so many bytes."""

TEXT, STRINGS, ARRAYS = range(3)
MOST_STEPS = 16
"""Steps for the strings of one event, and for its arrays: more of them are cut in groups, so that
time stays linear."""

_MARK = late(r"\[REDACTED:[A-Za-z0-9_.-]{1,64}:[0-9a-f]{8}\]")
_REACH = 96

Path = tuple[str | int, ...]
Size = Callable[[Event], int]


class Step(NamedTuple):
    """One cut on top of those before: how large the thing was, the event after it, and the bytes of
    that event."""

    stage: int
    length: int
    event: Event
    size: int


def steps(event: Event, size: int, measure: Size) -> Iterator[Step]:
    """Every cut that makes the event smaller, in the order in which they are made."""
    if size <= LONGEST:
        return
    text = event.get("content", {}).get("text")
    if text is not None and len(text) > LONGEST:
        shorter = _with_short_text(event, text)
        if (smaller := measure(shorter)) < size:
            event, size = shorter, smaller
            yield Step(TEXT, len(text), event, size)
    if "data" not in event.get("content", {}):
        return
    for stage, find in ((STRINGS, _long_strings), (ARRAYS, _long_arrays)):
        for step in _data_steps(event, size, measure, stage, find):
            event, size = step.event, step.size
            yield step


def cut_text(text: str) -> str:
    """The first 1024 and the last 256 characters with `…` between; a redaction mark on an edge
    stays whole."""
    if len(text) <= LONGEST:
        return text
    head, tail = _mark_around(text, HEAD)[1], _mark_around(text, len(text) - TAIL)[0]
    return text if head + len(GAP) >= tail else text[:head] + GAP + text[tail:]


def _mark_around(text: str, place: int) -> tuple[int, int]:
    """Where the mark starts and ends that a cut at this place would break; without one, the place
    itself."""
    for found in _MARK.finditer(text, max(0, place - _REACH), place + _REACH):
        if found.start() < place < found.end():
            return found.span()
    return place, place


def _with_short_text(event: Event, text: str) -> Event:
    content = event["content"]
    old: Any = content.get("data", {})
    data: dict[str, Any] = dict(old) if isinstance(old, dict) else {"value": old}
    known = data.get("original_length") if data.get("truncated") is True else None
    data["truncated"] = True
    data["original_length"] = known if type(known) is int else len(text)
    return _with_content(event, {**content, "text": cut_text(text), "data": data})


def _with_content(event: Event, content: Content) -> Event:
    return cast(Event, {**event, "content": content})


def _data_steps(
    event: Event,
    size: int,
    measure: Size,
    stage: int,
    find: Callable[[Event], list[tuple[int, Path]]],
) -> Iterator[Step]:
    """The largest first; a group that saves nothing is left as it was."""
    found = sorted(find(event), key=lambda item: -item[0])
    group = -(-len(found) // MOST_STEPS)
    chosen: set[Path] = set()
    whole = event["content"]["data"]
    for start in range(0, len(found), group or 1):
        paths = {path for _, path in found[start : start + group]}
        shorter = _with_content(
            event, {**event["content"], "data": _cut_data(whole, chosen | paths)}
        )
        if (smaller := measure(shorter)) < size:
            chosen |= paths
            size = smaller
            yield Step(stage, found[start][0], shorter, size)


def _long_strings(event: Event) -> list[tuple[int, Path]]:
    """Strings that can be cut, with their lengths, in order of appearance; never the name of a
    tool."""
    found: list[tuple[int, Path]] = []
    stack: list[tuple[Path, Any]] = [((), event["content"]["data"])]
    while stack:
        path, value = stack.pop()
        if isinstance(value, str):
            if len(value) > LONGEST and len(cut_text(value)) < len(value):
                found.append((len(value), path))
        elif isinstance(value, dict):
            stack.extend(((*path, key), value[key]) for key in reversed(value))
        elif isinstance(value, list):
            stack.extend(((*path, number), value[number]) for number in reversed(range(len(value))))
    name_of_tool = ("tool_name",) if event.get("type") == "tool_use" else None
    return [(length, path) for length, path in found if path != name_of_tool]


def _long_arrays(event: Event) -> list[tuple[int, Path]]:
    """Arrays of two elements or more that can be cut, with their compact sizes, in order of
    appearance."""
    found: list[tuple[int, Path]] = []
    stack: list[tuple[Path, Any]] = [((), event["content"]["data"])]
    while stack:
        path, value = stack.pop()
        if isinstance(value, dict):
            stack.extend(((*path, key), value[key]) for key in reversed(value))
        elif isinstance(value, list) and (size := _compact(value)) > LONGEST:
            if len(value) - (_omitted(value) is not None) > 1:
                found.append((size, path))
            stack.extend(((*path, number), value[number]) for number in reversed(range(len(value))))
    return found


def _cut_data(data: Any, chosen: set[Path]) -> Any:
    """The data with the chosen strings and arrays cut, and `"truncated": true` in the structure
    around each."""
    made, unmarked = _cut(data, (), chosen)
    if not unmarked:
        return made
    if isinstance(made, list):
        return made if _omitted(made) is not None else _marked_array(made, 0)
    if isinstance(made, str):
        return {"text": made, "truncated": True, "original_length": len(data)}
    return {**made, "truncated": True}


def _cut(value: Any, path: Path, chosen: set[Path]) -> tuple[Any, bool]:
    """The value after the cuts inside it, and whether a cut in it is not yet marked."""
    if isinstance(value, str):
        return (cut_text(value), True) if path in chosen else (value, False)
    if isinstance(value, list):
        return _cut_list(value, path, chosen)
    return _cut_object(value, path, chosen) if isinstance(value, dict) else (value, False)


def _cut_list(value: list[Any], path: Path, chosen: set[Path]) -> tuple[Any, bool]:
    is_cut = path in chosen
    kept = _leading(value) if is_cut else value
    parts = [_cut(item, (*path, number), chosen) for number, item in enumerate(kept)]
    made = [item for item, _ in parts]
    if is_cut:
        return _marked_array(made, len(value) - len(kept), _omitted(value)), False
    return made, any(unmarked for _, unmarked in parts)


def _cut_object(value: dict[str, Any], path: Path, chosen: set[Path]) -> tuple[Any, bool]:
    made: dict[str, Any] = {}
    unmarked = False
    for key, item in value.items():
        inner = (*path, key)
        if key == "base64" and value.get("encoding") == "base64" and inner in chosen:
            unmarked = True
            continue
        made[key], is_open = _cut(item, inner, chosen)
        unmarked = unmarked or is_open
    if unmarked and isinstance(value.get("truncated", False), bool):
        return {**made, "truncated": True}, False
    return made, unmarked


def _leading(value: list[Any]) -> list[Any]:
    """The first elements up to 1024 bytes, at least one."""
    elements = value[:-1] if _omitted(value) is not None else value
    sizes = accumulate(_compact(item) + 1 for item in elements)
    return elements[: max(1, sum(1 for _ in takewhile(lambda total: total <= HEAD, sizes)))]


def _omitted(value: list[Any]) -> int | None:
    """How many elements an earlier cut left out; None when the array was not cut."""
    last = value[-1] if value else None
    if (
        isinstance(last, dict)
        and last.keys() == {"truncated", "omitted"}
        and type(last["omitted"]) is int
    ):
        return last["omitted"]
    return None


def _marked_array(made: list[Any], gone: int, earlier: int | None = None) -> list[Any]:
    """The earlier mark was one of the elements that are gone."""
    omitted = gone if earlier is None else gone - 1 + earlier
    return [*made, {"truncated": True, "omitted": omitted}]


def _compact(value: Any) -> int:
    return len(orjson.dumps(value))
