"""How one event is made smaller, cut by cut: its text, then long strings and arrays in its data."""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, cast

import orjson

from open_token.model.document import Content, Event
from open_token.redaction.markers import MARKER

_HEAD = 1024
_TAIL = 256
_GAP = "…"
# Shorter texts, and arrays with fewer bytes, are not cut.
_MAX_UNCUT = _HEAD + len(_GAP) + _TAIL
# More strings or arrays of one event are cut in groups, so that time stays linear.
_MAX_CUTS = 16

_TEXT_STAGE, _STRING_STAGE, _ARRAY_STAGE = range(3)

# How far around a cut a redaction marker is searched, so that time stays linear.
_MAX_MARKER = 96

Path = tuple[str | int, ...]
MeasureEvent = Callable[[Event], int]


class Cut(NamedTuple):
    """One cut on top of the previous ones.

    `length` is how long the thing was that is cut, `event` the event afterwards, `size` its bytes.
    """

    stage: int
    length: int
    event: Event
    size: int


def iter_cuts(event: Event, size: int, measure: MeasureEvent) -> Iterator[Cut]:
    """Yield every cut that makes the event smaller, in the order in which they are made."""
    if size <= _MAX_UNCUT:
        return
    text = event.get("content", {}).get("text")
    if text is not None and len(text) > _MAX_UNCUT:
        shorter = _with_cut_text(event, text)
        smaller = measure(shorter)
        # The flags that a cut adds may take more bytes than it saves.
        if smaller < size:
            event = shorter
            size = smaller
            yield Cut(_TEXT_STAGE, len(text), event, size)
    if "data" not in event.get("content", {}):
        return
    stages = ((_STRING_STAGE, _find_long_strings), (_ARRAY_STAGE, _find_long_arrays))
    for stage, find_candidates in stages:
        candidates = find_candidates(event)
        for cut in _iter_data_cuts(event, size, measure, stage, candidates):
            event = cut.event
            size = cut.size
            yield cut


def cut_text(text: str) -> str:
    """Return the start and the end of a text with `…` between; redaction markers stay whole."""
    if len(text) <= _MAX_UNCUT:
        return text
    _, head_end = _find_marker_at(text, _HEAD)
    tail_start, _ = _find_marker_at(text, len(text) - _TAIL)
    if head_end + len(_GAP) >= tail_start:
        return text
    return text[:head_end] + _GAP + text[tail_start:]


def _find_marker_at(text: str, position: int) -> tuple[int, int]:
    """Return the span of the marker that a cut would break; without one, the position itself."""
    start = max(0, position - _MAX_MARKER)
    for match in MARKER.finditer(text, start, position + _MAX_MARKER):
        if match.start() < position < match.end():
            return match.span()
    return position, position


def _with_cut_text(event: Event, text: str) -> Event:
    """Return the event with its text cut, and flags in its data that say so."""
    content = event["content"]
    old_data: Any = content.get("data", {})
    data: dict[str, Any] = {}
    if isinstance(old_data, dict):
        data.update(old_data)
    else:
        data["value"] = old_data
    was_cut = data.get("truncated") is True
    has_length = type(data.get("original_length")) is int
    data["truncated"] = True
    # A text that was cut before keeps its original length.
    if not was_cut or not has_length:
        data["original_length"] = len(text)
    return _with_content(event, {**content, "text": cut_text(text), "data": data})


def _with_content(event: Event, content: Content) -> Event:
    return cast(Event, {**event, "content": content})


def _iter_data_cuts(
    event: Event, size: int, measure: MeasureEvent, stage: int, candidates: list[tuple[int, Path]]
) -> Iterator[Cut]:
    """Cut the largest first; a group that saves nothing is left as it was."""
    candidates = sorted(candidates, key=lambda candidate: -candidate[0])
    group_size = max(1, math.ceil(len(candidates) / _MAX_CUTS))
    chosen: set[Path] = set()
    content = event["content"]
    for start in range(0, len(candidates), group_size):
        group = candidates[start : start + group_size]
        paths = {path for _, path in group}
        data = _cut_data(content["data"], chosen | paths)
        shorter = _with_content(event, {**content, "data": data})
        smaller = measure(shorter)
        if smaller < size:
            chosen |= paths
            size = smaller
            largest = group[0][0]
            yield Cut(stage, largest, shorter, size)


def _find_long_strings(event: Event) -> list[tuple[int, Path]]:
    """Return length and path of the strings that can be cut, in order; never the tool name."""
    found: list[tuple[int, Path]] = []
    for path, value in _walk(event["content"]["data"]):
        if not isinstance(value, str) or len(value) <= _MAX_UNCUT:
            continue
        if path == ("tool_name",) and event.get("type") == "tool_use":
            continue
        if len(cut_text(value)) < len(value):
            found.append((len(value), path))
    return found


def _find_long_arrays(event: Event) -> list[tuple[int, Path]]:
    """Return size and path of the arrays of two or more items that can be cut, in order."""
    found: list[tuple[int, Path]] = []
    stack: list[tuple[Path, Any]] = [((), event["content"]["data"])]
    while stack:
        path, value = stack.pop()
        if isinstance(value, list):
            size = _measure_json(value)
            if size <= _MAX_UNCUT:
                # Nothing inside can be larger.
                continue
            if len(_without_flag(value)) > 1:
                found.append((size, path))
        stack.extend(reversed(_list_items(path, value)))
    return found


def _walk(data: Any) -> Iterator[tuple[Path, Any]]:
    """Yield all values inside the data with their paths, in order."""
    stack: list[tuple[Path, Any]] = [((), data)]
    while stack:
        path, value = stack.pop()
        yield path, value
        stack.extend(reversed(_list_items(path, value)))


def _list_items(path: Path, value: Any) -> list[tuple[Path, Any]]:
    """Return the values directly inside a value, with their paths."""
    entries: Iterable[tuple[Any, Any]]
    if isinstance(value, dict):
        entries = value.items()
    elif isinstance(value, list):
        entries = enumerate(value)
    else:
        return []
    return [((*path, step), item) for step, item in entries]


def _cut_data(data: Any, chosen: set[Path]) -> Any:
    """Cut the chosen strings and arrays, with `"truncated": true` in the object around each."""
    result, needs_flag = _cut(data, (), chosen)
    if not needs_flag:
        return result
    # There is no object around the outermost value, so it gets the flag itself.
    if isinstance(result, list):
        if _read_omitted(result) is not None:
            return result
        return _flag_array(result, 0)
    if isinstance(result, str):
        return {"text": result, "truncated": True, "original_length": len(data)}
    return {**result, "truncated": True}


def _cut(value: Any, path: Path, chosen: set[Path]) -> tuple[Any, bool]:
    """Return the value after the cuts in it, and whether a cut is not flagged yet."""
    if isinstance(value, str):
        if path in chosen:
            return cut_text(value), True
        return value, False
    if isinstance(value, list):
        return _cut_array(value, path, chosen)
    if isinstance(value, dict):
        return _cut_object(value, path, chosen)
    return value, False


def _cut_array(value: list[Any], path: Path, chosen: set[Path]) -> tuple[Any, bool]:
    is_cut = path in chosen
    kept = value
    if is_cut:
        kept = _select_leading(value)
    items = []
    needs_flag = False
    for index, item in enumerate(kept):
        new_item, is_unflagged = _cut(item, (*path, index), chosen)
        items.append(new_item)
        needs_flag = needs_flag or is_unflagged
    if not is_cut:
        return items, needs_flag
    left_out = len(value) - len(kept)
    return _flag_array(items, left_out, _read_omitted(value)), False


def _cut_object(value: dict[str, Any], path: Path, chosen: set[Path]) -> tuple[Any, bool]:
    result: dict[str, Any] = {}
    needs_flag = False
    for key, item in value.items():
        inner_path = (*path, key)
        if key == "base64" and value.get("encoding") == "base64" and inner_path in chosen:
            # A part of a file is useless, so it is left out as a whole.
            needs_flag = True
            continue
        result[key], is_unflagged = _cut(item, inner_path, chosen)
        needs_flag = needs_flag or is_unflagged
    if needs_flag and isinstance(value.get("truncated", False), bool):
        return {**result, "truncated": True}, False
    return result, needs_flag


def _select_leading(value: list[Any]) -> list[Any]:
    """Return the first items up to 1024 bytes, at least one."""
    items = _without_flag(value)
    total = 0
    count = 0
    for item in items:
        total += _measure_json(item) + 1
        if total > _HEAD:
            break
        count += 1
    return items[: max(1, count)]


def _read_omitted(value: list[Any]) -> int | None:
    """Return how many items an earlier cut left out; None if the array was not cut."""
    last = value[-1] if value else None
    if not isinstance(last, dict) or last.keys() != {"truncated", "omitted"}:
        return None
    omitted = last["omitted"]
    return omitted if type(omitted) is int else None


def _without_flag(value: list[Any]) -> list[Any]:
    """Return the items of an array without the flag of an earlier cut."""
    if _read_omitted(value) is None:
        return value
    return value[:-1]


def _flag_array(items: list[Any], left_out: int, earlier: int | None = None) -> list[Any]:
    """Append a flag with the number of items left out; an earlier flag is one of them."""
    omitted = left_out
    if earlier is not None:
        omitted += earlier - 1
    return [*items, {"truncated": True, "omitted": omitted}]


def _measure_json(value: Any) -> int:
    return len(orjson.dumps(value))
