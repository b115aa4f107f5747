"""Cuts a session of aider's history into what was typed, what the model said and what aider said
itself."""

from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

_PROMPT, _NOTICE = "####", ">"


class Voice(Enum):
    """Who speaks in a block."""

    PERSON = "person"
    MODEL = "model"
    AIDER = "aider"


class Block(NamedTuple):
    """What one of them said."""

    voice: Voice
    text: str


def blocks(text: str) -> Iterator[Block]:
    """The blocks of a session, in order.

    What a person typed and what aider said end with two spaces on each line, which is what tells
    them from headings and quotes in an answer. Words of aider that have several lines are marked on
    the first, and end on the last."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    end = "  " if any(line.startswith(_PROMPT) and line.endswith("  ") for line in lines) else ""
    gathered: list[str] = []
    voice = Voice.MODEL
    for now, line in _voiced(lines, end):
        if now is not voice:
            yield from _block(voice, gathered)
            gathered, voice = [], now
        gathered.append(line)
    yield from _block(voice, gathered)


def _voiced(lines: list[str], end: str) -> Iterator[tuple[Voice, str]]:
    """Each line with who says it, without its marks; end is empty when an editor cut the spaces off
    all of them."""
    goes_on, before = False, "  "
    for line in lines:
        fresh = (
            not before.strip()
            or before.endswith("  ")
            or (not end and before.startswith((_PROMPT, _NOTICE)))
        )
        prompt = fresh and _is_marked(line, _PROMPT, end)
        if goes_on and not (prompt and not before):
            yield Voice.AIDER, line.rstrip() if line.endswith("  ") else line
            goes_on = not line.endswith("  ")
        elif prompt:
            goes_on = False
            yield Voice.PERSON, _bare(line[4:])
        elif fresh and _is_marked(line, _NOTICE, end):
            yield Voice.AIDER, _bare(line[1:])
        elif line.startswith("> ") and before.endswith("  "):
            # No answer follows without a blank line: aider says something that has more lines.
            goes_on = True
            yield Voice.AIDER, line[2:]
        else:
            yield Voice.MODEL, line
        before = line


def _is_marked(line: str, mark: str, end: str) -> bool:
    return (
        line.startswith(mark)
        and line[len(mark) : len(mark) + 1] in ("", " ")
        and line.endswith(end)
    )


def _bare(text: str) -> str:
    """A line without the space behind its mark and the two at its end."""
    return text.removesuffix("  ").removeprefix(" ")


def _block(voice: Voice, lines: list[str]) -> Iterator[Block]:
    text = "\n".join(lines)
    if voice is Voice.MODEL:
        text = text.strip("\n")
        text = "" if not text.strip() else text
    if text or (voice is Voice.PERSON and lines):
        yield Block(voice, text)
