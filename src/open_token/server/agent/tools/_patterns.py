"""Patterns of paths and of text, on RE2: no pattern makes a search slow."""

from typing import Any

import re2

from open_token.server.agent.tools.interface import ToolFault

_MEMORY = 8 << 20
_WORDS = {"*": "[^/]*", "?": "[^/]", "{": "(?:", "}": ")"}


def compiled(pattern: str, *, ignore_case: bool = False) -> Any:
    """A pattern, or a fault that says what is wrong with it."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    options.case_sensitive = not ignore_case
    try:
        return re2.compile(pattern, options)
    except re2.error as problem:
        words = problem.args[0] if problem.args else "RE2 does not know it"
        words = words.decode("utf-8", "replace") if isinstance(words, bytes) else str(words)
        raise ToolFault(f"the pattern does not work: {words[:200]}") from None


def path_pattern(glob: str) -> str:
    """A glob as an expression: `*` and `?` stay in a folder, `**` does not; [abc] and {a,b} are
    alternatives."""
    found, at, depth = ["(?s)"], 0, 0
    while at < len(glob):
        letter = glob[at]
        if glob.startswith("**/", at):
            found.append("(?:.*/)?")
            at += 3
            continue
        if glob.startswith("**", at):
            found.append(".*")
            at += 2
            continue
        if letter == "[" and (end := glob.find("]", at + 2)) > 0:
            found.append(_letters(glob[at + 1 : end]))
            at = end + 1
            continue
        depth += (letter == "{") - (letter == "}")
        found.append("|" if letter == "," and depth else _WORDS.get(letter) or re2.escape(letter))
        at += 1
    return "".join(found)


def _letters(inside: str) -> str:
    negated, letters = inside[0] in "!^", inside.lstrip("!^") if inside[0] in "!^" else inside
    plain = letters.replace("\\", r"\\").replace("[", r"\[").replace("]", r"\]").replace("^", r"\^")
    return f"[{'^' if negated else ''}{plain}]"


def wants_hidden(path: str) -> bool:
    """Whether a path or a pattern names a hidden file or folder."""
    return path.startswith(".") or "/." in path
