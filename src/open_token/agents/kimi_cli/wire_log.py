"""The wire log of Kimi's Python CLI: messages between its parts, with those of subagents wrapped in
them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from open_token.agents.kimi_cli.parts import Step, content, usage
from open_token.formats.shared.fields import as_text, parse_arguments, pick_fields
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.thread import Thread
from open_token.jsontools.timestamps import from_epoch

_SILENT = ("TurnEnd", "HookTriggered", "MCPLoadingBegin", "MCPLoadingEnd", "CompactionBegin")
_NOTICES = (
    "Notification",
    "PlanDisplay",
    "QuestionRequest",
    "QuestionResponse",
    "HookResolved",
    "BtwBegin",
    "BtwEnd",
)
Body = dict[str, Any]


@dataclass(slots=True)
class _Thread:
    """The main agent or a subagent: its strand and its step."""

    strand: Thread
    step: Step
    records: int = 0
    muted: bool = False


class Wire:
    """Tells the records of one file."""

    def __init__(self, strand: Thread) -> None:
        self._main = _Thread(strand, Step(strand))
        self._below: dict[str, dict[str, _Thread]] = {}
        """By the call that started them: the subagents at work, by their ids."""

    def record(self, record: Any, place: str) -> None:
        """Tell one record, whatever it is."""
        message = record.get("message") if isinstance(record, dict) else None
        if not isinstance(message, dict):
            if not isinstance(record, dict) or record.get("type") != "metadata":
                self._main.strand.note_omission(
                    "skipped-record", place, "a record without a message"
                )
            return
        ts = from_epoch(record.get("timestamp"))
        self._tell(self._main, message, ts, place)

    def finish(self) -> None:
        """No record is left: subagents whose call was never answered end here."""
        for call in list(self._below):
            self._close(call)

    def _tell(self, thread: _Thread, message: Body, ts: str | None, place: str) -> None:
        kind, payload = message.get("type"), message.get("payload")
        held = payload if isinstance(payload, dict) else {}
        strand = thread.strand
        strand.last_ts = ts or strand.last_ts
        tell = _TELLERS.get(kind) if isinstance(kind, str) else None
        if tell is not None:
            tell(self, thread, held, ts, place)
        elif kind in _NOTICES:
            strand.add_annotation({"kind": "notice", "event": kind, "record": held}, ts=ts)
        elif kind not in _SILENT:
            strand.note_omission("skipped-record", place, f"type {format_kind(kind)}")

    def _turn(self, thread: _Thread, payload: Body, ts: str | None, place: str) -> None:
        strand = thread.strand
        if (said := content(payload.get("user_input"))) != "":
            strand.add_message("user", said, strand.get_user_actor(), ts=ts)

    def _begin(self, thread: _Thread, payload: Body, ts: str | None, place: str) -> None:
        thread.step = Step(thread.strand)

    def _part(self, thread: _Thread, payload: Body, ts: str | None, place: str) -> None:
        thread.strand.set_model(None)
        thread.step.part(payload, ts)

    def _call(self, thread: _Thread, payload: Body, ts: str | None, place: str) -> None:
        function = payload.get("function")
        named = function if isinstance(function, dict) else payload
        thread.strand.set_model(None)
        given = parse_arguments(named.get("arguments"))
        thread.step.add_tool_call(
            as_text(payload.get("id")), as_text(named.get("name")), given, ts, place
        )

    def _result(self, thread: _Thread, payload: Body, ts: str | None, place: str) -> None:
        native, value = (
            as_text(payload.get("tool_call_id")),
            payload.get("return_value", payload.get("result")),
        )
        held = value if isinstance(value, dict) else {"output": value}
        facts: Body = {"is_error": True} if held.get("is_error") is True else {}
        facts |= {name: text for name in ("message", "brief") if (text := as_text(held.get(name)))}
        if native:
            self._close(native)
        thread.strand.add_tool_result(
            native, content(held.get("output")), ts=ts, facts=facts or None
        )

    def _status(self, thread: _Thread, payload: Body, ts: str | None, place: str) -> None:
        thread.step.spend(usage(payload.get("token_usage")), ts)

    def _interrupted(self, thread: _Thread, payload: Body, ts: str | None, place: str) -> None:
        thread.strand.add_annotation({"kind": "interrupted"}, ts=ts)

    def _compacted(self, thread: _Thread, payload: Body, ts: str | None, place: str) -> None:
        thread.strand.add_annotation({"kind": "compaction"}, ts=ts)

    def _approval(self, thread: _Thread, payload: Body, ts: str | None, place: str) -> None:
        names = (
            "id",
            "request_id",
            "tool_call_id",
            "sender",
            "action",
            "description",
            "response",
            "feedback",
        )
        thread.strand.add_annotation({"kind": "approval", **pick_fields(payload, *names)}, ts=ts)

    def _subagent(self, thread: _Thread, payload: Body, ts: str | None, place: str) -> None:
        """A message of a subagent, in the span that its first one opens."""
        call = (
            as_text(payload.get("parent_tool_call_id"))
            or as_text(payload.get("task_tool_call_id"))
            or ""
        )
        agent_id, event = as_text(payload.get("agent_id")) or "", payload.get("event")
        working = self._below.setdefault(call, {})
        child = working.get(agent_id)
        if child is None:
            child = working[agent_id] = self._open(thread, call, agent_id, payload, ts)
        child.records += 1
        if isinstance(event, dict) and not child.muted:
            self._tell(child, event, ts, place)

    def _open(
        self, thread: _Thread, call: str, agent_id: str, payload: Body, ts: str | None
    ) -> _Thread:
        draft, kind = thread.strand.draft, as_text(payload.get("subagent_type"))
        strand = thread.strand.create_child(kind, agent_id or None, agent_id or "subagent")
        strand.label = ""
        if draft.subagents != "none":
            data: Body = {"kind": "subagent"} | ({"agent_id": agent_id} if agent_id else {})
            data |= {"tooling_scope": kind, "subagent_type": kind} if kind else {}
            strand.span = draft.start_span(
                data, strand.user_actor, ts=ts, call=thread.strand.get_call_key(call)
            )
        return _Thread(strand, Step(strand), muted=draft.subagents != "inline")

    def _close(self, call: str) -> None:
        for child in self._below.pop(call, {}).values():
            strand, draft = child.strand, child.strand.draft
            if strand.span:
                data = {"records": child.records} if child.muted else {}
                draft.end_span(strand.span, data, ts=strand.last_ts, call=call)
            else:
                draft.note_omission(
                    "subagent",
                    f"event {draft.count}",
                    "what a subagent did is left out (subagents=none)",
                )


_TELLERS: dict[str, Callable[[Wire, _Thread, Body, str | None, str], None]] = {
    "TurnBegin": Wire._turn,
    "SteerInput": Wire._turn,
    "StepBegin": Wire._begin,
    "ContentPart": Wire._part,
    "ToolCall": Wire._call,
    "ToolCallRequest": Wire._call,
    "ToolResult": Wire._result,
    "StatusUpdate": Wire._status,
    "StepInterrupted": Wire._interrupted,
    "CompactionEnd": Wire._compacted,
    "ApprovalRequest": Wire._approval,
    "ApprovalResponse": Wire._approval,
    "ApprovalRequestResolved": Wire._approval,
    "SubagentEvent": Wire._subagent,
}
