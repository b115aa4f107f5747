"""One Qwen Code session with the subagents whose files lie in the folder of its name."""

import re
from pathlib import PurePath
from typing import Any

from open_token.agents.qwen_code.messages import File
from open_token.agents.qwen_code.records import body, joined
from open_token.builder.draft import Draft
from open_token.errors import InputError
from open_token.formats.shared.fields import as_text
from open_token.formats.shared.thread import SubagentFile, SubagentWriter, Thread
from open_token.jsontools.timestamps import to_utc
from open_token.sources.source import Source

_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
_PREFIX, _SUFFIX = "agent-", ".jsonl"


class Session:
    """Reads a session file with all that belongs to it."""

    def __init__(self, source: Source, draft: Draft) -> None:
        self._source = source
        self._draft = draft
        self._main = Thread(draft, draft.get_actor("system", "Qwen Code"), _provider)
        self._alone, kind = _agent_alone(source)
        if self._alone:
            self._main.agent_id, self._main.name = self._alone, kind or self._main.name
            self._main.user_actor = draft.get_actor("model", "parent agent")
        self._agents = SubagentWriter(self._run)
        self._by_call: dict[str, list[SubagentFile]] = {}
        self._models: dict[str | None, str] = {}
        """The models of subagents, whose own records need not name one (0.24)."""

    def read(self) -> None:
        """Tell everything."""
        beside = self._beside()
        for agent in beside:
            if call := as_text(agent.data.pop("call", None)):
                self._by_call.setdefault(call, []).append(agent)
        file = self._run(self._source, self._main)
        self._agents.finish(beside, self._main)
        conversation = self._draft.conversation
        if name := f"{_PREFIX}{self._alone}" if self._alone else file.context.get("session_id"):
            conversation["id"] = name
        self._entitle(file)
        if self._draft.first_ts:
            conversation["started_at"] = self._draft.first_ts
        conversation["source_runtime"] = "cli"

    def _entitle(self, file: File) -> None:
        """The last title holds that was given where the conversation stands."""
        titles = [title for uuid, title in file.titles if not file.tree.is_left(uuid)]
        if titles:
            self._draft.conversation["title"] = titles[-1]
        for title, place in file.entitled.items():
            if title not in titles[-1:]:
                file.strand.note_omission("unused-title", place, "system custom_title")

    def _run(self, source: Source, strand: Thread) -> File:
        """Tell the records of a file."""
        file = File(strand, self._told)
        file.model = self._models.get(strand.agent_id)
        for number, record in joined(source):
            file.record(record, f"line {number}")
        file.finish()
        return file

    def _told(self, file: File, call: str | None) -> bool:
        """Tell the subagents that worked for a call; whether there are any."""
        found = self._by_call.get(call, []) if call else []
        for agent in found:
            self._agents.add(agent, file.strand, file.strand.get_call_key(call))
        return bool(found)

    def _beside(self) -> list[SubagentFile]:
        """The subagents of this session, each with the id of the call that started it, where that
        is known."""
        records = (record for record in self._source.sample if isinstance(record, dict))
        session = next(
            (name for record in records if (name := as_text(record.get("sessionId")))), None
        )
        if self._alone or not session or not _ID.fullmatch(session):
            return []
        pattern = f"../subagents/{session}/{_PREFIX}*{_SUFFIX}"
        return [self._agent_in(source) for source in self._source.find_siblings(pattern)]

    def _agent_in(self, source: Source) -> SubagentFile:
        stem = PurePath(source.name).name.removesuffix(_SUFFIX)
        try:
            beside = source.open_sibling(f"{stem}.meta.json")
            meta = body(beside.document if beside else None)
        except InputError:
            self._draft.note_omission("broken-file", f"{stem}.meta.json", "this is not JSON")
            meta = {}
        first = next((record for record in source.sample if isinstance(record, dict)), {})
        kind = as_text(meta.get("agentType")) or as_text(first.get("agentName"))
        data: dict[str, Any] = {}
        for name, value in (
            ("spawn_reason", meta.get("description")),
            ("tooling_scope", kind),
            ("subagent_type", kind),
            ("model", meta.get("model")),
            ("status", meta.get("status")),
            ("call", meta.get("toolUseId")),
        ):
            if as_text(value):
                data[name] = value
        started = to_utc(meta.get("createdAt")) or to_utc(first.get("timestamp"))
        agent = SubagentFile(stem.removeprefix(_PREFIX), source, kind, data, started)
        if model := as_text(meta.get("model")):
            self._models[agent.agent_id] = model
        return agent


def _agent_alone(source: Source) -> tuple[str | None, str | None]:
    """The id and the kind of the subagent whose own file this is; None for a session's file."""
    records = [record for record in source.sample if isinstance(record, dict)]
    if not records or not all(record.get("isSidechain") is True for record in records):
        return None, None
    first = next((record for record in records if as_text(record.get("agentId"))), {})
    return as_text(first.get("agentId")), as_text(first.get("agentName"))


def _provider(model: str) -> str | None:
    return "other" if model.startswith(("qwen", "coder-model")) else None


def read(source: Source, draft: Draft) -> None:
    """Read the session into the draft."""
    Session(source, draft).read()
