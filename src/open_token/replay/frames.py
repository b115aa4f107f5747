"""A conversation as frames for a terminal player: one per event, with its time and a few lines."""

from collections.abc import Iterator
from typing import Any

import msgspec

from open_token.jsontools.objects import as_object, get_data
from open_token.jsontools.timestamps import to_epoch_ms
from open_token.model.document import Event, Export
from open_token.replay.text import flatten_text, is_media
from open_token.writers.rows import split_output
from open_token.writers.timeline import MACHINE_NOTES, classify_message

_MAX_RESULT_LINES = 12
_MAX_LINE = 400
_HIDDEN_NOTES = MACHINE_NOTES | {"native"}
_SUMMARY_ARGUMENTS = (
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


class Frame(msgspec.Struct):
    """What is shown of one event."""

    seq: int
    at: int | None
    """Milliseconds since the beginning, where the record has times."""
    kind: str
    lines: list[str]
    is_error: bool = False


def build_frames(document: Export) -> list[Frame]:
    """Return a frame for every event that has something to show, in order."""
    events = document.get("events", [])
    # That a result failed is said by an annotation after it, so that they are collected first.
    failed_results = {_get_failed_result(event) for event in events}
    failed_results.discard("")
    start = _find_first_time(events)
    frames: list[Frame] = []
    tracker = _CallTracker()
    for event in events:
        tool = tracker.get_late_tool(event)
        lines = [line.expandtabs(4) for line in _render_lines(event, tool)]
        if not lines:
            continue
        time = to_epoch_ms(event.get("ts"))
        seq = event.get("seq")
        event_id = str(event.get("id"))
        frames.append(
            Frame(
                seq=seq if type(seq) is int else 0,
                at=time - start if time and start else None,
                kind=_get_kind(event),
                lines=lines,
                is_error=event_id in failed_results,
            )
        )
    return frames


def _find_first_time(events: list[Event]) -> int | None:
    for event in events:
        time = to_epoch_ms(event.get("ts"))
        if time:
            return time
    return None


def _get_failed_result(event: Event) -> str:
    """Return the id of the result that an annotation marks as failed, else an empty string."""
    data = get_data(event)
    if event.get("type") != "annotation" or data.get("kind") != "result_facts":
        return ""
    exit_code = data.get("exit_code", data.get("exit"))
    is_failed = data.get("is_error") is True or data.get("rejected") is True
    if not is_failed and exit_code in (None, 0):
        return ""
    return str(as_object(event.get("links")).get("parent_id") or "")


class _CallTracker:
    """Finds the tool of a result that does not directly follow its call."""

    def __init__(self) -> None:
        self._tools: dict[str, str] = {}
        self._last_call = ""

    def get_late_tool(self, event: Event) -> str:
        """Return the tool of a result that comes later than its call, else an empty string."""
        kind = event.get("type")
        call_id = str(as_object(event.get("links")).get("call_id") or "")
        if kind == "tool_use":
            self._tools[call_id] = _cut_line(str(get_data(event).get("tool_name")))
            self._last_call = call_id
        if kind != "tool_result":
            return ""
        tool = self._tools.pop(call_id, "")
        follows_call = call_id == self._last_call
        self._last_call = ""
        return "" if follows_call else tool


def _get_kind(event: Event) -> str:
    kind = event.get("type")
    if kind != "message":
        return str(kind)
    role = str(event.get("role"))
    if role == "user":
        if _is_internal(event):
            return "system"
        return "prompt"
    return "answer" if role == "assistant" else role


def _is_internal(event: Event) -> bool:
    """Return whether the runtime wrote a message of the user role."""
    return event.get("role") == "user" and classify_message(event) == "system"


def _render_lines(event: Event, tool: str) -> Iterator[str]:
    kind = event.get("type")
    content = as_object(event.get("content"))
    data = as_object(content.get("data"))
    if kind == "message":
        yield from _render_message(event, content)
    elif kind == "tool_use":
        yield f"  > {data.get('tool_name')}  {_summarize_arguments(data.get('arguments'))}"
    elif kind == "tool_result":
        yield from _render_result(content, tool)
    elif kind == "span_start":
        reason = _cut_line(str(data.get("spawn_reason") or ""))
        yield f"  [ {data.get('kind') or 'subagent'}  {reason}".rstrip()
    elif kind == "span_end":
        yield "  ]"
    elif kind == "annotation":
        yield from _render_note(data)


def _render_note(data: dict[str, Any]) -> Iterator[str]:
    kind = data.get("kind")
    if not isinstance(kind, str) or kind in _HIDDEN_NOTES:
        return
    text = ""
    for name in ("text", "message", "detail", "summary", "reason"):
        value = data.get(name)
        if isinstance(value, str):
            text = value
            break
    label = kind.replace("_", " ")
    yield f"  # {_cut_line(label)}  {_cut_line(text)}".rstrip()


def _render_message(event: Event, content: dict[str, Any]) -> Iterator[str]:
    text = content.get("text")
    if not isinstance(text, str):
        text = flatten_text(content.get("data"))
    lines = text.splitlines() or [""]
    role = event.get("role")
    if role in ("system", "developer"):
        yield f"# {role} prompt, {_count_lines(lines)}"
        return
    if _is_internal(event):
        more = f" ... {len(lines) - 1:,} more" if len(lines) > 1 else ""
        yield f"  # {_cut_line(lines[0])}{more}"
        return
    first_indent = "  "
    indent = "  "
    if role == "user":
        first_indent = "you "
        indent = "    "
    elif role == "assistant_thought":
        first_indent = "  ~ "
        indent = "    "
    yield first_indent + lines[0]
    for line in lines[1:]:
        yield indent + line


def _render_result(content: dict[str, Any], tool: str) -> Iterator[str]:
    of_tool = f" of {tool}" if tool else ""
    data = content.get("data")
    if as_object(data).get("missing_result") is True:
        yield f"    = no result{of_tool}"
        return
    if isinstance(content.get("text"), str):
        text = split_output({"content": content})[0]
    else:
        text = flatten_text(data)
    lines = text.splitlines()
    blocks = data if isinstance(data, list) else [data]
    if not lines and any(map(is_media, blocks)):
        yield f"    = an image or a file{of_tool}"
        return
    yield f"    = {_count_lines(lines)}{of_tool}"
    for line in lines[:_MAX_RESULT_LINES]:
        yield f"      {line}"
    if len(lines) > _MAX_RESULT_LINES:
        yield f"      ... {len(lines) - _MAX_RESULT_LINES:,} more"


def _count_lines(lines: list[str]) -> str:
    return f"{len(lines):,} {'line' if len(lines) == 1 else 'lines'}"


def _summarize_arguments(arguments: Any) -> str:
    """Return the argument that says most, on one line."""
    fields = as_object(arguments)
    value = next((fields[name] for name in _SUMMARY_ARGUMENTS if name in fields), arguments)
    if isinstance(value, list):
        return _cut_line(" ".join(map(str, value)))
    return _cut_line(flatten_text(value))


def _cut_line(text: str) -> str:
    line = " ".join(text[: 2 * _MAX_LINE].split())
    if len(line) <= _MAX_LINE:
        return line
    return line[:_MAX_LINE] + "..."
