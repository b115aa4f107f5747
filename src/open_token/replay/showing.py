"""A conversation as frames for a screen: one an event, with its moment and a few lines of plain
text."""

from collections.abc import Iterator
from typing import Any

import msgspec

from open_token.jsontools.timestamps import to_epoch_ms
from open_token.model.document import Event, Export
from open_token.pages.rows import output_of
from open_token.pages.story import QUIET, speaker
from open_token.replay.plain import flat, is_media, object_of

_RESULT_LINES = 12
_ARGUMENTS = (
    "command",
    "cmd",
    "file_path",
    "path",
    "pattern",
    "query",
    "url",
    "prompt",
    "description",
)
_LONGEST = 400
_UNSAID = QUIET | {"native"}
"""Notes that are for machines."""


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
    calls = _Calls()
    for event in events:
        lines = [line.expandtabs(4) for line in _lines(event, calls.answered_by(event))]
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
    is_bad = data.get("is_error") is True or data.get("rejected") is True or code not in (None, 0)
    return str(object_of(event.get("links")).get("parent_id") or ""), is_bad


class _Calls:
    """Which tool a result is of, where that is not the call right before it."""

    def __init__(self) -> None:
        self._tools: dict[str, str] = {}
        self._last = ""

    def answered_by(self, event: Event) -> str:
        """The tool of a result that comes later than its call; nothing for all other events."""
        name, kind = str(object_of(event.get("links")).get("call_id") or ""), event.get("type")
        if kind == "tool_use":
            data = object_of(object_of(event.get("content")).get("data"))
            self._tools[name], self._last = _cut(str(data.get("tool_name"))), name
        if kind != "tool_result":
            return ""
        tool, is_next = self._tools.pop(name, ""), name == self._last
        self._last = ""
        return "" if is_next else tool


def _kind(event: Event) -> str:
    role, kind = event.get("role"), event.get("type")
    if kind != "message":
        return str(kind)
    # A user who is not public is the runtime itself, speaking in the user's place.
    told = "system" if role == "user" and speaker(event) == "system" else str(role)
    return {"user": "prompt", "assistant": "answer"}.get(told, told)


def _lines(event: Event, tool: str) -> Iterator[str]:
    content, kind = object_of(event.get("content")), event.get("type")
    if kind == "message":
        yield from _message(event, content)
    elif kind == "tool_use":
        data = object_of(content.get("data"))
        yield f"  > {data.get('tool_name')}  {_in_short(data.get('arguments'))}"
    elif kind == "tool_result":
        yield from _result(content, tool)
    elif kind == "span_start":
        data = object_of(content.get("data"))
        yield f"  [ {data.get('kind') or 'subagent'}  {_cut(str(data.get('spawn_reason') or ''))}".rstrip()
    elif kind == "span_end":
        yield "  ]"
    elif kind == "annotation":
        yield from _note(object_of(content.get("data")))


def _note(data: dict[str, Any]) -> Iterator[str]:
    """What the runtime wrote down of the course of things: that it was stopped, shortened its
    context, failed."""
    kind = data.get("kind")
    if isinstance(kind, str) and kind not in _UNSAID:
        told = (data.get(name) for name in ("text", "message", "detail", "summary", "reason"))
        words = next((word for word in told if isinstance(word, str)), "")
        yield f"  # {_cut(kind.replace('_', ' '))}  {_cut(words)}".rstrip()


def _message(event: Event, content: dict[str, Any]) -> Iterator[str]:
    text = content.get("text")
    lines = (text if isinstance(text, str) else flat(content.get("data"))).splitlines() or [""]
    role = event.get("role")
    if role in ("system", "developer"):
        yield f"# {role} prompt, {_counted(lines)}"
        return
    if role == "user" and speaker(event) == "system":
        yield f"  # {_cut(lines[0])}{f' ... {len(lines) - 1:,} more' if len(lines) > 1 else ''}"
        return
    first, rest = {"user": ("you ", "    "), "assistant_thought": ("  ~ ", "    ")}.get(
        str(role), ("  ", "  ")
    )
    for number, line in enumerate(lines):
        yield (rest if number else first) + line


def _result(content: dict[str, Any], tool: str) -> Iterator[str]:
    of = f" of {tool}" if tool else ""
    data, text = content.get("data"), content.get("text")
    if object_of(data).get("missing_result") is True:
        yield f"    = no result{of}"
        return
    lines = (
        output_of({"content": content})[0] if isinstance(text, str) else flat(data)
    ).splitlines()
    if not lines and any(map(is_media, data if isinstance(data, list) else [data])):
        yield f"    = an image or a file{of}"
        return
    yield f"    = {_counted(lines)}{of}"
    yield from (f"      {line}" for line in lines[:_RESULT_LINES])
    if len(lines) > _RESULT_LINES:
        yield f"      ... {len(lines) - _RESULT_LINES:,} more"


def _counted(lines: list[str]) -> str:
    return f"{len(lines):,} {'line' if len(lines) == 1 else 'lines'}"


def _in_short(arguments: Any) -> str:
    """The argument that tells most, on one line."""
    given = object_of(arguments)
    told = next((given[name] for name in _ARGUMENTS if name in given), arguments)
    words = (
        told
        if isinstance(told, str)
        else " ".join(map(str, told))
        if isinstance(told, list)
        else flat(told)
    )
    return _cut(words)


def _cut(text: str) -> str:
    line = " ".join(text[: 2 * _LONGEST].split())
    return line if len(line) <= _LONGEST else line[:_LONGEST] + "..."
