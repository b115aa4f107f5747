"""The output of a call without what its runtime wraps around it and without what is new each
time."""

import re
from typing import Any

import msgspec

# Codex: `Chunk ID`, `Wall time` and the exit code before the output of a command (0.7x and later).
_CODEX = re.compile(
    r"(?:Chunk ID: [^\n]*\n)?(?:Exit code: -?\d+\n)?Wall time: [^\n]*\n(?:Process (?:exited|running)[^\n]*\n)?"
    r"(?:Original token count: \d+\n)?(?:Total output lines: \d+\n)?Output:\n?"
)
# Claude Code: the exit code of a command that failed, on a line of its own.
_CLAUDE = re.compile(r"(?:Error: )?Exit code -?\d+\n?")
# Gemini CLI and Qwen Code: the command again, then what came of it, each behind its name.
_GEMINI_HEADS = ("Output: ", "Stdout: ")
_GEMINI_TAILS = tuple(
    f"{name}: "
    for name in ("Stderr", "Error", "Exit Code", "Signal", "Background PIDs", "Process Group PGID")
)
_NUMBERED = re.compile(r"^ *\d+(?:\t|→|: )", re.MULTILINE)
# What is new each time though nothing else is: moments, how long it took, addresses, ids. Most
# begin with a digit,
# which is searched for much faster than a boundary of words.
_FLEETING = re.compile(
    r"[0-9](?<!\w[0-9])(?:"
    r"\d{3}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
    r"|\d{0,9}\.\d{1,9} ?(?:s|ms|secs?|seconds)\b"
    r"|x[0-9a-fA-F]{6,16}\b)"
)
_UUID = re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b")
_LONGEST_WRAPPED = 200_000
"""Characters of an output that is looked at for what a runtime put around it."""


def plain_output(value: Any, deed: str) -> Any:
    """What the call itself gave: text without the runtime's own lines, lists of texts as one
    text."""
    if isinstance(value, list):
        value = _joined(value)
    if not isinstance(value, str):
        return value
    text = value
    if text[:10] == '{"output":' and len(text) <= _LONGEST_WRAPPED:
        text = _unwrapped(text)
    if found := _CODEX.match(text) or _CLAUDE.match(text):
        text = text[found.end() :]
    elif text.startswith(("Command: ", *_GEMINI_HEADS)):
        text = _behind_names(text)
    if deed == "read":
        text = _NUMBERED.sub("", text)
    return text.strip().replace("\r\n", "\n")


def _behind_names(text: str) -> str:
    """What stands between the name of the output and the named lines after it; all, where those are
    missing."""
    heads = [place + 1 for head in _GEMINI_HEADS if (place := text.find(f"\n{head}")) >= 0]
    start = 0 if text.startswith(_GEMINI_HEADS) else min(heads, default=0)
    output = text[start + len(_GEMINI_HEADS[0]) :]
    count = 0
    while count < 8 and "\n" in output and output.rpartition("\n")[2].startswith(_GEMINI_TAILS):
        output = output.rpartition("\n")[0]
        count += 1
    if not count or not text.startswith(_GEMINI_HEADS, start):
        return text
    return "" if output == "(empty)" else output


def steady(text: str) -> str:
    """Text in which what is new each time is the same."""
    text = _FLEETING.sub("~", text)
    return _UUID.sub("~", text) if text.count("-") >= 4 else text


def _joined(blocks: list[Any]) -> Any:
    texts = [block.get("text") if isinstance(block, dict) else block for block in blocks]
    words = [text for text in texts if isinstance(text, str)]
    return "\n".join(words) if words and len(words) == len(texts) else blocks


def _unwrapped(text: str) -> str:
    """Codex before exec_command: the output as JSON beside its facts."""
    try:
        parts = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    output = parts.get("output") if isinstance(parts, dict) else None
    return output if isinstance(output, str) else text
