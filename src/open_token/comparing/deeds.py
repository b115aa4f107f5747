"""What a call does, whatever its tool is called: deeds that coding agents share, their targets,
what they change."""

import re
from collections import Counter
from functools import lru_cache
from typing import Any

import msgspec

# Agents name the same few deeds each in their own way. Only names whose meaning is plain stand
# here: a tool that is not
# known is compared by its own name, which is never wrong, while a name under a wrong deed would
# hide a difference.
NAMES: dict[str, str] = {
    "run": "bash bash_command exec_command execute_bash execute_command local_shell powershell run run_command"
    " run_shell_command run_terminal_cmd run_terminal_command shell shell_command terminal",
    "read": "open_file read read_file readfile view view_file",
    "edit": "apply_diff apply_patch edit edit_file multiedit patch replace replace_in_file search_replace str_replace"
    " strreplace strreplacefile",
    "write": "create create_file save_file write write_file write_to_file writefile",
    "search": "grep grep_search ripgrep search_file_content search_files",
    "find": "file_search glob glob_file_search",
    "list": "list_dir list_directory list_files ls",
    "fetch": "browse fetch fetchurl web_fetch webfetch",
    "look_up": "google_web_search searchweb web_search websearch",
    "delegate": "agent delegate spawn_agent task",
    "plan": "settodolist todo_write todowrite update_plan write_todos",
}
DEEDS = {name: deed for deed, names in NAMES.items() for name in names.split()}
EDITORS = ("str_replace_editor", "str_replace_based_edit_tool", "text_editor", "file_editor")
"""Tools for several deeds, told by their argument `command`."""
COMMANDS = {
    "view": "read",
    "create": "write",
    "str_replace": "edit",
    "insert": "edit",
    "undo_edit": "edit",
}

_PATHS = "file_path path filePath target_file targetFile absolute_path filename file notebook_path".split()
TARGETS: dict[str, list[str]] = {
    "run": "command cmd keystrokes script input".split(),
    "read": _PATHS,
    "edit": _PATHS,
    "write": _PATHS,
    "search": "pattern query regex".split(),
    "find": "pattern query glob_pattern".split(),
    "list": [*_PATHS, "dir_path", "relative_workspace_path"],
    "fetch": ["url"],
    "look_up": ["query", "search_term"],
    "delegate": "prompt message task instructions description".split(),
    "plan": [],
}
ASIDE = frozenset(
    "description explanation justification summary security_risk task_progress".split()
)
"""What a model says about a known deed beside doing it."""

_SUFFIX = re.compile(r"_v\d+$")
_PATCHED = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.+)$", re.MULTILINE)
_WHERE = re.compile(r"^cd (\S+|'[^']*'|\"[^\"]*\") ?&& ?")
_MOST_FILES = 100
_PATCH_PLACES = ("input", "patch", "patchText", "raw", "diff")


class Deed(msgspec.Struct, frozen=True):
    """What a call does to what; an unknown tool does a deed of its own name to all of its
    arguments."""

    name: str
    target: str
    known: bool
    argument: str = ""
    """Which argument the target is, where it is one of them."""
    files: tuple[str, ...] = ()
    """What it changes on the disk."""
    shown: str = ""
    """How it was said, where that is not its target."""


def deed_of(tool: str, arguments: Any, cwd: str) -> Deed:
    """The deed of a call, its target told from the run's own folder."""
    given = arguments if isinstance(arguments, dict) else {}
    command = given.get("command")
    name = _deed(tool, command if isinstance(command, str) else "")
    if not name:
        return Deed(tool, "", known=False)
    if name == "edit" and (paths := _patched(given)):
        files = tuple(here(path, cwd) for path in paths[:_MOST_FILES])
        patch = _patch(given)
        is_new = "*** Add File" in patch and "*** Update File" not in patch
        return Deed("write" if is_new else "edit", " ".join(files), known=True, files=files)
    target, argument = _target(name, given, cwd)
    changed = (target,) if target and name in ("edit", "write") else ()
    return Deed(name, target, known=True, argument=argument, files=changed)


def _patched(given: dict[str, Any]) -> list[str]:
    """The files of a patch, or of changes by file."""
    changes = given.get("changes")
    if isinstance(changes, dict):
        return [str(path) for path in changes]
    return [path.strip() for path in _PATCHED.findall(_patch(given))]


@lru_cache(maxsize=4096)
def _plain(tool: str) -> str:
    """A tool's name without the server or the version that it came from."""
    name = _SUFFIX.sub("", tool.lower()).removeprefix("functions.")
    return name.removeprefix("developer__")


def _deed(tool: str, command: str) -> str | None:
    name = _plain(tool[:200])
    return COMMANDS.get(command) if name in EDITORS else DEEDS.get(name)


def _target(deed: str, given: dict[str, Any], cwd: str) -> tuple[str, str]:
    for name in TARGETS[deed]:
        value = given.get(name)
        if isinstance(value, list) and deed == "run":
            value = _joined(value)
        if isinstance(value, str) and value:
            return (_command(value, cwd) if deed == "run" else here(value, cwd)), name
    return "", ""


def _joined(words: list[Any]) -> str:
    """A command that was given as words; what a shell is given to run is the command."""
    said = [word for word in words if isinstance(word, str)]
    if len(said) == 3 and said[1] in ("-c", "-lc"):
        return said[2]
    return " ".join(said)


def _command(text: str, cwd: str) -> str:
    """A command without the change into the folder in which the run is anyway."""
    text = text.strip()
    found = _WHERE.match(text)
    if found and cwd and found[1].strip("'\"").rstrip("/") == cwd:
        text = text[found.end() :]
    return within(text, cwd)


def here(path: str, cwd: str) -> str:
    """A path as seen from the run's own folder."""
    if cwd and path.startswith(cwd):
        if path == cwd:
            return "."
        if path[len(cwd)] == "/":
            return path[len(cwd) + 1 :] or "."
    return path.removeprefix("./") or "."


def within(text: str, cwd: str) -> str:
    """A text with the run's own folder as `.`, and its files as seen from it."""
    if not cwd or cwd not in text:
        return text
    return _own_folder(cwd).sub(lambda found: "" if found[1] else ".", text)


@lru_cache(maxsize=64)
def _own_folder(cwd: str) -> re.Pattern[str]:
    # Behind a name it is part of a longer path: /usr/app is not in the folder /app.
    return re.compile(r"(?<![\w.~-])" + re.escape(cwd) + r"(?:(/)(?=[\w.])|(?![\w.-]))")


def change(arguments: Any) -> tuple[list[str], list[str]]:
    """The lines that an edit takes away and puts in, without those that only show the place."""
    given = arguments if isinstance(arguments, dict) else {}
    before: Counter[str] = Counter()
    after: Counter[str] = Counter()
    if patch := _patch(given):
        _take_patch(patch, before, after)
    for part in [given, *_parts(given.get("edits")), *_changes(given.get("changes"))]:
        _take_lines(part, before, ("old_string", "oldString", "old_str", "oldText"))
        _take_lines(
            part,
            after,
            ("new_string", "newString", "new_str", "newText", "content", "contents", "file_text"),
        )
    return list((before - after).elements()), list((after - before).elements())


def _parts(value: Any) -> list[dict[str, Any]]:
    return [part for part in value if isinstance(part, dict)] if isinstance(value, list) else []


def _changes(value: Any) -> list[dict[str, Any]]:
    return _parts(list(value.values())) if isinstance(value, dict) else []


def _take_lines(part: dict[str, Any], lines: Counter[str], names: tuple[str, ...]) -> None:
    for name in names:
        if isinstance(text := part.get(name), str):
            lines.update(line.strip() for line in text.splitlines() if line.strip())


def _take_patch(patch: str, before: Counter[str], after: Counter[str]) -> None:
    for line in patch.splitlines():
        if line[:1] in ("+", "-") and not line.startswith(("+++", "---")) and line[1:].strip():
            (after if line[0] == "+" else before)[line[1:].strip()] += 1


def _patch(given: dict[str, Any]) -> str:
    texts = (given.get(name) for name in _PATCH_PLACES)
    return next((text for text in texts if isinstance(text, str) and "*** Begin Patch" in text), "")
