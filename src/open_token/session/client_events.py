"""Translate log entries into the events that clients receive.

Each entry becomes at most one event. There are two dialects: `to_stream_item` makes the small
items of `turn:events`, whose patches hold only what is new; `to_legacy_event` makes named events
for older clients, whose patches hold the whole block and the whole turn.
"""

from collections.abc import Callable
from typing import Any, Protocol

from open_token.model.log_events import (
    AgentChanged,
    BlockAdded,
    BranchMoved,
    Compacted,
    ErrorRaised,
    EventData,
    EventImported,
    Json,
    LogEntry,
    MemoryRecalled,
    ModeChanged,
    NoticeSent,
    QuestionAnswered,
    QuestionAsked,
    ReplayChanged,
    RunEnded,
    RunStarted,
    SessionChanged,
    SignalSent,
    TextDelta,
    ToolArgumentsDelta,
    ToolCalled,
    ToolReturned,
    ToolStatusChanged,
    TurnEnded,
    TurnEventData,
    TurnOpened,
    TurnRetried,
    TurnStatusChanged,
    UsageCounted,
    dump_event_data,
    parse_event_data,
)
from open_token.model.session_types import (
    ContentBlock,
    Session,
    ToolCallProjection,
    TurnProjection,
    from_builtins,
    to_builtins,
)
from open_token.session.document_events import to_block, to_tool_call, to_tool_result

ClientEvent = tuple[str, Json]
"""The name of an event, and its payload."""

_ENVELOPE_FIELDS = ("turn_id", "loop_id", "patch")


class SessionView(Protocol):
    """Where whole turns and the session are read from: a state, or the rows of a store."""

    @property
    def session(self) -> Session:
        """The session."""
        ...

    def turn(self, turn_id: str) -> TurnProjection:
        """Return a turn."""
        ...


def to_stream_item(entry: LogEntry, view: SessionView) -> Json | None:
    """Return the `turn:events` item for an entry, or None when clients are not sent any.

    Only the end of a turn and changes of the session read from the view, and they are sent as
    they are now: a client that resumes from an old entry arrives at the same final state.
    """
    event = _to_client_event(entry, parse_event_data(entry.kind, entry.data), view)
    if event is None:
        return None
    name, payload = event
    if name == "chat:end":
        payload["stream_sequence"] = entry.seq
    return {"type": name, "payload": payload, "stream_sequence": entry.seq}


def to_legacy_event(entry: LogEntry, view: SessionView) -> ClientEvent | None:
    """Return the event for older clients, whose patches hold the whole block and turn.

    Call it after the entry was applied and before the next one is: the whole turn is read from
    the view.
    """
    data = parse_event_data(entry.kind, entry.data)
    event = _to_client_event(entry, data, view)
    if event is None:
        return None
    name, payload = event
    if name == "turn:patch":
        turn = to_builtins(view.turn(payload["turn_id"]))
        patch = payload["data"]
        if "text_delta" in patch:
            patch["content"] = _get_block_content(turn, patch)
        patch["turn"] = turn
    elif name in ("turn:start", "turn:end"):
        payload |= _get_origin(view.session)
    elif isinstance(data, RunEnded) and data.error is None:
        payload["result"] |= {"output": data.output, "schema": data.schema}
    return name, payload


def _get_block_content(turn: Json, patch: Json) -> Any:
    """Return what a block holds now; a failed attempt's block is no longer in the turn."""
    blocks = turn["blocks"][patch["block_index"] :][:1]
    if blocks and blocks[0]["type"] == patch["type"]:
        return blocks[0]["content"]
    return patch["text_delta"]


def _get_origin(session: Session) -> Json:
    """Return the solution and template of a session, which older clients expect with a turn."""
    origin = {}
    if session.solution_id is not None:
        origin["solution_id"] = session.solution_id
    if isinstance(session.more, dict):
        template = session.more.get("template_id")
    else:
        template = None
    if template is not None:
        origin["template_id"] = template
    return origin


def _to_client_event(entry: LogEntry, data: EventData, view: SessionView) -> ClientEvent | None:
    convert = _CONVERTERS.get(entry.kind)
    if convert is None:
        return None
    event = convert(data, view)
    if event is None:
        return None
    name, payload = event
    return name, {"session_id": entry.session_id, **payload}


def _build_patch(event: TurnEventData, patch_type: str, data: Json) -> ClientEvent:
    return "turn:patch", {
        "sequence": event.patch,
        "turn_id": event.turn_id,
        "loop_id": event.loop_id,
        "patch_type": patch_type,
        "data": data,
    }


def _build_block_patch(event: TurnEventData, block: ContentBlock, index: int | None) -> ClientEvent:
    return _build_patch(event, "add_content", {**to_builtins(block), "block_index": index})


def _build_call_patch(
    event: TurnEventData, call: ToolCallProjection, index: int | None
) -> ClientEvent:
    data = {name: value for name, value in to_builtins(call).items() if value is not None}
    return _build_patch(event, "add_tool_call", {**data, "block_index": index})


def _convert_session(event: Any, view: SessionView) -> ClientEvent:
    return "session:updated", to_builtins(view.session)


def _convert_session_changed(event: SessionChanged, view: SessionView) -> ClientEvent:
    # What changed is sent as it was then: who resumes hears of every status.
    return "session:updated", {**to_builtins(view.session), **event.changes}


def _convert_agent(event: AgentChanged, view: SessionView) -> ClientEvent:
    agent = {"profile": event.profile, "settings": event.settings}
    return "session:updated", {**to_builtins(view.session), **agent}


def _convert_branch_moved(event: BranchMoved, view: SessionView) -> ClientEvent:
    session = to_builtins(view.session)
    return "session:updated", {**session, "head": event.head, "reason": event.reason}


def _convert_replay(event: ReplayChanged, view: SessionView) -> ClientEvent:
    return "session:updated", {**to_builtins(view.session), "replay_state": event.replay_state}


def _convert_run_started(event: RunStarted, view: SessionView) -> ClientEvent:
    return "chat:start", {"chat_run_id": event.run_id, **event.info}


def _convert_run_ended(event: RunEnded, view: SessionView) -> ClientEvent:
    result: Json
    if event.error is not None:
        result = {"err_msg": event.error}
    elif event.schema is not None and isinstance(event.output, dict):
        result = dict(event.output)
    else:
        result = {"result": event.output}
    payload: Json = {
        "status": event.status,
        "result": result,
        "finish_reason": event.finish_reason or event.status,
        "chat_run_id": event.run_id,
        "session_status": event.session_status,
    }
    if event.duration_ms is not None:
        payload["duration_ms"] = event.duration_ms
    if event.config_snapshot is not None:
        payload["config_snapshot"] = event.config_snapshot
    return "chat:end", payload


def _convert_turn_opened(event: TurnOpened, view: SessionView) -> ClientEvent:
    turn = to_builtins(from_builtins(event.turn, TurnProjection))
    return "turn:start", {**turn, "parent_id": event.parent_id}


def _convert_turn_status(event: TurnStatusChanged, view: SessionView) -> ClientEvent:
    data: Json = {"status": event.status}
    if event.failure_reason is not None:
        data["failure_reason"] = event.failure_reason
    return _build_patch(event, "set_status", data)


def _convert_turn_retried(event: TurnRetried, view: SessionView) -> ClientEvent:
    data: Json = {
        "status": "streaming",
        "blocks": event.blocks,
        "tool_calls": [],
        "attempts": event.attempts,
    }
    return _build_patch(event, "set_status", data)


def _convert_turn_ended(event: TurnEnded, view: SessionView) -> ClientEvent:
    return "turn:end", to_builtins(view.turn(event.turn_id))


def _convert_text(event: TextDelta, view: SessionView) -> ClientEvent:
    return _build_text_patch(event, "text")


def _convert_thinking(event: TextDelta, view: SessionView) -> ClientEvent:
    return _build_text_patch(event, "thinking")


def _build_text_patch(event: TextDelta, block_type: str) -> ClientEvent:
    data = {"type": block_type, "text_delta": event.text, "block_index": event.block_index}
    return _build_patch(event, "add_content", data)


def _convert_block(event: BlockAdded, view: SessionView) -> ClientEvent:
    block = from_builtins(event.block, ContentBlock)
    return _build_block_patch(event, block, event.block_index)


def _convert_tool_called(event: ToolCalled, view: SessionView) -> ClientEvent:
    call = from_builtins(event.call, ToolCallProjection)
    return _build_call_patch(event, call, event.block_index)


def _convert_tool_arguments(event: ToolArgumentsDelta, view: SessionView) -> ClientEvent:
    data = {
        "status": "pending",
        "tool_call_id": event.tool_call_id,
        "arguments_delta": event.delta,
    }
    return _build_patch(event, "set_tool_status", data)


def _convert_tool_status(event: ToolStatusChanged, view: SessionView) -> ClientEvent:
    # The dumped event omits a reference that was not set, but keeps one that was set to None.
    dumped = dump_event_data(event)
    names = ("tool_call_id", "status", "pending_question_ref")
    return _build_patch(
        event, "set_tool_status", {name: dumped[name] for name in names if name in dumped}
    )


def _convert_tool_returned(event: ToolReturned, view: SessionView) -> ClientEvent:
    data: Json = {
        "tool_call_id": event.tool_call_id,
        "result": event.result,
        "status": event.status,
    }
    if event.duration_ms is not None:
        data["duration_ms"] = event.duration_ms
    return _build_patch(event, "tool_result", data)


def _convert_question_asked(event: QuestionAsked, view: SessionView) -> ClientEvent:
    data: Json = {"tool_call_id": event.tool_call_id, "status": "awaiting_answer"}
    reference = event.build_reference()
    if reference is not None:
        data["pending_question_ref"] = reference
    return _build_patch(event, "set_tool_status", data)


def _convert_question_answered(event: QuestionAnswered, view: SessionView) -> ClientEvent:
    data: Json = {"tool_call_id": event.tool_call_id, "status": "pending"}
    if event.kind != "question":
        data["pending_question_ref"] = None
    return _build_patch(event, "set_tool_status", data)


def _convert_mode(event: ModeChanged, view: SessionView) -> ClientEvent:
    if not event.turn_id:
        session = to_builtins(view.session)
        return "session:updated", {**session, "mode": event.to}
    change = {"from": event.before, "to": event.to}
    block = ContentBlock(type="mode_change", content=change)
    return _build_block_patch(event, block, event.block_index)


def _convert_memories(event: MemoryRecalled, view: SessionView) -> ClientEvent:
    return "memory:inject:done", {
        "turn_id": event.turn_id,
        "loop_id": event.loop_id,
        "memory_refs": event.refs,
    }


def _convert_usage(event: UsageCounted, view: SessionView) -> ClientEvent:
    fields = dump_event_data(event)
    return _build_patch(event, "set_status", _without_envelope(fields))


def _convert_compacted(event: Compacted, view: SessionView) -> ClientEvent:
    # All fields of a compaction are sent, also those that are None.
    fields: Json = {"kind": "compaction"}
    for name in event.__struct_fields__:
        fields[name] = getattr(event, name)
    return _build_patch(event, "set_status", _without_envelope(fields))


def _without_envelope(fields: Json) -> Json:
    return {name: value for name, value in fields.items() if name not in _ENVELOPE_FIELDS}


def _convert_error(event: ErrorRaised, view: SessionView) -> ClientEvent:
    detail = event.message if event.detail is None else event.detail
    return "system:error", {"message": event.message, "code": event.code, "detail": detail}


def _convert_notice(event: NoticeSent, view: SessionView) -> ClientEvent:
    return "system:notification", build_notification(event.message, event.info)


def build_notification(message: str, info: Json) -> Json:
    """Return the payload of `system:notification`: by the documented names, and by the older."""
    status = info.get("level", "info")
    return {
        "notification_type": info.get("code", "notice"),
        "title": message,
        "detail": info.get("detail"),
        "status": status if status in ("error", "warning", "info") else "info",
        **info,
        "message": message,
    }


def _convert_signal(event: SignalSent, view: SessionView) -> ClientEvent:
    return event.event, dict(event.payload)


def _convert_imported(event: EventImported, view: SessionView) -> ClientEvent | None:
    if not event.patch or not event.turn_id:
        return None
    call_id = event.tool_call_id
    if call_id:
        call = to_tool_call(event.event, call_id)
        if call is not None:
            return _build_call_patch(event, call, event.block_index)
        result = to_tool_result(event.event)
        if result is not None:
            output, status = result
            data = {"tool_call_id": call_id, "result": output, "status": status}
            return _build_patch(event, "tool_result", data)
    block = to_block(event.event)
    if block is None:
        return None
    return _build_block_patch(event, block, event.block_index)


# Kinds that are missing here are not sent to clients.
_CONVERTERS: dict[str, Callable[[Any, SessionView], ClientEvent | None]] = {
    "session.created": _convert_session,
    "session.changed": _convert_session_changed,
    "agent.changed": _convert_agent,
    "run.started": _convert_run_started,
    "run.ended": _convert_run_ended,
    "branch.moved": _convert_branch_moved,
    "turn.opened": _convert_turn_opened,
    "turn.status": _convert_turn_status,
    "turn.ended": _convert_turn_ended,
    "turn.retried": _convert_turn_retried,
    "text.delta": _convert_text,
    "thinking.delta": _convert_thinking,
    "block.added": _convert_block,
    "tool.called": _convert_tool_called,
    "tool.arguments": _convert_tool_arguments,
    "tool.status": _convert_tool_status,
    "tool.result": _convert_tool_returned,
    "question.asked": _convert_question_asked,
    "question.answered": _convert_question_answered,
    "mode.changed": _convert_mode,
    "memory.recalled": _convert_memories,
    "usage.counted": _convert_usage,
    "compacted": _convert_compacted,
    "replay.changed": _convert_replay,
    "error.raised": _convert_error,
    "notice.given": _convert_notice,
    "signal.sent": _convert_signal,
    "event.kept": _convert_imported,
}
