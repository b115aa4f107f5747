"""Find the sessions in a chat history of aider, and read one of them."""

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from open_token.agents.aider import AGENT
from open_token.agents.aider.session import SessionReader
from open_token.builder.draft import Draft
from open_token.model.document import Found
from open_token.model.titles import choose_title
from open_token.sources.source import Source

_HISTORY_FILE = ".aider.chat.history.md"
_SESSION_HEADER = re.compile(AGENT.block_separator or "", re.MULTILINE)
_HEADER_TIME = slice(24, 43)
_PROMPT_LINE = re.compile(r"^#### (.+?) *\r?$", re.MULTILINE)


@dataclass
class _Index:
    """Where the sessions of a file begin, and their ids."""

    text: str
    starts: list[int]
    session_ids: list[str | None]
    """The first is for the text before the first header: None if that is blank."""
    block_starts: dict[str, int] = field(default_factory=lambda: {"/1": 0})
    """Where the blocks begin whose owners were asked for, which happens in order."""

    def get_text(self, number: int) -> str:
        """Return the text of a session."""
        end = self.starts[number + 1] if number + 1 < len(self.starts) else len(self.text)
        return self.text[self.starts[number] : end]


_indexes: "WeakKeyDictionary[Source, _Index]" = WeakKeyDictionary()


def read(source: Source, draft: Draft) -> None:
    """Read the chosen session, or the first one, into the draft."""
    index = _get_index(source)
    text = ""
    for number, session_id in enumerate(index.session_ids):
        if session_id is not None and source.conversation in (None, session_id):
            text = index.get_text(number)
            break
    SessionReader(draft).read(text)


def list_conversations(source: Source) -> list[Found]:
    """List the sessions with the local times at which they began.

    The time of the file says nothing about them: a history that was copied holds old sessions.
    """
    index = _get_index(source)
    # Aider writes the history into the folder of the project.
    cwd = None
    if source.path is not None and source.path.name == _HISTORY_FILE:
        cwd = str(source.path.parent)
    sessions: list[Found] = []
    for number, session_id in enumerate(index.session_ids):
        if session_id is not None:
            text = index.get_text(number)
            prompts = (match[1] for match in _PROMPT_LINE.finditer(text))
            sessions.append(
                Found(
                    session_id,
                    title=choose_title(None, prompts, "") or None,
                    started_at=session_id[:19] if number else None,
                    cwd=cwd,
                    messages=text.count("\n#### "),
                )
            )
    return sessions


def find_owner(source: Source, at: str, value: object) -> str | None:
    """Return the session that a block of the file is a part of."""
    if not isinstance(value, str) or not at[1:].isdecimal():
        return None
    index = _get_index(source)
    start = index.block_starts.get(at)
    if start is None:
        start = max(0, index.text.find(value))
    index.block_starts[f"/{int(at[1:]) + 1}"] = start + len(value)
    return index.session_ids[bisect_right(index.starts, start) - 1]


def _get_index(source: Source) -> _Index:
    index = _indexes.get(source)
    if index is None:
        index = _build_index(source.text)
        _indexes[source] = index
    return index


def _build_index(text: str) -> _Index:
    headers = list(_SESSION_HEADER.finditer(text))
    starts = [0, *(header.start() for header in headers)]
    preamble = text[: starts[1]] if headers else text
    session_ids: list[str | None] = ["beginning" if preamble.strip() else None]
    counts: dict[str, int] = {}
    for header in headers:
        session_id = header[0][_HEADER_TIME].replace(" ", "T")
        # Two sessions may begin in the same second.
        counts[session_id] = counts.get(session_id, 0) + 1
        if counts[session_id] > 1:
            session_id = f"{session_id}-{counts[session_id]}"
        session_ids.append(session_id)
    return _Index(text, starts, session_ids)
