"""Finds the files of a session's subagents: beside the session's file, or in the folder of its
name."""

import glob
import re
from collections.abc import Iterator
from pathlib import PurePath

from open_token.agents.claude_code.records import Line, Record, as_line, decode, text
from open_token.builder.draft import Draft
from open_token.errors import InputError
from open_token.sources.source import Source

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,100}")
_PREFIX, _SUFFIX = "agent-", ".jsonl"


class AgentFiles:
    """The agent files around one session file."""

    def __init__(self, source: Source, alone: bool) -> None:
        self._source = source
        self._alone = alone
        """The file is a subagent's own: only what it names is part of it."""
        self._stem = PurePath(source.name).name.split(".")[0]
        self._folder: dict[str, Source] | None = None

    def find(self, agent_id: str) -> Source | None:
        """The file of a subagent."""
        if not _ID.fullmatch(agent_id):
            return None
        return self._in_folder().get(agent_id) or self._source.open_sibling(
            f"{_PREFIX}{agent_id}{_SUFFIX}"
        )

    def meta(self, source: Source, draft: Draft) -> Record:
        """What Claude Code noted about a subagent beside its file."""
        name = PurePath(source.name).name.removesuffix(_SUFFIX)
        beside = source.open_sibling(f"{name}.meta.json")
        try:
            found = beside.document if beside else None
        except InputError:
            draft.note_omission("broken-file", f"{name}.meta.json", "this is not JSON")
            found = None
        return found if type(found) is dict else {}

    def rest(self, told: set[str], sessions: frozenset[str]) -> Iterator[tuple[str, Source]]:
        """The subagents of this session that were not told yet; each is looked at only when its
        turn comes."""
        if self._alone:
            return
        for agent_id, source in self._in_folder().items():
            if agent_id not in told:
                yield agent_id, source
        for source in self._source.find_siblings(f"{_PREFIX}*{_SUFFIX}"):
            agent_id = _id_of(source)
            if agent_id not in told and _ID.fullmatch(agent_id) and _session_of(source) in sessions:
                yield agent_id, source

    def _in_folder(self) -> dict[str, Source]:
        if self._folder is None:
            self._folder = {}
            pattern = f"{glob.escape(self._stem)}/subagents/**/{_PREFIX}*{_SUFFIX}"
            for source in self._source.find_siblings(pattern) if self._stem else []:
                if _ID.fullmatch(agent_id := _id_of(source)):
                    self._folder.setdefault(agent_id, source)
        return self._folder


def _id_of(source: Source) -> str:
    return PurePath(source.name).name[len(_PREFIX) : -len(_SUFFIX)]


def _session_of(source: Source) -> str | None:
    """The session that a file beside says it belongs to; what cannot be read belongs to none."""
    try:
        line = as_line(next(iter(source.records(decode, is_preview=True)), (0, None))[1])
    except InputError:
        return None
    return text(line.session_id) if type(line) is Line else None
