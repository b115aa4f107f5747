"""One Copilot CLI session from its first event to its last: who tells each event, and what the
whole is called."""

import re
from collections.abc import Callable
from typing import Any

from open_token.agents.copilot_cli.detect import LOG_FILE
from open_token.agents.copilot_cli.messages import Talk
from open_token.agents.copilot_cli.side_events import Asides
from open_token.builder.draft import Draft
from open_token.formats.shared.fields import as_text, pick_fields
from open_token.formats.shared.inline_subagents import InlineAgent, InlineSubagents
from open_token.formats.shared.notes import format_kind, note_file_faults
from open_token.formats.shared.providers import ProviderTracker
from open_token.jsontools.timestamps import to_utc
from open_token.sources.source import Source

Data = dict[str, Any]
Telling = Callable[[Data, InlineAgent, str | None, str], None]
_TITLE = re.compile(rb"^name: *([^\s\"'|>&*!%@`{\[#][^\r\n]*)", re.MULTILINE)


class Session:
    """Reads a session's log. The chain of parents is a hint that does not always hold; the order of
    the file does."""

    def __init__(self, source: Source, draft: Draft) -> None:
        self._source = source
        self._draft = draft
        self._client = draft.get_actor("system", "Copilot CLI")
        self._main = InlineAgent()
        self._newcomer: str | None = None
        """The id of an agent that is not known yet: one that starts."""
        self._spans = InlineSubagents(draft)
        self._talk = Talk(draft, self._client, ProviderTracker())
        self._asides = Asides(draft, self._client, self._main)
        self._events: dict[str, Telling] = {
            "session.start": self._start,
            "session.resume": self._resume,
            "session.context_changed": self._asides.context,
            "session.title_changed": self._renamed,
            "session.model_change": self._asides.model_change,
            "session.mode_changed": self._asides.mode_changed,
            "session.info": self._asides.notice,
            "session.warning": self._asides.notice,
            "session.handoff": self._asides.handoff,
            "session.error": self._asides.error,
            "session.truncation": self._asides.truncation,
            "session.compaction_complete": self._asides.compaction,
            "session.task_complete": self._task_complete,
            "session.shutdown": self._shutdown,
            "system.message": self._talk.system,
            "system.notification": self._talk.notification,
            "user.message": self._talk.user,
            "skill.invoked": self._talk.skill,
            "session.usage_record": self._talk.spending,
            "session.binary_asset": self._talk.asset,
            "assistant.reasoning": self._talk.reasoning,
            "assistant.message": self._talk.assistant,
            "tool.user_requested": self._talk.user_requested,
            "tool.execution_start": self._talk.started,
            "tool.execution_complete": self._talk.completed,
            "subagent.started": self._agent_started,
            "subagent.completed": self._agent_ended,
            "subagent.failed": self._agent_ended,
            "abort": self._asides.abort,
        }

    def read(self) -> None:
        """Tell everything."""
        for number, record in self._source.records():
            data = record.get("data") if type(record) is dict else None
            if type(data) is not dict:
                self._draft.note_omission(
                    "skipped-record", f"line {number}", "a line that is no event"
                )
            else:
                self._tell(record, data, f"line {number}")
        for agent in (self._main, *self._spans.list_open()):
            self._talk.finish_thought(agent)
        self._spans.finish()
        self._talk.finish_spending(self._main)
        if not self._talk.is_recorded:
            self._asides.finish()
        self._name()

    def _tell(self, record: Data, data: Data, place: str) -> None:
        kind = record.get("type")
        tell = self._events.get(kind) if isinstance(kind, str) else None
        agent = self._agent_of(record, data)
        agent.records += 1
        if tell is None:
            code = "bookkeeping" if _is_bookkeeping(kind) else "unknown-record"
            self._draft.note_omission(code, place, f"event {format_kind(kind)}")
        elif not agent.muted or tell == self._agent_ended:
            if kind != "assistant.message":
                self._talk.finish_thought(agent)
            tell(data, agent, to_utc(record.get("timestamp")), place)

    def _agent_of(self, record: Data, data: Data) -> InlineAgent:
        """Whose event it is: newer logs name the agent, older ones the call that it serves."""
        instance, call = as_text(record.get("agentId")), as_text(data.get("parentToolCallId"))
        self._newcomer = None
        if instance is None and call is None:
            return self._main
        agent = self._spans.find(instance) or self._spans.find(call)
        if agent is None and record.get("type") != "subagent.started":
            agent = self._spans.latest()
        if agent and instance:
            self._spans.add_alias(instance, agent)
        self._newcomer = None if agent else instance
        return agent or self._main

    def _start(self, data: Data, agent: InlineAgent, ts: str | None, place: str) -> None:
        conversation = self._draft.conversation
        if (name := as_text(data.get("sessionId"))) and "id" not in conversation:
            conversation["id"] = name
        if started := to_utc(data.get("startTime")) or ts:
            conversation.setdefault("started_at", started)
        self._asides.choose_model(as_text(data.get("selectedModel")))
        facts = {"session_id": name, "version": as_text(data.get("copilotVersion"))}
        self._asides.where(data.get("context"), facts, ts)

    def _resume(self, data: Data, agent: InlineAgent, ts: str | None, place: str) -> None:
        self._asides.choose_model(as_text(data.get("selectedModel")))
        self._asides.where(data.get("context"), {"resumed": True}, ts)

    def _renamed(self, data: Data, agent: InlineAgent, ts: str | None, place: str) -> None:
        if title := as_text(data.get("title")):
            self._draft.conversation["title"] = title

    def _task_complete(self, data: Data, agent: InlineAgent, ts: str | None, place: str) -> None:
        self._asides.task_complete(data, self._talk.last_output, agent.span, ts)

    def _shutdown(self, data: Data, agent: InlineAgent, ts: str | None, place: str) -> None:
        self._asides.shutdown(data, ts, len(self._talk.answers), self._talk.counted)

    def _agent_started(self, data: Data, agent: InlineAgent, ts: str | None, place: str) -> None:
        call, kind = as_text(data.get("toolCallId")), as_text(data.get("agentName"))
        parent = self._main if agent.call == call else agent
        instance = self._newcomer or call
        child = InlineAgent(
            name=kind or "subagent",
            instance=instance,
            call=call or "",
            model=as_text(data.get("model")),
        )
        facts = {
            "spawn_reason": as_text(data.get("agentDescription")),
            "tooling_scope": kind,
            "subagent_type": kind,
            "display_name": as_text(data.get("agentDisplayName")),
            "model": child.model,
        }
        self._spans.start(child, pick_fields(facts, *facts), self._talk.speaker(parent), ts, parent)

    def _agent_ended(self, data: Data, agent: InlineAgent, ts: str | None, place: str) -> None:
        ended = self._spans.find(as_text(data.get("toolCallId")))
        if ended is None:
            self._draft.note_omission(
                "bookkeeping", place, "the end of a subagent that was not started"
            )
            return
        names = {"model": "model", "totalToolCalls": "tool_uses", "totalTokens": "total_tokens"}
        names |= {"durationMs": "duration_ms", "error": "error"}
        self._spans.end(
            ended,
            {ours: data[name] for name, ours in names.items() if data.get(name) is not None},
            ts,
        )

    def _name(self) -> None:
        """The facts about the whole; a title is in a file beside the log."""
        conversation = self._draft.conversation
        conversation["source_runtime"] = "cli"
        self._talk.providers.set_provider(conversation)
        beside = self._source.open_sibling("workspace.yaml")
        if "title" not in conversation and beside and (found := _TITLE.search(beside.head)):
            conversation["title"] = found[1].decode("utf-8", "replace").strip()


def _is_bookkeeping(kind: Any) -> bool:
    """Events that tell how the runtime works and nothing that was said."""
    known = (
        "session.",
        "hook.",
        "permission.",
        "assistant.turn_",
        "tool.execution_p",
        "pending_messages.",
    )
    # The request of a compaction is logged as it went over the wire; its summary stands in the
    # event that ends it.
    newer = ("model.", "subagent.configured", "subagent.selected")
    return isinstance(kind, str) and kind.startswith(known + newer)


def read(source: Source, draft: Draft) -> None:
    """Read the session: an event log, or the folder that holds one."""
    log = source
    if source.shape == "folder" and (logs := source.find_files(LOG_FILE)):
        log = logs[0]
    Session(log, draft).read()
    if log is not source:
        note_file_faults(log, LOG_FILE, draft)
