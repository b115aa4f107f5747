"""Read a Qwen Code session with its subagents, whose files are in a folder named after it."""

import re
from pathlib import PurePath
from typing import Any

from open_token.agents.qwen_code.messages import FileReader
from open_token.agents.qwen_code.records import read_records, to_dict
from open_token.builder.draft import Draft
from open_token.errors import InputError
from open_token.formats.shared.fields import as_text
from open_token.formats.shared.thread import SubagentFile, SubagentWriter, Thread
from open_token.jsontools.timestamps import to_utc
from open_token.sources.source import Source

_SESSION_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
_PREFIX = "agent-"
_SUFFIX = ".jsonl"


class SessionReader:
    """Reads one session file with all that belongs to it."""

    def __init__(self, source: Source, draft: Draft) -> None:
        self._source = source
        self._draft = draft
        self._main = Thread(draft, draft.get_actor("system", "Qwen Code"), _find_provider)
        self._own_agent_id, agent_type = _identify_subagent_file(source)
        if self._own_agent_id:
            self._main.agent_id = self._own_agent_id
            self._main.name = agent_type or self._main.name
            self._main.user_actor = draft.get_actor("model", "parent agent")
        self._subagents = SubagentWriter(self._read_file)
        self._by_call: dict[str, list[SubagentFile]] = {}
        self._models: dict[str | None, str] = {}
        """The models of subagents, whose own records need not name one (0.24)."""

    def read(self) -> None:
        """Read the whole session into the draft."""
        agents = self._find_subagents()
        for agent in agents:
            call_id = as_text(agent.data.pop("call", None))
            if call_id:
                self._by_call.setdefault(call_id, []).append(agent)
        file = self._read_file(self._source, self._main)
        self._subagents.finish(agents, self._main)
        conversation = self._draft.conversation
        if self._own_agent_id:
            conversation["id"] = f"{_PREFIX}{self._own_agent_id}"
        elif file.context.facts.get("session_id"):
            conversation["id"] = file.context.facts["session_id"]
        self._set_title(file)
        if self._draft.first_ts:
            conversation["started_at"] = self._draft.first_ts
        conversation["source_runtime"] = "cli"

    def _set_title(self, file: FileReader) -> None:
        """Set the last title that was not rewound, and note the others."""
        titles = [title for uuid, title in file.titles if not file.tree.is_abandoned(uuid)]
        selected = titles[-1] if titles else None
        if selected:
            self._draft.conversation["title"] = selected
        for title, position in file.title_positions.items():
            if title != selected:
                file.thread.note_omission("unused-title", position, "system custom_title")

    def _read_file(self, source: Source, thread: Thread) -> FileReader:
        file = FileReader(thread, self._read_subagents)
        file.model = self._models.get(thread.agent_id)
        for number, record in read_records(source):
            file.read_record(record, f"line {number}")
        file.finish()
        return file

    def _read_subagents(self, file: FileReader, call_id: str | None) -> bool:
        """Read the subagents of a call; return whether there are any."""
        agents = self._by_call.get(call_id, []) if call_id else []
        for agent in agents:
            self._subagents.add(agent, file.thread, file.thread.get_call_key(call_id))
        return bool(agents)

    def _find_subagents(self) -> list[SubagentFile]:
        """Return the subagents of this session; their data has the id of the call, if known."""
        ids = [
            as_text(record.get("sessionId"))
            for record in self._source.sample
            if isinstance(record, dict)
        ]
        session_id = next(filter(None, ids), None)
        if self._own_agent_id or not session_id or not _SESSION_ID.fullmatch(session_id):
            return []
        pattern = f"../subagents/{session_id}/{_PREFIX}*{_SUFFIX}"
        return [self._build_agent(source) for source in self._source.find_siblings(pattern)]

    def _build_agent(self, source: Source) -> SubagentFile:
        stem = PurePath(source.name).name.removesuffix(_SUFFIX)
        meta = self._read_meta(source, f"{stem}.meta.json")
        first = next((record for record in source.sample if isinstance(record, dict)), {})
        agent_type = as_text(meta.get("agentType")) or as_text(first.get("agentName"))
        data: dict[str, Any] = {}
        for name, value in (
            ("spawn_reason", meta.get("description")),
            ("tooling_scope", agent_type),
            ("subagent_type", agent_type),
            ("model", meta.get("model")),
            ("status", meta.get("status")),
            ("call", meta.get("toolUseId")),
        ):
            if as_text(value):
                data[name] = value
        started = to_utc(meta.get("createdAt")) or to_utc(first.get("timestamp"))
        agent = SubagentFile(stem.removeprefix(_PREFIX), source, agent_type, data, started)
        model = as_text(meta.get("model"))
        if model:
            self._models[agent.agent_id] = model
        return agent

    def _read_meta(self, source: Source, name: str) -> dict[str, Any]:
        try:
            file = source.open_sibling(name)
            return to_dict(file.document if file else None)
        except InputError:
            self._draft.note_omission("broken-file", name, "not valid JSON")
            return {}


def _identify_subagent_file(source: Source) -> tuple[str | None, str | None]:
    """Return id and type of the subagent whose own file this is; None for a session's file."""
    records = [record for record in source.sample if isinstance(record, dict)]
    if not records or not all(record.get("isSidechain") is True for record in records):
        return None, None
    for record in records:
        agent_id = as_text(record.get("agentId"))
        if agent_id:
            return agent_id, as_text(record.get("agentName"))
    return None, None


def _find_provider(model: str) -> str | None:
    return "other" if model.startswith(("qwen", "coder-model")) else None


def read(source: Source, draft: Draft) -> None:
    """Read the session into the draft."""
    SessionReader(source, draft).read()
