"""The one line that says what a call did: verb, object, outcome."""

import re
from datetime import UTC, datetime
from typing import Any

import msgspec

from open_token.pages._escaped import one_line
from open_token.pages._patches import Change, of_patch, of_texts
from open_token.pages._terminal import without_colours
from open_token.pages._tools import (
    BODIES,
    COMMANDS,
    NEWS,
    OLDS,
    PATCHES,
    PATHS,
    PATTERNS,
    kind_of,
    word,
)
from open_token.pages.story import Item, data_of

_AWAY = re.compile(r"\s*cd\s+[^&;|\n]{1,200}&&\s*")
_DONE = ("completed", "done", "complete")
_VERBS = {"plan": "Plan"}
_WORDS = ("text", "input_text", "output_text")
_CODEX = {"output", "metadata"}


class Row(msgspec.Struct):
    """A call as a reader sees it."""

    kind: str
    verb: str
    target: str
    outcome: list[str]
    failed: bool
    missing: bool
    output: str
    """The result as text."""
    blocks: list[Any]
    """What of the result is no text: images and such."""
    changes: list[Change]
    arguments: Any


def row_of(item: Item) -> Row:
    """What a call did."""
    is_call = item.kind == "call"
    tool = str(item.data.get("tool_name") or "tool") if is_call else "result"
    arguments = item.data.get("arguments") if is_call else None
    kind = kind_of(tool, arguments)
    output, blocks = output_of(item.result) if item.result else ("", [])
    missing = item.result is None or data_of(item.result).get("missing_result") is True
    failed = is_failed(item)
    changes = changes_of(kind, arguments) if kind in ("edit", "write") else []
    row = Row(
        kind, _VERBS.get(kind, tool), "", [], failed, missing, output, blocks, changes, arguments
    )
    row.target = one_line(without_colours(_target(row, tool)), 200)
    row.outcome = _outcome(row, item)
    return row


def said(event: Any) -> tuple[str, list[Any]]:
    """The words of a message or a result, and what of it is no words."""
    content = event.get("content")
    content = content if isinstance(content, dict) else {}
    text, data = content.get("text"), content.get("data")
    if isinstance(text, str):
        return text, []
    words: list[str] = []
    others: list[Any] = []
    for block in data if isinstance(data, list) else [] if data is None else [data]:
        if isinstance(block, str):
            words.append(block)
        elif (
            isinstance(block, dict) and isinstance(block.get("text"), str) and "base64" not in block
        ):
            words.append(block["text"])
            others += [rest] if (rest := _beside(block)) else []
        elif isinstance(block, dict) and isinstance(block.get("output"), str):
            words.append(block["output"])
            others += [rest] if (rest := {k: v for k, v in block.items() if k != "output"}) else []
        else:
            others.append(block)
    return "\n".join(words), others


def output_of(result: Any) -> tuple[str, list[Any]]:
    """The words of a result, and what of it is no words."""
    text, blocks = said(result)
    # Codex before exec_command: the output as JSON text, beside its facts.
    if text[:10] == '{"output":' and not blocks:
        try:
            parts = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            return text, blocks
        if (
            isinstance(parts, dict)
            and isinstance(parts.get("output"), str)
            and parts.keys() <= _CODEX
        ):
            return said({"content": {"data": parts}})
    return text, blocks


def _beside(block: dict[str, Any]) -> dict[str, Any]:
    """What a block of words says besides its words: that it is one, and how it may be cached, tells
    nobody anything."""
    usual = (
        ("text", "cache_control", "annotations")
        if block.get("annotations") == []
        else ("text", "cache_control")
    )
    told = {key: value for key, value in block.items() if key not in usual and value is not None}
    return {} if told.get("type") in _WORDS and len(told) == 1 else told


def is_failed(item: Item) -> bool:
    """Whether the record itself says that a call failed; nothing is guessed from what it wrote."""
    code = item.facts.get("exit_code")
    return (
        item.facts.get("is_error") is True
        or (type(code) is int and code != 0)
        or item.facts.get("rejected") is True
    )


def changes_of(kind: str, arguments: Any) -> list[Change]:
    """What an edit or a write does to files, as its arguments tell."""
    path = word(arguments, PATHS)
    if kind == "write":
        body = word(arguments, BODIES)
        return [Change(path, of_texts(path, "", body).lines, "written")] if path else []
    if not isinstance(arguments, dict):
        return []
    patches = [change for change in of_patch(word(arguments, PATCHES)) if change.path]
    if patches:
        return patches
    edits = arguments.get("edits")
    pairs = (
        [edit for edit in edits if isinstance(edit, dict)]
        if isinstance(edits, list)
        else [arguments]
    )
    made = [of_texts(path, word(pair, OLDS), word(pair, NEWS)) for pair in pairs]
    return [change for change in made if change.lines]


def _target(row: Row, tool: str) -> str:
    arguments = row.arguments
    if row.kind == "shell":
        return _command(word(arguments, COMMANDS))
    if row.changes:
        paths = list(dict.fromkeys(change.path for change in row.changes))
        return (
            ", ".join(paths)
            if len(paths) < 4
            else f"{len(paths)} files: {', '.join(paths[:3])}, ..."
        )
    if row.kind == "read":
        return f"{word(arguments, PATHS) or first_word(arguments)}{_range(arguments)}"
    if row.kind == "search":
        where = word(arguments, PATHS)
        pattern = word(arguments, PATTERNS)
        return (
            f"{pattern} in {where}"
            if pattern and where
            else pattern or where or first_word(arguments)
        )
    if row.kind == "plan":
        return _current(plan_of(arguments))
    if row.kind == "web":
        return word(arguments, ("query", "url", "prompt")) or first_word(arguments)
    if row.kind == "agent":
        name = word(arguments, ("subagent_type", "agent_type", "agent", "name"))
        task = word(arguments, ("description", "title", "task", "prompt", "message"))
        return f"{name}: {task}" if name and task else task or name
    if row.kind == "ask":
        return questions_of(arguments)[0][0] if questions_of(arguments) else first_word(arguments)
    return first_word(arguments)


def _command(command: str) -> str:
    """The first line that means something: `bash -lc` and `cd somewhere &&` say little."""
    command = re.sub(r"^\s*(?:/bin/|/usr/bin/)?(?:bash|sh|zsh) -l?c ", "", command[:4000])
    command = _AWAY.sub("", command, count=1)
    lines = [line.strip() for line in command.split("\n")]
    return next((line for line in lines if line and not line.startswith("#")), command)


def _range(arguments: Any) -> str:
    if not isinstance(arguments, dict):
        return ""
    start = next(
        (
            arguments[name]
            for name in ("offset", "start_line", "line")
            if type(arguments.get(name)) is int
        ),
        0,
    )
    count, end = arguments.get("limit"), arguments.get("end_line")
    if type(end) is int:
        return f":{start or 1}-{end}"
    if type(count) is int:
        return f":{start or 1}-{(start or 1) + count - 1}"
    return f":{start}" if start else ""


def first_word(arguments: Any) -> str:
    """The first argument that says something in a line."""
    if isinstance(arguments, dict):
        for value in arguments.values():
            if isinstance(value, str) and value.strip():
                return value[:800]
        shown = [
            f"{key}: {value}" for key, value in arguments.items() if isinstance(value, int | float)
        ]
        return ", ".join(shown[:4])
    return ""


def plan_of(arguments: Any) -> list[tuple[str, str]]:
    """The points of a plan: how far each is, and what it says."""
    if not isinstance(arguments, dict):
        return []
    for name in ("todos", "plan", "items", "tasks", "task_list", "todoList"):
        points = arguments.get(name)
        if isinstance(points, list):
            told = [point for point in points if isinstance(point, dict)]
            names = ("content", "step", "title", "description", "text", "task")
            return [(word(point, ("status", "state")), word(point, names)) for point in told]
    return []


def _current(points: list[tuple[str, str]]) -> str:
    now = next((text for status, text in points if status.replace("-", "_") == "in_progress"), "")
    if now or not points:
        return now
    return "all done" if all(status in _DONE for status, _ in points) else points[0][1]


def is_done(status: str) -> bool:
    """Whether a point of a plan is done."""
    return status in _DONE


def questions_of(arguments: Any) -> list[tuple[str, list[str]]]:
    """What a person was asked, with the choices."""
    if not isinstance(arguments, dict):
        return []
    asked = arguments.get("questions")
    many = (
        [one for one in asked if isinstance(one, dict)] if isinstance(asked, list) else [arguments]
    )
    made: list[tuple[str, list[str]]] = []
    for one in many:
        text = word(one, ("question", "prompt", "plan", "message", "text"))
        options = one.get("options")
        labels = [word(option, ("label", "text", "value")) if isinstance(option, dict) else str(option)
                  for option in options] if isinstance(options, list) else []  # fmt: skip
        if text:
            made.append((text, labels))
    return made


def _outcome(row: Row, item: Item) -> list[str]:
    """What stands at the right of a row."""
    made: list[str] = []
    if row.failed:
        made.append("rejected" if item.facts.get("rejected") is True else "failed")
        code = item.facts.get("exit_code")
        made += [f"exit {code}"] if type(code) is int and code != 0 else []
    elif row.missing:
        made.append("no result recorded")
    if row.changes:
        added, removed = sum(c.added for c in row.changes), sum(c.removed for c in row.changes)
        made.append(f"+{added:,} -{removed:,}")
    elif row.kind == "plan" and (points := plan_of(row.arguments)):
        made.append(f"{sum(is_done(status) for status, _ in points)}/{len(points)} done")
    elif row.kind in ("read", "search", "shell") and row.output.strip() and not row.failed:
        lines = row.output.strip().count("\n") + 1
        made.append(f"{lines:,} lines" if lines > 1 else "1 line")
    if (seconds := seconds_of(item)) is not None:
        made.append(duration(seconds))
    return made


def seconds_of(item: Item) -> float | None:
    """How long a call took: as its result says, or else between the times of the two."""
    for name, scale in (("duration_ms", 1000), ("duration_seconds", 1)):
        told = item.facts.get(name)
        if isinstance(told, int | float) and not isinstance(told, bool) and 0 <= told < 1e12:
            return told / scale
    if item.result is None:
        return None
    start, end = moment(item.event), moment(item.result)
    return (
        end - start
        if start is not None and end is not None and end >= start and item.kind == "call"
        else None
    )


def moment(event: Any) -> float | None:
    """When an event was, in seconds since 1970."""
    ts = event.get("ts")
    if not isinstance(ts, str) or len(ts) > 40:
        return None
    try:
        told = datetime.fromisoformat(ts)
        return (told if told.tzinfo else told.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def plural(number: int, noun: str) -> str:
    """A count and its noun."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def duration(seconds: float) -> str:
    """A length of time as a person says it."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    if seconds < 3570:
        return f"{seconds / 60:.0f} min"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours:,} h {minutes:02d} min" if hours < 48 else f"{hours / 24:,.0f} days"
