"""A conversation as frames for a screen: one an event, with its moment and a few lines of plain text."""

from collections.abc import Iterator
from typing import Any

import msgspec

from open_token.model import Event, Export
from open_token.replay.plain import flat, object_of
from open_token.timestamps import to_epoch_ms

_RESULT_LINES = 12
_ARGUMENTS = ("command", "cmd", "file_path", "path", "pattern", "query", "url", "prompt", "description")
_LONGEST = 400


class Frame(msgspec.Struct):
    """What is shown of one event."""

    seq: int
    at: int | None
    """Milliseconds since the beginning, where the record has times."""
    kind: str
    lines: list[str]
    is_error: bool = False


def frames_of(document: Export) -> list[Frame]:
    """Every event that has something to show, in order."""
    events = document.get("events", [])
    failed = {parent: facts for parent, facts in map(_facts, events) if parent}
    began = next((ms for event in events if (ms := to_epoch_ms(event.get("ts")))), None)
    frames = []
    for event in events:
        lines = [line.expandtabs(4) for line in _lines(event)]
        if lines:
            ms, seq = to_epoch_ms(event.get("ts")), event.get("seq")
            at = ms - began if ms and began else None
            bad = failed.get(str(event.get("id")), False)
            frames.append(Frame(seq if type(seq) is int else 0, at, _kind(event), lines, bad))
    return frames


def _facts(event: Event) -> tuple[str, bool]:
    """The result that an annotation tells about, and whether it went wrong."""
    data = object_of(object_of(event.get("content")).get("data"))
    if event.get("type") != "annotation" or data.get("kind") != "result_facts":
        return "", False
    code = data.get("exit_code", data.get("exit"))
    return str(object_of(event.get("links")).get("parent_id") or ""), data.get("is_error") is True or code not in (
        None,
        0,
    )


def _kind(event: Event) -> str:
    role, kind = event.get("role"), event.get("type")
    return {"user": "prompt", "assistant": "answer"}.get(str(role), str(role)) if kind == "message" else str(kind)


def _lines(event: Event) -> Iterator[str]:
    content, kind = object_of(event.get("content")), event.get("type")
    if kind == "message":
        yield from _message(event, content)
    elif kind == "tool_use":
        data = object_of(content.get("data"))
        yield f"  > {data.get('tool_name')}  {_in_short(data.get('arguments'))}"
    elif kind == "tool_result":
        yield from _result(content)
    elif kind == "span_start":
        data = object_of(content.get("data"))
        yield f"  [ {data.get('kind') or 'subagent'}  {_cut(str(data.get('spawn_reason') or ''))}".rstrip()
    elif kind == "span_end":
        yield "  ]"


def _message(event: Event, content: dict[str, Any]) -> Iterator[str]:
    text = content.get("text")
    lines = (text if isinstance(text, str) else flat(content.get("data"))).splitlines() or [""]
    role = event.get("role")
    if role in ("system", "developer"):
        yield f"# {role} prompt, {len(lines):,} lines"
        return
    first, rest = {"user": ("you ", "    "), "assistant_thought": ("  ~ ", "    ")}.get(str(role), ("  ", "  "))
    for number, line in enumerate(lines):
        yield (rest if number else first) + line


def _result(content: dict[str, Any]) -> Iterator[str]:
    data, text = content.get("data"), content.get("text")
    if object_of(data).get("missing_result") is True:
        yield "    = no result"
        return
    lines = (text if isinstance(text, str) else flat(data)).splitlines()
    yield f"    = {len(lines):,} {'line' if len(lines) == 1 else 'lines'}"
    yield from (f"      {line}" for line in lines[:_RESULT_LINES])
    if len(lines) > _RESULT_LINES:
        yield f"      ... {len(lines) - _RESULT_LINES:,} more"


def _in_short(arguments: Any) -> str:
    """The argument that tells most, on one line."""
    given = object_of(arguments)
    told = next((given[name] for name in _ARGUMENTS if name in given), arguments)
    words = told if isinstance(told, str) else " ".join(map(str, told)) if isinstance(told, list) else flat(told)
    return _cut(words)


def _cut(text: str) -> str:
    line = " ".join(text[: 2 * _LONGEST].split())
    return line if len(line) <= _LONGEST else line[:_LONGEST] + "..."
