"""Read a Copilot CLI session from its first event to its last."""

import re
from collections.abc import Callable
from typing import Any

from open_token.agents.copilot_cli.detect import LOG_FILE
from open_token.agents.copilot_cli.messages import MessageReader
from open_token.agents.copilot_cli.session_events import SessionEventReader
from open_token.builder.draft import Draft
from open_token.formats.shared.fields import as_text, drop_nulls
from open_token.formats.shared.inline_subagents import InlineAgent, InlineSubagents
from open_token.formats.shared.notes import format_kind, note_file_faults
from open_token.formats.shared.providers import ProviderTracker
from open_token.jsontools.timestamps import to_utc
from open_token.sources.source import Source

Data = dict[str, Any]
Handler = Callable[[Data, InlineAgent, str | None, str], None]
# The name in workspace.yaml, if it is a plain YAML scalar.
_WORKSPACE_NAME = re.compile(rb"^name: *([^\s\"'|>&*!%@`{\[#][^\r\n]*)", re.MULTILINE)
_BOOKKEEPING_PREFIXES = (
    "session.",
    "hook.",
    "permission.",
    "assistant.turn_",
    "tool.execution_p",
    "pending_messages.",
    # The request of a compaction as it was sent; its summary is in the event that ends it.
    "model.",
    "subagent.configured",
    "subagent.selected",
)
_SUBAGENT_TOTALS = {
    "model": "model",
    "totalToolCalls": "tool_uses",
    "totalTokens": "total_tokens",
    "durationMs": "duration_ms",
    "error": "error",
}


class SessionReader:
    """Reads the log of a session in the order of the file.

    The chain of parentIds is not used: it does not always hold.
    """

    def __init__(self, source: Source, draft: Draft) -> None:
        self._source = source
        self._draft = draft
        self._client = draft.get_actor("system", "Copilot CLI")
        self._main = InlineAgent()
        self._unknown_agent: str | None = None
        """The agentId of the current event, if no subagent has it yet: it is about to start."""
        self._spans = InlineSubagents(draft)
        self._messages = MessageReader(draft, self._client, ProviderTracker())
        self._session_events = SessionEventReader(draft, self._client, self._main)
        self._handlers: dict[str, Handler] = {
            "session.start": self._read_start,
            "session.resume": self._read_resume,
            "session.context_changed": self._session_events.read_context_change,
            "session.title_changed": self._read_title,
            "session.model_change": self._session_events.read_model_change,
            "session.mode_changed": self._session_events.read_mode_change,
            "session.info": self._session_events.read_notice,
            "session.warning": self._session_events.read_notice,
            "session.handoff": self._session_events.read_handoff,
            "session.error": self._session_events.read_error,
            "session.truncation": self._session_events.read_truncation,
            "session.compaction_complete": self._session_events.read_compaction,
            "session.task_complete": self._read_task_complete,
            "session.shutdown": self._read_shutdown,
            "system.message": self._messages.read_system,
            "system.notification": self._messages.read_notification,
            "user.message": self._messages.read_user,
            "skill.invoked": self._messages.read_skill,
            "session.usage_record": self._messages.read_usage,
            "session.binary_asset": self._messages.read_asset,
            "assistant.reasoning": self._messages.read_reasoning,
            "assistant.message": self._messages.read_assistant,
            "tool.user_requested": self._messages.read_user_requested,
            "tool.execution_start": self._messages.read_start,
            "tool.execution_complete": self._messages.read_completion,
            "subagent.started": self._start_subagent,
            "subagent.completed": self._end_subagent,
            "subagent.failed": self._end_subagent,
            "abort": self._session_events.read_abort,
        }

    def read(self) -> None:
        """Read the whole session into the draft."""
        for number, record in self._source.records():
            data = record.get("data") if type(record) is dict else None
            if type(data) is not dict:
                self._draft.note_omission(
                    "skipped-record", f"line {number}", "line is not an event"
                )
            else:
                self._read_event(record, data, f"line {number}")
        for agent in (self._main, *self._spans.list_open()):
            self._messages.flush_reasoning(agent)
        self._spans.finish()
        self._messages.flush_usage(self._main)
        if not self._messages.has_request_usage:
            self._session_events.assign_totals()
        self._describe_conversation()

    def _read_event(self, record: Data, data: Data, position: str) -> None:
        kind = record.get("type")
        handler = self._handlers.get(kind) if isinstance(kind, str) else None
        agent = self._find_agent(record, data)
        agent.records += 1
        if handler is None:
            code = "bookkeeping" if _is_bookkeeping(kind) else "unknown-record"
            self._draft.note_omission(code, position, f"event {format_kind(kind)}")
        elif not agent.muted or handler == self._end_subagent:
            # Reasoning waits for its answer; any other event ends it.
            if kind != "assistant.message":
                self._messages.flush_reasoning(agent)
            handler(data, agent, to_utc(record.get("timestamp")), position)

    def _find_agent(self, record: Data, data: Data) -> InlineAgent:
        """Return whose event it is: newer logs name the agent, older ones its call."""
        agent_id = as_text(record.get("agentId"))
        call_id = as_text(data.get("parentToolCallId"))
        self._unknown_agent = None
        if agent_id is None and call_id is None:
            return self._main
        agent = self._spans.find(agent_id) or self._spans.find(call_id)
        # The start of the subagent was not logged, or its ids changed.
        if agent is None and record.get("type") != "subagent.started":
            agent = self._spans.latest()
        if agent is None:
            self._unknown_agent = agent_id
            return self._main
        if agent_id:
            self._spans.add_alias(agent_id, agent)
        return agent

    def _read_start(self, data: Data, agent: InlineAgent, ts: str | None, position: str) -> None:
        conversation = self._draft.conversation
        session_id = as_text(data.get("sessionId"))
        if session_id:
            conversation.setdefault("id", session_id)
        started = to_utc(data.get("startTime")) or ts
        if started:
            conversation.setdefault("started_at", started)
        self._session_events.set_model(as_text(data.get("selectedModel")))
        facts = {"session_id": session_id, "version": as_text(data.get("copilotVersion"))}
        self._session_events.update_context(data.get("context"), facts, ts)

    def _read_resume(self, data: Data, agent: InlineAgent, ts: str | None, position: str) -> None:
        self._session_events.set_model(as_text(data.get("selectedModel")))
        self._session_events.update_context(data.get("context"), {"resumed": True}, ts)

    def _read_title(self, data: Data, agent: InlineAgent, ts: str | None, position: str) -> None:
        title = as_text(data.get("title"))
        if title:
            self._draft.conversation["title"] = title

    def _read_task_complete(
        self, data: Data, agent: InlineAgent, ts: str | None, position: str
    ) -> None:
        last_output = self._messages.last_output
        self._session_events.add_task_complete(data, last_output, agent.span, ts)

    def _read_shutdown(self, data: Data, agent: InlineAgent, ts: str | None, position: str) -> None:
        answers = len(self._messages.answers)
        self._session_events.add_shutdown(data, ts, answers, self._messages.output_tokens)

    def _start_subagent(
        self, data: Data, agent: InlineAgent, ts: str | None, position: str
    ) -> None:
        call_id = as_text(data.get("toolCallId"))
        agent_type = as_text(data.get("agentName"))
        # The event of the start may already name the subagent itself.
        parent = self._main if agent.call == call_id else agent
        child = InlineAgent(
            name=agent_type or "subagent",
            instance=self._unknown_agent or call_id,
            call=call_id or "",
            model=as_text(data.get("model")),
        )
        facts = {
            "spawn_reason": as_text(data.get("agentDescription")),
            "tooling_scope": agent_type,
            "subagent_type": agent_type,
            "display_name": as_text(data.get("agentDisplayName")),
            "model": child.model,
        }
        actor = self._messages.get_actor(parent)
        self._spans.start(child, drop_nulls(facts), actor, ts, parent)

    def _end_subagent(self, data: Data, agent: InlineAgent, ts: str | None, position: str) -> None:
        ended = self._spans.find(as_text(data.get("toolCallId")))
        if ended is None:
            self._draft.note_omission(
                "bookkeeping", position, "end of a subagent that was not started"
            )
            return
        facts = {
            name: data[key] for key, name in _SUBAGENT_TOTALS.items() if data.get(key) is not None
        }
        self._spans.end(ended, facts, ts)

    def _describe_conversation(self) -> None:
        conversation = self._draft.conversation
        conversation["source_runtime"] = "cli"
        self._messages.providers.set_provider(conversation)
        if "title" in conversation:
            return
        workspace = self._source.open_sibling("workspace.yaml")
        match = _WORKSPACE_NAME.search(workspace.head) if workspace else None
        if match:
            conversation["title"] = match[1].decode("utf-8", "replace").strip()


def _is_bookkeeping(kind: Any) -> bool:
    """Return whether events of this type describe the runtime and no content."""
    return isinstance(kind, str) and kind.startswith(_BOOKKEEPING_PREFIXES)


def read(source: Source, draft: Draft) -> None:
    """Read the session: an event log, or the folder that holds one."""
    log = source
    if source.shape == "folder":
        logs = source.find_files(LOG_FILE)
        if logs:
            log = logs[0]
    SessionReader(log, draft).read()
    if log is not source:
        note_file_faults(log, LOG_FILE, draft)
