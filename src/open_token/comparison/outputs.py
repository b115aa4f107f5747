"""Normalization of tool output: runtime wrappers removed, volatile values masked."""

import re
from typing import Any

import msgspec

# Codex: `Chunk ID`, `Wall time` and the exit code before the output of a command (0.7x and later).
_CODEX_HEADER = re.compile(
    r"(?:Chunk ID: [^\n]*\n)?(?:Exit code: -?\d+\n)?Wall time: [^\n]*\n"
    r"(?:Process (?:exited|running)[^\n]*\n)?"
    r"(?:Original token count: \d+\n)?(?:Total output lines: \d+\n)?Output:\n?"
)
# Claude Code: the exit code of a failed command, on the first line.
_CLAUDE_HEADER = re.compile(r"(?:Error: )?Exit code -?\d+\n?")
# Gemini CLI and Qwen Code: the command again, then labelled lines.
_GEMINI_HEADS = ("Output: ", "Stdout: ")
_GEMINI_TAILS = tuple(
    f"{name}: "
    for name in ("Stderr", "Error", "Exit Code", "Signal", "Background PIDs", "Process Group PGID")
)
_MAX_GEMINI_TAILS = 8
_LINE_NUMBER = re.compile(r"^ *\d+(?:\t|→|: )", re.MULTILINE)
# Times, durations and addresses. The pattern begins with a digit, which is searched for much faster
# than a word boundary.
_VOLATILE = re.compile(
    r"[0-9](?<!\w[0-9])(?:"
    r"\d{3}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
    r"|\d{0,9}\.\d{1,9} ?(?:s|ms|secs?|seconds)\b"
    r"|x[0-9a-fA-F]{6,16}\b)"
)
_UUID = re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b")
_MAX_JSON_LENGTH = 200_000


def unwrap_output(value: Any, action: str) -> Any:
    """Return the output of a call without lines that its runtime added."""
    if isinstance(value, list):
        value = _join_texts(value)
    if not isinstance(value, str):
        return value
    text = value
    if text[:10] == '{"output":' and len(text) <= _MAX_JSON_LENGTH:
        text = _unwrap_json(text)
    header = _CODEX_HEADER.match(text) or _CLAUDE_HEADER.match(text)
    if header:
        text = text[header.end() :]
    elif text.startswith(("Command: ", *_GEMINI_HEADS)):
        text = _unwrap_gemini(text)
    if action == "read":
        text = _LINE_NUMBER.sub("", text)
    return text.strip().replace("\r\n", "\n")


def _unwrap_gemini(text: str) -> str:
    """Return the text between the output label and the labelled lines after it."""
    start = 0
    if not text.startswith(_GEMINI_HEADS):
        positions = [text.find(f"\n{head}") + 1 for head in _GEMINI_HEADS]
        start = min((position for position in positions if position > 0), default=0)
        if start == 0:
            return text
    output = text[start + len(_GEMINI_HEADS[0]) :]
    has_tail = False
    for _ in range(_MAX_GEMINI_TAILS):
        rest, newline, last_line = output.rpartition("\n")
        if not newline or not last_line.startswith(_GEMINI_TAILS):
            break
        output = rest
        has_tail = True
    if not has_tail:
        return text
    return "" if output == "(empty)" else output


def mask_volatile(text: str) -> str:
    """Return text with values that differ on every run masked."""
    text = _VOLATILE.sub("~", text)
    if text.count("-") >= 4:
        return _UUID.sub("~", text)
    return text


def _join_texts(blocks: list[Any]) -> Any:
    """Return a list of text blocks as one text, any other list unchanged."""
    texts: list[str] = []
    for block in blocks:
        text = block.get("text") if isinstance(block, dict) else block
        if not isinstance(text, str):
            return blocks
        texts.append(text)
    return "\n".join(texts) if texts else blocks


def _unwrap_json(text: str) -> str:
    """Return the output from the JSON that Codex wrote before it had exec_command."""
    try:
        parts = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    output = parts.get("output") if isinstance(parts, dict) else None
    return output if isinstance(output, str) else text
