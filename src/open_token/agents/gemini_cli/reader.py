"""One Gemini CLI session with the subagents whose files lie in the folder of its name."""

import re
from pathlib import PurePath
from typing import Any

from open_token.agents.gemini_cli.messages import File
from open_token.agents.gemini_cli.records import records
from open_token.builder.draft import Draft
from open_token.formats.shared.fields import as_text
from open_token.formats.shared.thread import SubagentFile, SubagentWriter, Thread
from open_token.jsontools.timestamps import to_utc
from open_token.sources.source import Source

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
_REASONS = ("objective", "prompt", "request", "query", "task")
Body = dict[str, Any]


class Session:
    """Reads a session file with all that belongs to it."""

    def __init__(self, source: Source, draft: Draft) -> None:
        self._source = source
        self._draft = draft
        self._is_qwen = _is_qwen(source)
        client = draft.get_actor("system", "Qwen Code" if self._is_qwen else "Gemini CLI")
        self._main = Thread(draft, client, _provider)
        self._agents = SubagentWriter(self._run)
        self._folders: dict[str, dict[str, SubagentFile]] = {}
        self._header: Body = {}

    def read(self) -> None:
        """Tell everything."""
        self._run(self._source, self._main)
        session = as_text(self._header.get("sessionId"))
        self._agents.finish(list(self._beside(session).values()) if session else [], self._main)
        conversation = self._draft.conversation
        if session:
            conversation["id"] = session
        if title := as_text(self._header.get("summary")):
            conversation["title"] = title
        if started := to_utc(self._header.get("startTime")) or self._draft.first_ts:
            conversation["started_at"] = started
        conversation["source_runtime"] = "cli"
        if not self._is_qwen:
            conversation["provider"] = "google"

    def _run(self, source: Source, strand: Thread) -> None:
        """Tell the records of a file."""
        file = File(strand, self._agent)
        if strand is self._main:
            self._header = file.header
        for place, value in records(source):
            file.record(value, place)
        file.finish()

    def _agent(self, file: File, agent_id: str, call: Body, key: str) -> None:
        """A call is about to be answered for which a subagent worked: what it did stands before
        that."""
        session = as_text(file.header.get("sessionId"))
        agent = self._beside(session).get(agent_id) if session else None
        if agent is None:
            return
        arguments = call.get("args")
        given = arguments if isinstance(arguments, dict) else {}
        agent.kind = as_text(given.get("agent_name")) or as_text(call.get("name"))
        reason = next((text for name in _REASONS if (text := as_text(given.get(name)))), None)
        agent.data = {"spawn_reason": reason} if reason else {}
        if agent.kind:
            agent.data |= {"tooling_scope": agent.kind, "subagent_type": agent.kind}
        self._agents.add(agent, file.strand, key)

    def _beside(self, session: str) -> dict[str, SubagentFile]:
        """The subagents of a session by their ids."""
        found = self._folders.get(session)
        if found is None:
            found = self._folders[session] = {}
            up = "../" if self._header.get("kind") == "subagent" else ""
            for source in (
                self._source.find_siblings(f"{up}{session}/*.jsonl")
                if _ID.fullmatch(session)
                else []
            ):
                header = next((record for record in source.sample if isinstance(record, dict)), {})
                agent_id = as_text(header.get("sessionId")) or PurePath(source.name).stem
                found[agent_id] = SubagentFile(
                    agent_id, source, started=to_utc(header.get("startTime"))
                )
        return found


def _is_qwen(source: Source) -> bool:
    """Qwen Code wrote the same documents until the end of 2025, with another name for its model's
    messages."""
    held = [record.get("messages") for record in source.sample if isinstance(record, dict)]
    messages = [message for item in held if isinstance(item, list) for message in item[:64]]
    return any(isinstance(message, dict) and message.get("type") == "qwen" for message in messages)


def _provider(model: str) -> str | None:
    return "google" if model.startswith(("gemini", "gemma")) else None


def read(source: Source, draft: Draft) -> None:
    """Read the session into the draft."""
    Session(source, draft).read()
