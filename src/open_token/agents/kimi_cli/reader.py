"""Read a Kimi session: an event log or a wire log, with the files of its subagents."""

import re
from pathlib import PurePath

from open_token.agents.kimi_cli.event_log import EventLogReader
from open_token.agents.kimi_cli.steps import Body
from open_token.agents.kimi_cli.wire_log import WireLogReader
from open_token.builder.draft import Draft
from open_token.errors import InputError
from open_token.formats.shared.fields import as_text
from open_token.formats.shared.thread import SubagentFile, SubagentWriter, Thread
from open_token.jsontools.timestamps import from_epoch
from open_token.sources.source import Source

_LOG_FILE = "wire.jsonl"
_MAIN_AGENT = "main"
_COPIED_SUBAGENT = re.compile(r"(?:subagent_)?(agent-[A-Za-z0-9_-]{1,60})\.jsonl")


class SessionReader:
    """Reads one log with all that belongs to it.

    Kimi stores it as `<session>/agents/<agent>/wire.jsonl`; a copy may be anywhere.
    """

    def __init__(self, source: Source, draft: Draft) -> None:
        self._source = source
        self._draft = draft
        self._path = PurePath(source.name).parts
        self._is_in_place = (
            len(self._path) > 3 and self._path[-1] == _LOG_FILE and self._path[-3] == "agents"
        )
        self._is_subagent = _is_subagent_log(source)
        self._agent_id = self._find_agent_id() if self._is_subagent else None
        client = draft.get_actor("system", "Kimi Code CLI")
        self._main = Thread(draft, client, _find_provider, agent_id=self._agent_id)
        if self._is_subagent:
            self._main.user_actor = draft.get_actor("model", "parent agent")
        self._subagents = SubagentWriter(self._read_file)
        self._files: dict[str, SubagentFile] | None = None

    def read(self) -> None:
        """Read the whole session into the draft."""
        self._read_file(self._source, self._main)
        remaining: list[SubagentFile] = []
        if self._is_in_place and not self._is_subagent:
            remaining = list(self._list_subagents().values())
        self._subagents.finish(remaining, self._main)
        self._describe_conversation()

    def _read_file(self, source: Source, thread: Thread) -> None:
        log: EventLogReader | WireLogReader
        if _is_wire_log(source):
            log = WireLogReader(thread)
        else:
            log = EventLogReader(thread, self._read_subagents)
        for number, record in source.records():
            log.read_record(record, f"line {number}")
        log.finish()

    def _read_subagents(
        self, thread: Thread, agent_ids: list[str], key: str | None, arguments: Body
    ) -> None:
        """Read the subagents of a call, right before the result of the call."""
        agent_type = as_text(arguments.get("subagent_type"))
        reason = as_text(arguments.get("description")) or as_text(arguments.get("prompt"))
        data: Body = {}
        if reason:
            data["spawn_reason"] = reason
        if agent_type:
            data |= {"tooling_scope": agent_type, "subagent_type": agent_type}
        for agent_id in agent_ids:
            agent = self._list_subagents().get(agent_id)
            if agent is not None:
                agent.kind = agent_type
                agent.data = dict(data)
                self._subagents.add(agent, thread, key)

    def _list_subagents(self) -> dict[str, SubagentFile]:
        """Return the subagents by their ids: in sibling folders, or as copies in the same one."""
        if self._files is not None:
            return self._files
        self._files = {}
        if self._is_in_place:
            for source in self._source.find_siblings(f"../*/{_LOG_FILE}"):
                agent_id = PurePath(source.name).parts[-2]
                if agent_id not in (_MAIN_AGENT, self._path[-2]):
                    self._files[agent_id] = SubagentFile(
                        agent_id, source, started=_read_start(source)
                    )
            return self._files
        for source in self._source.find_siblings("*agent-*.jsonl"):
            name = PurePath(source.name).name
            match = _COPIED_SUBAGENT.fullmatch(name)
            if match and name != PurePath(self._source.name).name:
                agent_id = match[1]
                self._files[agent_id] = SubagentFile(agent_id, source, started=_read_start(source))
        return self._files

    def _find_agent_id(self) -> str | None:
        """Return the id of the subagent whose own log this is, from its path."""
        if self._is_in_place:
            return self._path[-2]
        match = _COPIED_SUBAGENT.fullmatch(self._path[-1]) if self._path else None
        return match[1] if match else None

    def _describe_conversation(self) -> None:
        conversation = self._draft.conversation
        if self._is_in_place:
            session_id = self._path[-4]
            if self._agent_id:
                session_id = f"{session_id}_{self._agent_id}"
            conversation["id"] = session_id
        elif len(self._path) > 1 and self._path[-1] == _LOG_FILE:
            conversation["id"] = self._path[-2]
        state = self._read_state()
        title = as_text(state.get("title")) or as_text(state.get("custom_title"))
        if title:
            conversation["title"] = title
        started = _read_start(self._source) or self._draft.first_ts
        if started:
            conversation["started_at"] = started
        conversation["source_runtime"] = "cli"
        conversation["provider"] = "other"

    def _read_state(self) -> Body:
        """Read the `state.json` of the session; empty if there is none."""
        if self._is_subagent or not self._path or self._path[-1] != _LOG_FILE:
            return {}
        name = "../../state.json" if self._is_in_place else "state.json"
        files = self._source.find_siblings(name)
        if not files:
            return {}
        try:
            state = files[0].document
        except InputError:
            self._draft.note_omission("broken-file", "state.json", "not valid JSON")
            return {}
        return state if isinstance(state, dict) else {}


def _is_subagent_log(source: Source) -> bool:
    """Return whether the first prompt came from another agent."""
    for record in source.sample:
        if isinstance(record, dict) and record.get("type") == "turn.prompt":
            origin = record.get("origin")
            return isinstance(origin, dict) and origin.get("name") == "subagent"
    return False


def _is_wire_log(source: Source) -> bool:
    """Return whether it is a log of the Python CLI, whose records are messages on a wire."""
    return any(
        isinstance(record, dict)
        and "timestamp" in record
        and isinstance(record.get("message"), dict)
        for record in source.sample
    )


def _read_start(source: Source) -> str | None:
    first = source.sample[0] if source.sample else None
    return from_epoch(first.get("created_at"), 0.001) if isinstance(first, dict) else None


def _find_provider(model: str) -> str | None:
    return "other" if "kimi" in model or "moonshot" in model else None


def read(source: Source, draft: Draft) -> None:
    """Read the session into the draft."""
    SessionReader(source, draft).read()
