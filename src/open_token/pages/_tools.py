"""What kind of thing a tool does, told by its name and its arguments, for the tools of all
runtimes."""

import re
from typing import Any

_KINDS = {
    "shell": "bash shell exec execcommand runshellcommand localshell localshellcall executecommand runcommand "
    "runterminalcmd runterminalcommand terminal executebash shellcommand containerexec runinterminal powershell "
    "execute runbash writestdin bashoutput cmdrun ipython executeipython runpython python codeinterpreter",
    "edit": "edit multiedit strreplaceeditor strreplacebasededittool replace replaceinfile applydiff applypatch "
    "editfile searchreplace strreplace notebookedit patch texteditor fileeditor insertedit edittool editnotebook "
    "insertcontent searchandreplace strreplacefile replacestringinfile editexistingfile",
    "write": "write writefile writetofile createfile create newfile savefile addfile",
    "read": "read readfile view open viewfile readmanyfiles readfiles cat viewimage readmediafile fileread "
    "getfilecontents notebookread",
    "search": "grep glob searchfilecontent grepsearch codebasesearch filesearch find ls listdir listdirectory "
    "listfiles searchfiles findfile searchdir globfilesearch list searchtext findfilesbyname codesearch ripgrep",
    "plan": "todowrite updateplan writetodos todo todolist settodolist managetodolist tasktracker todoread",
    "web": "websearch webfetch googlewebsearch fetch browse fetchurl websearchcall urlfetch searchweb fetchwebpage",
    "agent": "task agent spawnagent delegate delegatetoagent subagent newtask dispatchagent runsubagent usesubagents",
    "ask": "askuserquestion askuser askfollowupquestion requestuserinput question askhuman exitplanmode askquestion",
}
KIND_OF = {name: kind for kind, names in _KINDS.items() for name in names.split()}
_NOT_A_LETTER = re.compile(r"[^a-z0-9]+")

PATHS = ("file_path", "path", "absolute_path", "filePath", "notebook_path", "target_file", "filename", "file",
         "relative_workspace_path", "target_notebook", "AbsolutePath", "TargetFile")  # fmt: skip
OLDS = ("old_string", "old_str", "oldText", "oldString", "old", "search", "old_text")
NEWS = ("new_string", "new_str", "newText", "newString", "new", "replace", "new_text", "new_source")
BODIES = ("content", "contents", "file_text", "text", "code")
COMMANDS = ("command", "cmd", "script", "code", "CommandLine", "chars", "input")
PATCHES = ("patch", "input", "diff", "patchText", "patch_text", "raw")
PATTERNS = (
    "pattern",
    "query",
    "regex",
    "search_term",
    "searchTerm",
    "file_name",
    "glob_pattern",
    "target_directory",
)


def kind_of(tool: str, arguments: Any) -> str:
    """shell, edit, write, read, search, plan, web, agent, ask, or nothing where it is unknown."""
    for name in (tool, tool.rpartition("__")[2], tool.rpartition(".")[2]):
        kind = KIND_OF.get(_NOT_A_LETTER.sub("", name.lower()[:80]))
        if kind:
            return _of_many(kind, arguments)
    return "shell" if word(arguments, ("command", "cmd")) and not word(arguments, PATHS) else ""


def _of_many(kind: str, arguments: Any) -> str:
    """An editor of several commands does what its command says."""
    command = word(arguments, ("command",))
    if kind == "edit" and command in ("view", "create"):
        return "read" if command == "view" else "write"
    return kind


def word(arguments: Any, names: tuple[str, ...]) -> str:
    """The first of these arguments that is a text with anything in it; a list of words is one
    text."""
    if not isinstance(arguments, dict):
        return ""
    for name in names:
        value = arguments.get(name)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, list) and value and all(isinstance(part, str) for part in value):
            return " ".join(value)
    return ""
