"""Aider: the chat history it keeps in Markdown beside the code, many sessions in one file."""

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from open_token.agents.aider import AGENT
from open_token.agents.aider.session import Session
from open_token.builder.draft import Draft
from open_token.model.document import Found
from open_token.sources.source import Source

_HISTORY = ".aider.chat.history.md"

_CUT = re.compile(AGENT.block_separator or "", re.MULTILINE)
_TIME = slice(24, 43)
_PROMPT = re.compile(r"^#### (?!/)(.+?) *$", re.MULTILINE)


@dataclass
class _Index:
    """Where the sessions of a file begin and what they are called; blank lines before the first
    have no name."""

    text: str
    starts: list[int]
    names: list[str | None]
    blocks: dict[str, int] = field(default_factory=lambda: {"/1": 0})
    """Where the blocks begin that were asked about, which come in order."""

    def session(self, number: int) -> str:
        """The text of a session."""
        end = self.starts[number + 1] if number + 1 < len(self.starts) else len(self.text)
        return self.text[self.starts[number] : end]


_KNOWN: "WeakKeyDictionary[Source, _Index]" = WeakKeyDictionary()


def list_conversations(source: Source) -> list[Found]:
    """The sessions, by the local time at which each began; what stands before the first is one
    too."""
    index, found = _index(source), []
    # The history lies beside the code it is about.
    cwd = (
        str(source.path.parent)
        if source.path is not None and source.path.name == _HISTORY
        else None
    )
    for number, name in enumerate(index.names):
        if name is not None:
            text = index.session(number)
            first = _PROMPT.search(text)
            title = first[1][:160] if first else None
            found.append(Found(name, title=title, cwd=cwd, messages=text.count("\n#### ")))
    return found


def find_owner(source: Source, at: str, value: object) -> str | None:
    """The session that a block of the file is, or is a part of."""
    if not isinstance(value, str) or not at[1:].isdecimal():
        return None
    index = _index(source)
    start = index.blocks.get(at)
    if start is None:
        start = max(0, index.text.find(value))
    index.blocks[f"/{int(at[1:]) + 1}"] = start + len(value)
    return index.names[bisect_right(index.starts, start) - 1]


def _index(source: Source) -> _Index:
    known = _KNOWN.get(source)
    if known is None:
        known = _KNOWN[source] = _cut(source.text)
    return known


def _cut(text: str) -> _Index:
    found = list(_CUT.finditer(text))
    starts = [0, *(header.start() for header in found)]
    before = text[: starts[1]] if found else text
    names: list[str | None] = ["beginning" if before.strip() else None]
    used: dict[str, int] = {}
    for header in found:
        name = header[0][_TIME].replace(" ", "T")
        used[name] = used.get(name, 0) + 1
        names.append(name if used[name] == 1 else f"{name}-{used[name]}")
    return _Index(text, starts, names)


def read(source: Source, draft: Draft) -> None:
    """Tell the chosen session; what that takes is loaded only now."""
    index = _index(source)
    chosen = [
        n
        for n, name in enumerate(index.names)
        if name is not None and source.conversation in (None, name)
    ]
    text = index.session(chosen[0]) if chosen else ""
    Session(draft).tell(text)
