"""Read the wire log of Kimi's Python CLI: messages between its parts.

Messages of subagents are wrapped in SubagentEvent messages of their parent.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from open_token.agents.kimi_cli.steps import Body, Step, build_content, parse_usage
from open_token.formats.shared.fields import as_text, parse_arguments, pick_fields
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.thread import Thread
from open_token.jsontools.timestamps import from_epoch

_SILENT_TYPES = ("TurnEnd", "HookTriggered", "MCPLoadingBegin", "MCPLoadingEnd", "CompactionBegin")
_NOTICE_TYPES = (
    "Notification",
    "PlanDisplay",
    "QuestionRequest",
    "QuestionResponse",
    "HookResolved",
    "BtwBegin",
    "BtwEnd",
)
_APPROVAL_FIELDS = (
    "id",
    "request_id",
    "tool_call_id",
    "sender",
    "action",
    "description",
    "response",
    "feedback",
)


@dataclass(slots=True)
class _AgentState:
    """The main agent or a subagent, with its current step."""

    thread: Thread
    step: Step
    records: int = 0
    is_muted: bool = False


class WireLogReader:
    """Adds the events of one file to the draft."""

    def __init__(self, thread: Thread) -> None:
        self._main = _AgentState(thread, Step(thread))
        self._subagents: dict[str, dict[str, _AgentState]] = {}
        """The running subagents by the call that started them, then by their ids."""

    def read_record(self, record: Any, position: str) -> None:
        """Read one record."""
        message = record.get("message") if isinstance(record, dict) else None
        if isinstance(message, dict):
            self._read_message(self._main, message, from_epoch(record.get("timestamp")), position)
        elif not isinstance(record, dict) or record.get("type") != "metadata":
            self._main.thread.note_omission("skipped-record", position, "record without a message")

    def finish(self) -> None:
        """End the subagents whose call was never answered."""
        for call_id in list(self._subagents):
            self._end_subagents(call_id)

    def _read_message(
        self, agent: _AgentState, message: Body, ts: str | None, position: str
    ) -> None:
        kind = message.get("type")
        payload = message.get("payload")
        if not isinstance(payload, dict):
            payload = {}
        thread = agent.thread
        thread.last_ts = ts or thread.last_ts
        handler = _HANDLERS.get(kind) if isinstance(kind, str) else None
        if handler is not None:
            handler(self, agent, payload, ts, position)
        elif kind in _NOTICE_TYPES:
            thread.add_annotation({"kind": "notice", "event": kind, "record": payload}, ts=ts)
        elif kind not in _SILENT_TYPES:
            thread.note_omission("skipped-record", position, f"type {format_kind(kind)}")

    def _read_input(self, agent: _AgentState, payload: Body, ts: str | None, position: str) -> None:
        content = build_content(payload.get("user_input"))
        if content != "":
            agent.thread.add_message("user", content, agent.thread.get_user_actor(), ts=ts)

    def _begin_step(self, agent: _AgentState, payload: Body, ts: str | None, position: str) -> None:
        agent.step = Step(agent.thread)

    def _read_part(self, agent: _AgentState, payload: Body, ts: str | None, position: str) -> None:
        agent.thread.set_model(None)
        agent.step.add_part(payload, ts)

    def _read_call(self, agent: _AgentState, payload: Body, ts: str | None, position: str) -> None:
        function = payload.get("function")
        if not isinstance(function, dict):
            function = payload
        agent.thread.set_model(None)
        given = parse_arguments(function.get("arguments"))
        tool = as_text(function.get("name"))
        agent.step.add_call(as_text(payload.get("id")), tool, given, ts, position)

    def _read_result(
        self, agent: _AgentState, payload: Body, ts: str | None, position: str
    ) -> None:
        call_id = as_text(payload.get("tool_call_id"))
        result = payload.get("return_value", payload.get("result"))
        if not isinstance(result, dict):
            result = {"output": result}
        facts: Body = {"is_error": True} if result.get("is_error") is True else {}
        for name in ("message", "brief"):
            text = as_text(result.get(name))
            if text:
                facts[name] = text
        if call_id:
            self._end_subagents(call_id)
        output = build_content(result.get("output"))
        agent.thread.add_tool_result(call_id, output, ts=ts, facts=facts or None)

    def _read_status(
        self, agent: _AgentState, payload: Body, ts: str | None, position: str
    ) -> None:
        agent.step.set_usage(parse_usage(payload.get("token_usage")), ts)

    def _read_interruption(
        self, agent: _AgentState, payload: Body, ts: str | None, position: str
    ) -> None:
        agent.thread.add_annotation({"kind": "interrupted"}, ts=ts)

    def _read_compaction(
        self, agent: _AgentState, payload: Body, ts: str | None, position: str
    ) -> None:
        agent.thread.add_annotation({"kind": "compaction"}, ts=ts)

    def _read_approval(
        self, agent: _AgentState, payload: Body, ts: str | None, position: str
    ) -> None:
        agent.thread.add_annotation(
            {"kind": "approval", **pick_fields(payload, *_APPROVAL_FIELDS)}, ts=ts
        )

    def _read_subagent_event(
        self, agent: _AgentState, payload: Body, ts: str | None, position: str
    ) -> None:
        """Read a message of a subagent; its first one opens a span."""
        call_id = as_text(payload.get("parent_tool_call_id")) or as_text(
            payload.get("task_tool_call_id")
        )
        call_id = call_id or ""
        agent_id = as_text(payload.get("agent_id")) or ""
        running = self._subagents.setdefault(call_id, {})
        child = running.get(agent_id)
        if child is None:
            agent_type = as_text(payload.get("subagent_type"))
            child = self._start_subagent(agent, call_id, agent_id, agent_type, ts)
            running[agent_id] = child
        child.records += 1
        event = payload.get("event")
        if isinstance(event, dict) and not child.is_muted:
            self._read_message(child, event, ts, position)

    def _start_subagent(
        self,
        agent: _AgentState,
        call_id: str,
        agent_id: str,
        agent_type: str | None,
        ts: str | None,
    ) -> _AgentState:
        draft = agent.thread.draft
        thread = agent.thread.create_child(agent_type, agent_id or None, agent_id or "subagent")
        # Its messages are in the file of the parent.
        thread.label = ""
        if draft.subagents != "none":
            data: Body = {"kind": "subagent"}
            if agent_id:
                data["agent_id"] = agent_id
            if agent_type:
                data |= {"tooling_scope": agent_type, "subagent_type": agent_type}
            key = agent.thread.get_call_key(call_id)
            thread.span = draft.start_span(data, thread.user_actor, ts=ts, call=key)
        return _AgentState(thread, Step(thread), is_muted=draft.subagents != "inline")

    def _end_subagents(self, call_id: str) -> None:
        for child in self._subagents.pop(call_id, {}).values():
            thread = child.thread
            draft = thread.draft
            if thread.span:
                data = {"records": child.records} if child.is_muted else {}
                draft.end_span(thread.span, data, ts=thread.last_ts, call=call_id)
            else:
                draft.note_omission(
                    "subagent",
                    f"event {draft.count}",
                    "what a subagent did is left out (subagents=none)",
                )


_HANDLERS: dict[str, Callable[[WireLogReader, _AgentState, Body, str | None, str], None]] = {
    "TurnBegin": WireLogReader._read_input,
    "SteerInput": WireLogReader._read_input,
    "StepBegin": WireLogReader._begin_step,
    "ContentPart": WireLogReader._read_part,
    "ToolCall": WireLogReader._read_call,
    "ToolCallRequest": WireLogReader._read_call,
    "ToolResult": WireLogReader._read_result,
    "StatusUpdate": WireLogReader._read_status,
    "StepInterrupted": WireLogReader._read_interruption,
    "CompactionEnd": WireLogReader._read_compaction,
    "ApprovalRequest": WireLogReader._read_approval,
    "ApprovalResponse": WireLogReader._read_approval,
    "ApprovalRequestResolved": WireLogReader._read_approval,
    "SubagentEvent": WireLogReader._read_subagent_event,
}
