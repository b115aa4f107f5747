"""Read a Gemini CLI session with its subagents, whose files are in a folder named after it."""

import re
from pathlib import PurePath
from typing import Any

from open_token.agents.gemini_cli.detect import is_stream
from open_token.agents.gemini_cli.messages import FileReader
from open_token.agents.gemini_cli.records import read_records
from open_token.agents.gemini_cli.stream import read_stream
from open_token.builder.draft import Draft
from open_token.formats.shared.fields import as_text
from open_token.formats.shared.thread import SubagentFile, SubagentWriter, Thread
from open_token.jsontools.timestamps import to_utc
from open_token.sources.source import Source

_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
_REASON_ARGUMENTS = ("objective", "prompt", "request", "query", "task")
_SAMPLE_MESSAGES = 64
Body = dict[str, Any]


class SessionReader:
    """Reads one session file with all that belongs to it."""

    def __init__(self, source: Source, draft: Draft) -> None:
        self._source = source
        self._draft = draft
        self._is_qwen = _is_qwen_document(source)
        client = draft.get_actor("system", "Qwen Code" if self._is_qwen else "Gemini CLI")
        self._main = Thread(draft, client, _find_provider)
        self._subagents = SubagentWriter(self._read_file)
        self._folders: dict[str, dict[str, SubagentFile]] = {}
        """The subagents of each session, by their ids."""
        self._header: Body = {}

    def read(self) -> None:
        """Read the whole session into the draft."""
        self._read_file(self._source, self._main)
        session_id = as_text(self._header.get("sessionId"))
        remaining = list(self._list_subagents(session_id).values()) if session_id else []
        self._subagents.finish(remaining, self._main)
        conversation = self._draft.conversation
        if session_id:
            conversation["id"] = session_id
        title = as_text(self._header.get("summary"))
        if title:
            conversation["title"] = title
        started = to_utc(self._header.get("startTime")) or self._draft.first_ts
        if started:
            conversation["started_at"] = started
        conversation["source_runtime"] = "cli"
        if not self._is_qwen:
            conversation["provider"] = "google"

    def _read_file(self, source: Source, thread: Thread) -> None:
        file = FileReader(thread, self._read_subagent)
        if thread is self._main:
            self._header = file.header
        for position, value in read_records(source):
            file.read_record(value, position)
        file.finish()

    def _read_subagent(self, file: FileReader, agent_id: str, call: Body, key: str) -> None:
        """Read the subagent of a call, right before the result of the call."""
        session_id = as_text(file.header.get("sessionId"))
        agent = self._list_subagents(session_id).get(agent_id) if session_id else None
        if agent is None:
            return
        arguments = call.get("args")
        if not isinstance(arguments, dict):
            arguments = {}
        agent.kind = as_text(arguments.get("agent_name")) or as_text(call.get("name"))
        agent.data = {}
        reasons = [as_text(arguments.get(name)) for name in _REASON_ARGUMENTS]
        reason = next(filter(None, reasons), None)
        if reason:
            agent.data["spawn_reason"] = reason
        if agent.kind:
            agent.data |= {"tooling_scope": agent.kind, "subagent_type": agent.kind}
        self._subagents.add(agent, file.thread, key)

    def _list_subagents(self, session_id: str) -> dict[str, SubagentFile]:
        """Return the subagents of a session by their ids."""
        known = self._folders.get(session_id)
        if known is not None:
            return known
        agents: dict[str, SubagentFile] = {}
        self._folders[session_id] = agents
        if not _SESSION_ID.fullmatch(session_id):
            return agents
        # The file of a subagent is itself in the folder of its session.
        up = "../" if self._header.get("kind") == "subagent" else ""
        for source in self._source.find_siblings(f"{up}{session_id}/*.jsonl"):
            header = next((record for record in source.sample if isinstance(record, dict)), {})
            agent_id = as_text(header.get("sessionId")) or PurePath(source.name).stem
            started = to_utc(header.get("startTime"))
            agents[agent_id] = SubagentFile(agent_id, source, started=started)
        return agents


def _is_qwen_document(source: Source) -> bool:
    """Return whether Qwen Code wrote the document.

    Until the end of 2025 it used the same format with another type for its answers.
    """
    for record in source.sample:
        messages = record.get("messages") if isinstance(record, dict) else None
        if not isinstance(messages, list):
            continue
        for message in messages[:_SAMPLE_MESSAGES]:
            if isinstance(message, dict) and message.get("type") == "qwen":
                return True
    return False


def _find_provider(model: str) -> str | None:
    return "google" if model.startswith(("gemini", "gemma")) else None


def read(source: Source, draft: Draft) -> None:
    """Read the session, or the stream, into the draft."""
    if is_stream(source):
        read_stream(source, draft)
    else:
        SessionReader(source, draft).read()
