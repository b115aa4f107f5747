"""What clients are told of an entry: at most one event, in two dialects; only ends of turns are
looked up."""

from collections.abc import Callable
from typing import Any, Protocol

from open_token.entries import (
    BlockAdded,
    BranchMoved,
    Compacted,
    Data,
    Delta,
    Entry,
    ErrorRaised,
    EventKept,
    Json,
    MemoryRecalled,
    ModeChanged,
    NoticeGiven,
    OnCall,
    OnTurn,
    ReplayChanged,
    RunEnded,
    RunStarted,
    SignalSent,
    ToolArguments,
    ToolCalled,
    ToolResulted,
    ToolStatusSet,
    TurnEnded,
    TurnOpened,
    TurnStatusSet,
    UsageCounted,
    flat,
    shaped,
)
from open_token.reducer._kept import block_of, call_of, result_of
from open_token.turns import ContentBlock, Session, ToolCallProjection, TurnProjection, plain, typed

Told = tuple[str, Json]
"""The name of an event, and what is sent."""


class View(Protocol):
    """Where whole turns and the session come from: a state, or what a store keeps of it."""

    @property
    def session(self) -> Session:
        """The session."""
        ...

    def turn(self, turn_id: str) -> TurnProjection:
        """A turn."""
        ...


def raw(entry: Entry, view: View) -> Json | None:
    """An item of `turn:events`, small: of a patch only what is new. None when there is nothing to
    tell.

    It needs only the entry, but for the end of a turn and for changes of the session, which are
    told as they are now: who resumes from an old entry comes to the same end."""
    told = _told(entry, shaped(entry.kind, entry.data), view)
    if told is None:
        return None
    name, payload = told
    if name == "chat:end":
        payload["stream_sequence"] = entry.seq
    return {"type": name, "payload": payload, "stream_sequence": entry.seq}


def legacy(entry: Entry, view: View) -> Told | None:
    """The same as an event of its own, as older clients want it: patches with the whole block and
    the whole turn.

    To be called when the entry was folded and the next one was not, for what is whole is taken from
    the view."""
    shape = shaped(entry.kind, entry.data)
    told = _told(entry, shape, view)
    if told is None:
        return None
    name, payload = told
    if name == "turn:patch":
        turn = plain(view.turn(payload["turn_id"]))
        data = payload["data"]
        if "text_delta" in data:
            data["content"] = turn["blocks"][data["block_index"]]["content"]
        data["turn"] = turn
    elif name in ("turn:start", "turn:end"):
        payload |= _made_from(view.session)
    elif isinstance(shape, RunEnded) and shape.error is None:
        payload["result"] |= {"output": shape.output, "schema": shape.schema}
    return name, payload


def _made_from(session: Session) -> Json:
    """What older clients want to know with a turn: from which solution or template its session was
    made."""
    template = session.more.get("template_id") if isinstance(session.more, dict) else None
    told = {"solution_id": session.solution_id, "template_id": template}
    return {name: value for name, value in told.items() if value is not None}


def _told(entry: Entry, shape: Data, view: View) -> Told | None:
    tell = _TELLS.get(entry.kind)
    told = tell(shape, view) if tell else None
    if told is None:
        return None
    name, payload = told
    return name, {"session_id": entry.session_id, **payload}


def _patch(shape: OnTurn, kind: str, data: Json) -> Told:
    envelope = {"sequence": shape.patch, "turn_id": shape.turn_id, "loop_id": shape.loop_id}
    return "turn:patch", {**envelope, "patch_type": kind, "data": data}


def _updated(shape: Any, view: View) -> Told:
    return "session:updated", plain(view.session)


def _moved(shape: BranchMoved, view: View) -> Told:
    return "session:updated", {**plain(view.session), "head": shape.head, "reason": shape.reason}


def _replayed(shape: ReplayChanged, view: View) -> Told:
    return "session:updated", {**plain(view.session), "replay_state": shape.replay_state}


def _run_started(shape: RunStarted, view: View) -> Told:
    return "chat:start", {"chat_run_id": shape.run_id, **shape.info}


def _run_ended(shape: RunEnded, view: View) -> Told:
    result: Json
    if shape.error is not None:
        result = {"err_msg": shape.error}
    elif shape.schema is not None and isinstance(shape.output, dict):
        result = dict(shape.output)
    else:
        result = {"result": shape.output}
    names = ("duration_ms", "config_snapshot")
    return "chat:end", {
        "status": shape.status,
        "result": result,
        "finish_reason": shape.finish_reason or shape.status,
        "chat_run_id": shape.run_id,
        "session_status": shape.session_status,
        **{name: getattr(shape, name) for name in names if getattr(shape, name) is not None},
    }


def _opened(shape: TurnOpened, view: View) -> Told:
    turn = plain(typed(shape.turn, TurnProjection))
    return "turn:start", {**turn, "parent_id": shape.parent_id}


def _status(shape: TurnStatusSet, view: View) -> Told:
    reason = {"failure_reason": shape.failure_reason} if shape.failure_reason is not None else {}
    return _patch(shape, "set_status", {"status": shape.status, **reason})


def _ended(shape: TurnEnded, view: View) -> Told:
    return "turn:end", plain(view.turn(shape.turn_id))


def _grown(kind: str) -> Callable[[Delta, View], Told]:
    def tell(shape: Delta, view: View) -> Told:
        data = {"type": kind, "text_delta": shape.text, "block_index": shape.block_index}
        return _patch(shape, "add_content", data)

    return tell


def _block(shape: BlockAdded, view: View) -> Told:
    return _whole_block(shape, typed(shape.block, ContentBlock), shape.block_index)


def _whole_block(shape: OnTurn, block: ContentBlock, index: int | None) -> Told:
    return _patch(shape, "add_content", {**plain(block), "block_index": index})


def _called(shape: ToolCalled, view: View) -> Told:
    return _whole_call(shape, typed(shape.call, ToolCallProjection), shape.block_index)


def _whole_call(shape: OnTurn, call: ToolCallProjection, index: int | None) -> Told:
    data = {name: value for name, value in plain(call).items() if value is not None}
    return _patch(shape, "add_tool_call", {**data, "block_index": index})


def _arguments(shape: ToolArguments, view: View) -> Told:
    data = {"tool_call_id": shape.tool_call_id, "arguments_delta": shape.delta}
    return _patch(shape, "set_tool_status", {"status": "pending", **data})


def _tool_status(shape: ToolStatusSet, view: View) -> Told:
    told = flat(shape)
    names = ("tool_call_id", "status", "pending_question_ref")
    return _patch(shape, "set_tool_status", {name: told[name] for name in names if name in told})


def _result(shape: ToolResulted, view: View) -> Told:
    data: Json = {
        "tool_call_id": shape.tool_call_id,
        "result": shape.result,
        "status": shape.status,
    }
    if shape.duration_ms is not None:
        data["duration_ms"] = shape.duration_ms
    return _patch(shape, "tool_result", data)


def _waits(status: str) -> Callable[[OnCall, View], Told]:
    def tell(shape: OnCall, view: View) -> Told:
        return _patch(
            shape, "set_tool_status", {"tool_call_id": shape.tool_call_id, "status": status}
        )

    return tell


def _mode(shape: ModeChanged, view: View) -> Told:
    change = {"from": shape.before, "to": shape.to}
    if not shape.turn_id:
        return "session:updated", {**plain(view.session), "mode": shape.to}
    return _whole_block(shape, ContentBlock(type="mode_change", content=change), shape.block_index)


def _recalled(shape: MemoryRecalled, view: View) -> Told:
    return "memory:inject:done", {
        "turn_id": shape.turn_id,
        "loop_id": shape.loop_id,
        "memory_refs": shape.refs,
    }


def _facts(shape: UsageCounted | Compacted, view: View) -> Told:
    """Fields of a turn that changed, beside the status that stays."""
    told = flat(shape)
    if isinstance(shape, Compacted):
        told = {
            "kind": "compaction",
            **{name: getattr(shape, name) for name in shape.__struct_fields__},
        }
    placed = ("turn_id", "loop_id", "patch")
    return _patch(
        shape, "set_status", {name: value for name, value in told.items() if name not in placed}
    )


def _error(shape: ErrorRaised, view: View) -> Told:
    detail = shape.message if shape.detail is None else shape.detail
    return "system:error", {"message": shape.message, "code": shape.code, "detail": detail}


def _notice(shape: NoticeGiven, view: View) -> Told:
    return "system:notification", {**shape.info, "message": shape.message}


def _signal(shape: SignalSent, view: View) -> Told:
    return shape.event, dict(shape.payload)


def _kept(shape: EventKept, view: View) -> Told | None:
    if not shape.patch or not shape.turn_id:
        return None
    event, name = shape.event, shape.tool_call_id
    if name and (call := call_of(event, name)) is not None:
        return _whole_call(shape, call, shape.block_index)
    if name and (result := result_of(event)) is not None:
        return _patch(
            shape, "tool_result", {"tool_call_id": name, "result": result[0], "status": result[1]}
        )
    block = block_of(event)
    return _whole_block(shape, block, shape.block_index) if block is not None else None


_TELLS: dict[str, Callable[[Any, View], Told | None]] = {
    "session.created": _updated,
    "session.changed": _updated,
    "run.started": _run_started,
    "run.ended": _run_ended,
    "branch.moved": _moved,
    "turn.opened": _opened,
    "turn.status": _status,
    "turn.ended": _ended,
    "text.delta": _grown("text"),
    "thinking.delta": _grown("thinking"),
    "block.added": _block,
    "tool.called": _called,
    "tool.arguments": _arguments,
    "tool.status": _tool_status,
    "tool.result": _result,
    "question.asked": _waits("awaiting_answer"),
    "question.answered": _waits("pending"),
    "mode.changed": _mode,
    "memory.recalled": _recalled,
    "usage.counted": _facts,
    "compacted": _facts,
    "replay.changed": _replayed,
    "error.raised": _error,
    "notice.given": _notice,
    "signal.sent": _signal,
    "event.kept": _kept,
}
