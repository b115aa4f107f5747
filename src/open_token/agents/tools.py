"""The vocabulary of tool names: which action a tool performs, and which argument holds what.

Agents have the same few tools under many names. `find_action` knows the names whose meaning is
certain; `guess_action` also accepts tools of MCP servers and ambiguous names, for display only.
"""

import re
from functools import lru_cache
from typing import Any

# Names are normalized: lower case, letters and digits only (`run_shell_command`, `RunShellCommand`).
# Actions with their own kind of arguments are separate (`patch`, `multi_edit`, `edit_notebook`),
# so that a call is never translated to a tool that takes something else.
ACTION_NAMES: dict[str, str] = {
    "run": "bash bashcommand cmdrun containerexec execcommand executebash executecommand "
    "localshell localshellcall powershell run runbash runcommand runinterminal runshellcommand "
    "runterminalcmd runterminalcommand shell shellcommand terminal",
    "run_code": "codeinterpreter executeipython ipython python runpython",
    "shell_input": "writestdin",
    "shell_output": "bashoutput",
    "read": "fileread openfile read readfile view viewfile",
    "read_many": "readfiles readmanyfiles",
    "read_notebook": "notebookread",
    "view_image": "readmediafile viewimage",
    "edit": "edit editexistingfile editfile edittool replace replaceinfile replacestringinfile "
    "searchandreplace searchreplace strreplace strreplacefile",
    "multi_edit": "multiedit",
    "patch": "applydiff applypatch patch",
    "insert": "insertcontent insertedit inserteditintofile",
    "edit_notebook": "editnotebook notebookedit",
    "write": "addfile create createfile newfile savefile write writefile writetofile",
    "search": "grep grepsearch rg ripgrep searchdir searchfilecontent searchfiles searchtext",
    "semantic_search": "codebasesearch codesearch semanticsearch",
    "find": "filesearch findfile findfiles findfilesbyname glob globfilesearch globsearch",
    "list": "list listdir listdirectory listfiles ls",
    "fetch": "browse fetch fetchurl fetchwebpage urlfetch webfetch",
    "web_search": "googlewebsearch searchweb websearch websearchcall",
    "delegate": "agent delegate delegatetoagent dispatchagent newtask runsubagent spawnagent "
    "subagent task usesubagents",
    "plan": "createtodolist managetodolist settodolist tasktracker todo todolist todowrite "
    "updateplan updatetodolist writetodos",
    "read_plan": "todoread",
    "ask": "askfollowupquestion askhuman askquestion askuser askuserquestion exitplanmode "
    "requestuserinput",
}
_ACTIONS = {name: action for action, names in ACTION_NAMES.items() for name in names.split()}

# Names that mean something else in other places: good enough for a heading, not for a comparison.
_AMBIGUOUS_NAMES = {
    "cat": "read",
    "exec": "run",  # a shell command in some agents, JavaScript in Codex
    "execute": "run",
    "find": "find",
    "getfilecontents": "read",
    "open": "read",
    "question": "ask",
}

# Tools with several actions, chosen by the argument `command`.
EDITORS = frozenset("fileeditor strreplacebasededittool strreplaceeditor texteditor".split())
EDITOR_COMMANDS = {
    "view": "read",
    "create": "write",
    "str_replace": "edit",
    "insert": "insert",
    "undo_edit": "edit",
}

PATH = (
    "file_path",
    "path",
    "absolute_path",
    "filePath",
    "notebook_path",
    "target_file",
    "targetFile",
    "filename",
    "file",
    "relative_workspace_path",
    "target_notebook",
    "AbsolutePath",
    "TargetFile",
)
DIRECTORY = (*PATH, "dir_path", "dirPath", "directory", "target_directory", "DirectoryPath")
COMMAND = ("command", "cmd", "script", "keystrokes", "code", "CommandLine", "chars", "input")
CONTENT = ("content", "contents", "file_text", "text", "code")
OLD_TEXT = ("old_string", "old_str", "oldText", "oldString", "old", "search", "old_text")
NEW_TEXT = (
    "new_string",
    "new_str",
    "newText",
    "newString",
    "new",
    "replace",
    "new_text",
    "new_source",
)
PATCH = ("patch", "input", "diff", "patchText", "patch_text", "raw")
PATTERN = ("pattern", "query", "regex", "search_term", "searchTerm", "file_name", "glob_pattern")
URL = ("url",)
QUERY = ("query", "search_term")
TASK = ("prompt", "message", "task", "instructions", "description")
PLAN = ("todos", "plan", "items", "tasks", "task_list", "todoList")

ARGUMENTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "run": (COMMAND,),
    "run_code": (COMMAND,),
    "shell_input": (COMMAND,),
    "read": (PATH,),
    "read_many": (PATH,),
    "read_notebook": (PATH,),
    "view_image": (PATH,),
    "edit": (PATH, OLD_TEXT, NEW_TEXT),
    "multi_edit": (PATH,),
    "patch": (PATH, PATCH),
    "insert": (PATH, NEW_TEXT, CONTENT),
    "edit_notebook": (PATH, NEW_TEXT),
    "write": (PATH, CONTENT),
    "search": (PATTERN, DIRECTORY),
    "semantic_search": (PATTERN, DIRECTORY),
    "find": (PATTERN, DIRECTORY),
    "list": (DIRECTORY,),
    "fetch": (URL,),
    "web_search": (QUERY,),
    "delegate": (TASK,),
    "plan": (PLAN,),
}
"""The arguments of each action, as groups of synonyms; the first group is the target."""

_VERSION_SUFFIX = re.compile(r"_v\d+$")
_NOT_ALPHANUMERIC = re.compile(r"[^a-z0-9]+")
_NAMESPACES = ("functions.", "default_api.", "default_api:", "developer__")
_MAX_NAME_LENGTH = 200


@lru_cache(maxsize=4096)
def normalize_name(tool: str) -> str:
    """Return a tool name without case, punctuation, version and the namespace of its runtime."""
    name = _VERSION_SUFFIX.sub("", tool[:_MAX_NAME_LENGTH].lower())
    for namespace in _NAMESPACES:
        name = name.removeprefix(namespace)
    return _NOT_ALPHANUMERIC.sub("", name)


def is_editor(tool: str) -> bool:
    """Return whether a tool has several actions, chosen by its argument `command`."""
    return normalize_name(tool) in EDITORS


def find_action(tool: str, arguments: Any = None) -> str | None:
    """Return the action of a tool whose meaning is certain; None for any other."""
    name = normalize_name(tool)
    if name in EDITORS:
        command = arguments.get("command") if isinstance(arguments, dict) else None
        return EDITOR_COMMANDS.get(command) if isinstance(command, str) else None
    return _ACTIONS.get(name)


def guess_action(tool: str, arguments: Any = None) -> str | None:
    """Return the likely action of a tool, also of a server's tool or one with an ambiguous name."""
    tool = tool[:_MAX_NAME_LENGTH]
    names = [tool]
    for separator in ("__", "."):
        name = tool.rpartition(separator)[2]
        # `web.run` or `query__run` run something else than a shell command.
        if name != "run":
            names.append(name)
    for name in names:
        action = find_action(name, arguments) or _AMBIGUOUS_NAMES.get(normalize_name(name))
        if action is not None:
            return action
        if is_editor(name):
            return "edit"
    has_command = bool(find_text(arguments, ("command", "cmd")))
    if has_command and not find_text(arguments, PATH):
        return "run"
    return None


def find_text(arguments: Any, names: tuple[str, ...]) -> str:
    """Return the first of these arguments that is a non-empty text; a list of words is joined."""
    if not isinstance(arguments, dict):
        return ""
    for name in names:
        value = arguments.get(name)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, list) and value and all(isinstance(part, str) for part in value):
            return " ".join(value)
    return ""


def find_synonyms(action: str, argument: str) -> tuple[str, ...]:
    """Return the names under which other tools for an action take an argument."""
    for names in ARGUMENTS.get(action, ()):
        if argument in names:
            return names
    return ()
