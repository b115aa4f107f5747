"""What a simple shell command does: agents without a tool for reading or searching say it in the
shell."""

import re
import shlex

from open_token.comparing.deeds import Deed, here

_LONGEST = 400
_SIMPLE = re.compile(r"[^|&;<>`$\n()]+")
_LINES = re.compile(r"\d+(?:,\d+)?p")


def spoken(deed: Deed, cwd: str) -> Deed:
    """The deed that a command is; the command itself where it is not plain."""
    command = (
        deed.target.removeprefix("nl -ba ").replace(" | sed -n ", " ")
        if "nl -ba " in deed.target
        else deed.target
    )
    if deed.name != "run" or len(command) > _LONGEST or not _SIMPLE.fullmatch(command):
        return deed
    try:
        words = shlex.split(command)
    except ValueError:
        return deed
    name, target = _said(words, is_listing=command is not deed.target)
    return Deed(name, here(target, cwd), known=True, shown=deed.target) if name else deed


def _said(words: list[str], *, is_listing: bool) -> tuple[str, str]:
    """The deed and its target; nothing for what could mean more."""
    if is_listing:
        return ("read", words[0]) if len(words) == 2 and _LINES.fullmatch(words[1]) else ("", "")
    program, *rest = words or [""]
    plain = [word for word in rest if not word.startswith("-")]
    if program == "cat" and len(rest) == 1 and plain:
        return "read", plain[0]
    if program == "sed" and len(rest) == 3 and rest[0] == "-n" and _LINES.fullmatch(rest[1]):
        return "read", rest[2]
    if program in ("rg", "grep") and 1 <= len(plain) <= 2:
        return "search", plain[0]
    if program == "ls" and len(plain) <= 1:
        return "list", plain[0] if plain else "."
    return "", ""
