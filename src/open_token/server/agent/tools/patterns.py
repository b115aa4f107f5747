"""Patterns of paths and text, with RE2, which has no slow patterns."""

from typing import Any

import re2

from open_token.server.agent.tools.interface import ToolError

_MAX_MEMORY = 8 << 20
_TRANSLATIONS = {"*": "[^/]*", "?": "[^/]", "{": "(?:", "}": ")"}


def compile_pattern(pattern: str, *, ignore_case: bool = False) -> Any:
    """Compile a pattern; raise ToolError when it is invalid."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY
    options.case_sensitive = not ignore_case
    try:
        return re2.compile(pattern, options)
    except re2.error as problem:
        reason = problem.args[0] if problem.args else "not supported by RE2"
        if isinstance(reason, bytes):
            reason = reason.decode("utf-8", "replace")
        raise ToolError(f"invalid pattern: {str(reason)[:200]}") from None


def translate_glob(glob: str) -> str:
    """Translate a glob to a regular expression.

    `*` and `?` match within a folder, `**` across folders; [abc] and {a,b} are alternatives.
    """
    parts = ["(?s)"]
    position = 0
    depth = 0
    while position < len(glob):
        # `**/` also matches no folder at all: `**/*.py` finds files at the top.
        if glob.startswith("**/", position):
            parts.append("(?:.*/)?")
            position += 3
            continue
        if glob.startswith("**", position):
            parts.append(".*")
            position += 2
            continue
        character = glob[position]
        if character == "[":
            end = glob.find("]", position + 2)
            if end > 0:
                parts.append(_translate_set(glob[position + 1 : end]))
                position = end + 1
                continue
        if character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
        if character == "," and depth:
            parts.append("|")
        else:
            parts.append(_TRANSLATIONS.get(character) or re2.escape(character))
        position += 1
    return "".join(parts)


def _translate_set(characters: str) -> str:
    """Translate the inside of [...], where globs also negate with an exclamation mark."""
    negation = ""
    if characters[0] in "!^":
        negation = "^"
        characters = characters.lstrip("!^")
    for special in ("\\", "[", "]", "^"):
        characters = characters.replace(special, "\\" + special)
    return f"[{negation}{characters}]"


def includes_hidden(path: str) -> bool:
    """Return whether a path or a pattern names a hidden file or folder."""
    return path.startswith(".") or "/." in path
