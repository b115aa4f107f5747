"""The one-line summary of a tool call: verb, target, outcome."""

import re
from datetime import UTC, datetime
from typing import Any

import msgspec

from open_token.agents.tools import (
    COMMAND,
    CONTENT,
    DIRECTORY,
    NEW_TEXT,
    OLD_TEXT,
    PATCH,
    PATH,
    PATTERN,
    PLAN,
    find_text,
    guess_action,
)
from open_token.jsontools.objects import get_data, omit_keys
from open_token.model.titles import normalize_title
from open_token.writers.escape import to_one_line
from open_token.writers.line_diff import FileChange, parse_patch
from open_token.writers.terminal import strip_escapes
from open_token.writers.timeline import Item

_KINDS = {
    "run": "shell",
    "run_code": "shell",
    "shell_input": "shell",
    "shell_output": "shell",
    "read": "read",
    "read_many": "read",
    "read_notebook": "read",
    "view_image": "read",
    "edit": "edit",
    "multi_edit": "edit",
    "patch": "edit",
    "insert": "edit",
    "edit_notebook": "edit",
    "write": "write",
    "search": "search",
    "semantic_search": "search",
    "find": "search",
    "list": "search",
    "fetch": "web",
    "web_search": "web",
    "delegate": "agent",
    "plan": "plan",
    "read_plan": "plan",
    "ask": "ask",
}
"""By action: the kind of row, which decides how a call is rendered."""

_SHELL_PREFIX = re.compile(r"^\s*(?:/bin/|/usr/bin/)?(?:bash|sh|zsh) -l?c ")
_CD_PREFIX = re.compile(r"\s*cd\s+[^&;|\n]{1,200}&&\s*")
_DONE_STATES = ("completed", "done", "complete")
_TEXT_BLOCK_TYPES = ("text", "input_text", "output_text")
_CODEX_OUTPUT_KEYS = {"output", "metadata"}
_MAX_PATHS = 3
_PLAN_TEXTS = ("content", "step", "title", "description", "text", "task")


class Row(msgspec.Struct):
    """A call as a reader sees it."""

    kind: str
    verb: str
    target: str
    outcome: list[str]
    failed: bool
    missing: bool
    output: str
    """The text of the result."""
    blocks: list[Any]
    """What of the result is not text, for instance images."""
    changes: list[FileChange]
    arguments: Any


def build_row(item: Item) -> Row:
    """Return the summary of a call, or of a result without its call."""
    tool = "result"
    arguments = None
    if item.kind == "call":
        tool = str(item.data.get("tool_name") or "tool")
        arguments = item.data.get("arguments")
    kind = classify_tool(tool, arguments)
    output = ""
    blocks: list[Any] = []
    if item.result:
        output, blocks = split_output(item.result)
    is_missing = item.result is None or get_data(item.result).get("missing_result") is True
    changes = parse_changes(kind, arguments) if kind in ("edit", "write") else []
    row = Row(
        kind=kind,
        verb="Plan" if kind == "plan" else tool,
        target="",
        outcome=[],
        failed=is_failed(item),
        missing=is_missing,
        output=output,
        blocks=blocks,
        changes=changes,
        arguments=arguments,
    )
    # Both look at the changes and the output of the row, and are therefore filled in last.
    row.target = to_one_line(strip_escapes(_find_target(row)), 200)
    row.outcome = _describe_outcome(row, item)
    return row


def classify_tool(tool: str, arguments: Any) -> str:
    """Return shell, edit, write, read, search, plan, web, agent or ask; empty where unknown."""
    action = guess_action(tool, arguments)
    return _KINDS[action] if action else ""


def split_content(event: Any) -> tuple[str, list[Any]]:
    """Return the text of a message or a result, and its blocks that are not text."""
    content = event.get("content")
    if not isinstance(content, dict):
        return "", []
    text = content.get("text")
    if isinstance(text, str):
        return text, []
    data = content.get("data")
    if data is None:
        return "", []
    texts: list[str] = []
    others: list[Any] = []
    blocks = data if isinstance(data, list) else [data]
    for block in blocks:
        if isinstance(block, str):
            texts.append(block)
            continue
        name = _find_text_field(block)
        if name is None:
            others.append(block)
            continue
        texts.append(block[name])
        # What a block says beside its text, such as citations, is shown, too.
        rest = _drop_text(block, name)
        if rest:
            others.append(rest)
    return "\n".join(texts), others


def _find_text_field(block: Any) -> str | None:
    if not isinstance(block, dict):
        return None
    if isinstance(block.get("text"), str) and "base64" not in block:
        return "text"
    if isinstance(block.get("output"), str):
        return "output"
    return None


def _drop_text(block: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a text block without its text, and without fields that say nothing."""
    if name == "output":
        return omit_keys(block, name)
    rest: dict[str, Any] = {}
    for key, value in block.items():
        is_empty = value is None or (key == "annotations" and value == [])
        if key not in (name, "cache_control") and not is_empty:
            rest[key] = value
    if len(rest) == 1 and rest.get("type") in _TEXT_BLOCK_TYPES:
        return {}
    return rest


def split_output(result: Any) -> tuple[str, list[Any]]:
    """Return the text of a result, and its blocks that are not text."""
    text, blocks = split_content(result)
    # Codex before exec_command: the output as JSON text, together with its metadata.
    if text[:10] != '{"output":' or blocks:
        return text, blocks
    try:
        parts = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text, blocks
    if not isinstance(parts, dict) or not isinstance(parts.get("output"), str):
        return text, blocks
    if not parts.keys() <= _CODEX_OUTPUT_KEYS:
        return text, blocks
    return split_content({"content": {"data": parts}})


def is_failed(item: Item) -> bool:
    """Return whether the record says that a call failed; output is not interpreted."""
    if item.facts.get("is_error") is True or item.facts.get("rejected") is True:
        return True
    exit_code = item.facts.get("exit_code")
    return type(exit_code) is int and exit_code != 0


def parse_changes(kind: str, arguments: Any) -> list[FileChange]:
    """Return what an edit or a write does to files, according to its arguments."""
    path = find_text(arguments, PATH)
    if kind == "write":
        content = find_text(arguments, CONTENT)
        if not path:
            return []
        return [FileChange(path, new=content, verb="written")]
    if not isinstance(arguments, dict):
        return []
    patched = [change for change in parse_patch(find_text(arguments, PATCH)) if change.path]
    if patched:
        return patched
    edits = arguments.get("edits")
    if isinstance(edits, list):
        edits = [edit for edit in edits if isinstance(edit, dict)]
    else:
        edits = [arguments]
    changes = [
        FileChange(path, find_text(edit, OLD_TEXT), find_text(edit, NEW_TEXT)) for edit in edits
    ]
    return [change for change in changes if change.runs]


def _find_target(row: Row) -> str:
    arguments = row.arguments
    if row.kind == "shell":
        return _summarize_command(find_text(arguments, COMMAND))
    if row.changes:
        return _list_paths(row.changes)
    if row.kind == "read":
        path = find_text(arguments, PATH) or first_text(arguments)
        return path + _describe_range(arguments)
    if row.kind == "search":
        return _describe_search(arguments)
    if row.kind == "plan":
        return _find_current_step(parse_plan(arguments))
    if row.kind == "web":
        return find_text(arguments, ("query", "url", "prompt")) or first_text(arguments)
    if row.kind == "agent":
        name = find_text(arguments, ("subagent_type", "agent_type", "agent", "name"))
        task = find_text(arguments, ("description", "title", "task", "prompt", "message"))
        if name and task:
            return f"{name}: {task}"
        return task or name
    if row.kind == "ask":
        questions = parse_questions(arguments)
        if questions:
            return normalize_title(questions[0][0])
        return first_text(arguments)
    return first_text(arguments)


def _list_paths(changes: list[FileChange]) -> str:
    paths = list(dict.fromkeys(change.path for change in changes))
    if len(paths) <= _MAX_PATHS:
        return ", ".join(paths)
    first_paths = ", ".join(paths[:_MAX_PATHS])
    return f"{len(paths)} files: {first_paths}, ..."


def _describe_search(arguments: Any) -> str:
    pattern = find_text(arguments, PATTERN)
    directory = find_text(arguments, DIRECTORY)
    if pattern and directory:
        return f"{pattern} in {directory}"
    return pattern or directory or first_text(arguments)


def _summarize_command(command: str) -> str:
    """Return the first line that says something, without `bash -lc` and `cd somewhere &&`."""
    command = _SHELL_PREFIX.sub("", command[:4000])
    command = _CD_PREFIX.sub("", command, count=1)
    for line in command.split("\n"):
        line = line.strip()
        if line and not line.startswith("#"):
            return line
    return command


def _describe_range(arguments: Any) -> str:
    """Return the lines that a call reads, as `:start-end`."""
    if not isinstance(arguments, dict):
        return ""
    start = 0
    for name in ("offset", "start_line", "line"):
        value = arguments.get(name)
        if type(value) is int:
            start = value
            break
    count = arguments.get("limit")
    end = arguments.get("end_line")
    first = start or 1
    if type(end) is int:
        return f":{first}-{end}"
    if type(count) is int:
        return f":{first}-{first + count - 1}"
    return f":{start}" if start else ""


def first_text(arguments: Any) -> str:
    """Return the first argument that is a text, else the first numbers with their names."""
    if not isinstance(arguments, dict):
        return ""
    for value in arguments.values():
        if isinstance(value, str) and value.strip():
            return value[:800]
    numbers = [
        f"{name}: {value}" for name, value in arguments.items() if isinstance(value, int | float)
    ]
    return ", ".join(numbers[:4])


def parse_plan(arguments: Any) -> list[tuple[str, str]]:
    """Return the steps of a plan as pairs of state and text."""
    if not isinstance(arguments, dict):
        return []
    for name in PLAN:
        steps = arguments.get(name)
        if isinstance(steps, list):
            return [
                (find_text(step, ("status", "state")), find_text(step, _PLAN_TEXTS))
                for step in steps
                if isinstance(step, dict)
            ]
    return []


def _find_current_step(steps: list[tuple[str, str]]) -> str:
    for status, text in steps:
        if is_in_progress(status) and text:
            return text
    if not steps:
        return ""
    if all(is_done(status) for status, _ in steps):
        return "all done"
    return steps[0][1]


def is_done(status: str) -> bool:
    """Return whether the state of a plan step means done."""
    return status in _DONE_STATES


def is_in_progress(status: str) -> bool:
    """Return whether the state of a plan step means in progress."""
    return status.replace("-", "_") == "in_progress"


def parse_questions(arguments: Any) -> list[tuple[str, list[str]]]:
    """Return the questions that a person was asked, each with its options."""
    if not isinstance(arguments, dict):
        return []
    entries = arguments.get("questions")
    if not isinstance(entries, list):
        entries = [arguments]
    questions: list[tuple[str, list[str]]] = []
    for entry in entries:
        text = find_text(entry, ("question", "prompt", "plan", "message", "text"))
        if not text:
            continue
        options = entry.get("options")
        labels = []
        if isinstance(options, list):
            labels = [_get_label(option) for option in options]
        questions.append((text, labels))
    return questions


def _get_label(option: Any) -> str:
    if isinstance(option, dict):
        return find_text(option, ("label", "text", "value"))
    return str(option)


def _describe_outcome(row: Row, item: Item) -> list[str]:
    """Return the facts at the right of a row."""
    outcome: list[str] = []
    if row.failed:
        outcome.append("rejected" if item.facts.get("rejected") is True else "failed")
        exit_code = item.facts.get("exit_code")
        if type(exit_code) is int and exit_code != 0:
            outcome.append(f"exit {exit_code}")
    elif row.missing:
        outcome.append("no result recorded")
    steps = parse_plan(row.arguments) if row.kind == "plan" else []
    if row.changes:
        added = sum(change.added for change in row.changes)
        removed = sum(change.removed for change in row.changes)
        outcome.append(f"+{added:,} -{removed:,}")
    elif steps:
        done = sum(is_done(status) for status, _ in steps)
        outcome.append(f"{done}/{len(steps)} done")
    elif row.kind in ("read", "search", "shell") and row.output.strip() and not row.failed:
        outcome.append(format_count(row.output.strip().count("\n") + 1, "line"))
    seconds = get_duration(item)
    if seconds is not None:
        outcome.append(format_duration(seconds))
    return outcome


def get_duration(item: Item) -> float | None:
    """Return the seconds that a call took: as recorded, else between call and result."""
    for name, scale in (("duration_ms", 1000), ("duration_seconds", 1)):
        value = item.facts.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if 0 <= value < 1e12:
            return value / scale
    if item.result is None or item.kind != "call":
        return None
    start = parse_time(item.event)
    end = parse_time(item.result)
    if start is None or end is None or end < start:
        return None
    return end - start


def parse_time(event: Any) -> float | None:
    """Return the time of an event in seconds since 1970."""
    ts = event.get("ts")
    if not isinstance(ts, str) or len(ts) > 40:
        return None
    try:
        time = datetime.fromisoformat(ts)
        if time.tzinfo is None:
            time = time.replace(tzinfo=UTC)
        return time.timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def format_count(number: int, noun: str) -> str:
    """Return a count with its noun, as in `1 line` and `2 lines`."""
    if number == 1:
        return f"{number:,} {noun}"
    return f"{number:,} {noun}s"


def format_duration(seconds: float) -> str:
    """Return a duration for people, as in `2.0 s`, `5 min` and `1 h 10 min`."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    if seconds < 3570:
        return f"{seconds / 60:.0f} min"
    hours, minutes = divmod(round(seconds / 60), 60)
    if hours < 48:
        return f"{hours:,} h {minutes:02d} min"
    return f"{hours / 24:,.0f} days"
