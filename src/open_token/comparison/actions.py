"""What a tool call does, whatever its tool is called: action, target, changed files and lines."""

import re
import shlex
from collections import Counter
from functools import lru_cache
from typing import Any

import msgspec

from open_token.agents.tools import (
    ARGUMENTS,
    CONTENT,
    NEW_TEXT,
    OLD_TEXT,
    PATCH,
    find_action,
)

# Only actions that many agents have are compared by what they do. Any other tool is compared by its
# name, which is never wrong, while a wrong action would hide a difference.
_ACTIONS = {
    "run": "run",
    "read": "read",
    "edit": "edit",
    "multi_edit": "edit",
    "patch": "edit",
    "insert": "edit",
    "write": "write",
    "search": "search",
    "find": "find",
    "list": "list",
    "fetch": "fetch",
    "web_search": "look_up",
    "delegate": "delegate",
    "plan": "plan",
}
"""By action of the vocabulary: its name in reports."""

COMMENT_ARGUMENTS = frozenset(
    (
        "description",
        "explanation",
        "justification",
        "summary",
        "security_risk",
        "task_progress",
    )
)
"""Arguments in which a model comments on a call."""

_PATCH_FILE = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.+)$", re.MULTILINE)
_CD_PREFIX = re.compile(r"^cd (\S+|'[^']*'|\"[^\"]*\") ?&& ?")
_MAX_FILES = 100
_MAX_COMMAND = 400
_SIMPLE_COMMAND = re.compile(r"[^|&;<>`$\n()]+")
_SED_RANGE = re.compile(r"\d+(?:,\d+)?p")


class Action(msgspec.Struct, frozen=True):
    """What a call does to what. An unknown tool is an action by its own name without a target."""

    name: str
    target: str
    known: bool
    argument: str = ""
    """The argument that holds the target."""
    files: tuple[str, ...] = ()
    """The files it changes."""
    shown: str = ""
    """The original command, where the target is derived from it."""


def parse_action(tool: str, arguments: Any, cwd: str) -> Action:
    """Return the action of a call, with paths relative to the working directory."""
    vocabulary_action = find_action(tool, arguments)
    name = _ACTIONS.get(vocabulary_action) if vocabulary_action else None
    if vocabulary_action is None or name is None:
        return Action(tool, "", known=False)
    fields = arguments if isinstance(arguments, dict) else {}
    if name == "edit":
        paths = _find_patched_paths(fields)
        if paths:
            return _build_patch_action(paths, _find_patch(fields), cwd)
    argument, target = _find_target(vocabulary_action, name, fields, cwd)
    files = (target,) if target and name in ("edit", "write") else ()
    return Action(name, target, known=True, argument=argument, files=files)


def _build_patch_action(paths: list[str], patch: str, cwd: str) -> Action:
    """Return the action of a patch, whose target are all of its files."""
    files = tuple(to_relative_path(path, cwd) for path in paths[:_MAX_FILES])
    target = " ".join(files)
    # Other agents have a tool of its own for new files, which a patch must be comparable with.
    only_adds = "*** Add File" in patch and "*** Update File" not in patch
    name = "write" if only_adds else "edit"
    return Action(name, target, known=True, files=files)


def _find_patched_paths(arguments: dict[str, Any]) -> list[str]:
    """Return the files of a patch, or of an object of changes by file."""
    changes = arguments.get("changes")
    if isinstance(changes, dict):
        return [str(path) for path in changes]
    return [path.strip() for path in _PATCH_FILE.findall(_find_patch(arguments))]


def _find_patch(arguments: dict[str, Any]) -> str:
    for name in PATCH:
        text = arguments.get(name)
        if isinstance(text, str) and "*** Begin Patch" in text:
            return text
    return ""


def _find_target(
    vocabulary_action: str, name: str, arguments: dict[str, Any], cwd: str
) -> tuple[str, str]:
    """Return the argument that holds the target, and the target."""
    if name == "plan":
        return "", ""
    for argument in ARGUMENTS[vocabulary_action][0]:
        value = arguments.get(argument)
        if isinstance(value, list) and name == "run":
            value = _join_command(value)
        if isinstance(value, str) and value:
            if name == "run":
                return argument, _strip_cd(value, cwd)
            return argument, to_relative_path(value, cwd)
    return "", ""


def _join_command(words: list[Any]) -> str:
    """Return a command that was given as a list; of `bash -lc X` the command is X."""
    texts = [word for word in words if isinstance(word, str)]
    if len(texts) == 3 and texts[1] in ("-c", "-lc"):
        return texts[2]
    return " ".join(texts)


def _strip_cd(command: str, cwd: str) -> str:
    """Return a command without a change into the working directory."""
    command = command.strip()
    prefix = _CD_PREFIX.match(command)
    if prefix and cwd and prefix[1].strip("'\"").rstrip("/") == cwd:
        command = command[prefix.end() :]
    return relativize_text(command, cwd)


def to_relative_path(path: str, cwd: str) -> str:
    """Return a path relative to the working directory, where it is inside."""
    if cwd and path.startswith(cwd):
        if path == cwd:
            return "."
        if path[len(cwd)] == "/":
            return path[len(cwd) + 1 :] or "."
    return path.removeprefix("./") or "."


def relativize_text(text: str, cwd: str) -> str:
    """Return a text with the working directory as `.` and its files as relative paths."""
    if not cwd or cwd not in text:
        return text
    return _compile_cwd(cwd).sub(lambda match: "" if match[1] else ".", text)


@lru_cache(maxsize=64)
def _compile_cwd(cwd: str) -> re.Pattern[str]:
    # After a name it is part of a longer path: /usr/app is not inside /app.
    return re.compile(r"(?<![\w.~-])" + re.escape(cwd) + r"(?:(/)(?=[\w.])|(?![\w.-]))")


def extract_changed_lines(arguments: Any) -> tuple[list[str], list[str]]:
    """Return the lines that an edit removes and adds, without unchanged context."""
    fields = arguments if isinstance(arguments, dict) else {}
    removed: Counter[str] = Counter()
    added: Counter[str] = Counter()
    _count_patch_lines(_find_patch(fields), removed, added)
    parts = [fields, *_filter_objects(fields.get("edits"))]
    changes = fields.get("changes")
    if isinstance(changes, dict):
        parts += _filter_objects(list(changes.values()))
    for part in parts:
        _count_lines(part, OLD_TEXT, removed)
        _count_lines(part, (*NEW_TEXT, *CONTENT), added)
    # Edits repeat the lines around a change in the old and in the new text: context, no change.
    only_removed = removed - added
    only_added = added - removed
    return list(only_removed.elements()), list(only_added.elements())


def _filter_objects(value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, list):
        return []
    return [part for part in value if isinstance(part, dict)]


def _count_lines(part: dict[str, Any], names: tuple[str, ...], lines: Counter[str]) -> None:
    for name in names:
        text = part.get(name)
        if not isinstance(text, str):
            continue
        for line in text.splitlines():
            line = line.strip()
            if line:
                lines[line] += 1


def _count_patch_lines(patch: str, removed: Counter[str], added: Counter[str]) -> None:
    for line in patch.splitlines():
        text = line[1:].strip()
        if not text or line.startswith(("+++", "---")):
            continue
        if line[0] == "+":
            added[text] += 1
        elif line[0] == "-":
            removed[text] += 1


def interpret_command(action: Action, cwd: str) -> Action:
    """Return the read, search or list that a simple shell command performs, else the action."""
    if action.name != "run":
        return action
    command = action.target
    is_numbered = "nl -ba " in command
    if is_numbered:
        # `nl -ba FILE | sed -n 1,9p` reads with line numbers.
        command = command.removeprefix("nl -ba ").replace(" | sed -n ", " ")
    if len(command) > _MAX_COMMAND or not _SIMPLE_COMMAND.fullmatch(command):
        return action
    try:
        words = shlex.split(command)
    except ValueError:
        return action
    if is_numbered:
        is_read = len(words) == 2 and _SED_RANGE.fullmatch(words[1])
        name, target = ("read", words[0]) if is_read else ("", "")
    else:
        name, target = _interpret_words(words)
    if not name:
        return action
    return Action(name, to_relative_path(target, cwd), known=True, shown=action.target)


def _interpret_words(words: list[str]) -> tuple[str, str]:
    """Return action and target of a command; empty where it could mean more."""
    if not words:
        return "", ""
    program, *rest = words
    operands = [word for word in rest if not word.startswith("-")]
    if program == "cat" and len(rest) == 1 and operands:
        return "read", operands[0]
    if program == "sed" and len(rest) == 3:
        flag, script, file = rest
        # `sed -n 1,9p` only prints; any other script may change what it prints.
        if flag == "-n" and _SED_RANGE.fullmatch(script):
            return "read", file
        return "", ""
    if program in ("rg", "grep") and 1 <= len(operands) <= 2:
        return "search", operands[0]
    if program == "ls" and not operands:
        return "list", "."
    if program == "ls" and len(operands) == 1:
        return "list", operands[0]
    return "", ""
