"""Fold transcripts of Antigravity: what was typed, answers, thoughts, calls and their results.

Calls have no ids: a result is that of the first call of the last step of the model without one. What
is stored cut short is taken from the step of the same number in the full transcript.
"""

import json
import re
from pathlib import Path
from typing import Any

from compare_readers.common import MAIN, Fold, describe_call, describe_result, dump, read_json_lines

_REQUEST = re.compile(r"\A.*?<USER_REQUEST>(.*)</USER_REQUEST>.*\Z", re.DOTALL)
_ADDED = re.compile(r"<ADDITIONAL_METADATA>|<USER_SETTINGS_CHANGE>")
_FULL = "transcript_full.jsonl"


def is_session(path: Path) -> bool:
    """Return whether a file is a transcript, of which the full one may lie beside."""
    return path.name == "transcript.jsonl"


def fold_session(path: Path) -> Fold:
    """Fold one transcript."""
    # A golden case is the folder of a conversation.
    if path.is_dir():
        path = next(path.rglob("transcript.jsonl"))
    full = path.with_name(_FULL)
    whole = list(read_json_lines(full)) if full.is_file() else []
    fold = Fold()
    open_calls: list[int] = []
    items: list[tuple[str, str, bool]] = []
    for position, step in enumerate(read_json_lines(path)):
        if position < len(whole):
            step = _complete(step, whole[position])
        kind = step.get("type")
        content = step.get("content") or ""
        if kind == "USER_INPUT":
            items.append(("human", _find_typed(content), True))
        elif kind == "PLANNER_RESPONSE":
            open_calls = []
            for name, text in (("thought", step.get("thinking")), ("answer", content)):
                items += [(name, text, True)] if text else []
            for call in step.get("tool_calls") or ():
                open_calls.append(len(items))
                arguments = _decode(call.get("args") or {})
                items.append(("call", describe_call(None, call["name"], arguments), False))
        elif step.get("source") == "MODEL":
            # A result without a call is none of the conversation's.
            if open_calls:
                call_position = open_calls.pop(0)
                items[call_position] = (*items[call_position][:2], True)
                items.append(("result", describe_result(None, content), True))
        elif content or step.get("error"):
            text = content or step["error"]
            items.append(("client", text if isinstance(text, str) else dump(text), True))
    for name, text, is_complete in items:
        if text:
            fold.add(MAIN, name, text)
        if not is_complete:
            fold.add(MAIN, "missing", "None")
    return fold


def _complete(step: dict[str, Any], full: dict[str, Any]) -> dict[str, Any]:
    """Return a step with its cut fields as they are in the full transcript."""
    is_same = all(step.get(name) == full.get(name) for name in ("step_index", "type"))
    if not is_same or full.get("truncated_fields"):
        return step
    names = step.get("truncated_fields") or ()
    return step | {name: full[name] for name in names if name in full}


def _find_typed(content: str) -> str:
    match = _REQUEST.match(content)
    return match[1].strip() if match else _ADDED.split(content)[0].strip()


def _decode(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return arguments that are each JSON in a string, decoded; others as they are."""
    try:
        return {name: json.loads(value) for name, value in arguments.items()}
    except (TypeError, ValueError):
        return arguments
