"""What each kind of entry does to the state; it also fills in what only the log knows: numbers,
places, parents."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET

from open_token._open_types import T
from open_token.entries import (
    BlockAdded,
    BranchMoved,
    CheckpointMade,
    Compacted,
    Delta,
    ErrorRaised,
    EventKept,
    Imported,
    Json,
    LogFault,
    MemoryRecalled,
    MessageQueued,
    MessageTaken,
    ModeChanged,
    QuestionAnswered,
    QuestionAsked,
    ReplayChanged,
    RunEnded,
    RunStarted,
    SessionChanged,
    SessionCreated,
    ToolArguments,
    ToolCalled,
    ToolResulted,
    ToolStatusSet,
    TurnEnded,
    TurnOpened,
    TurnStatusSet,
    UsageCounted,
    flat,
)
from open_token.reducer._facts import Aside, Facts, Kept, Mark
from open_token.reducer._kept import block_of, call_of, result_of
from open_token.reducer._turn import Calling, Growing, Turn
from open_token.turns import (
    ContentBlock,
    MemoryRef,
    PendingQuestionRef,
    ReplayState,
    Session,
    ToolCallProjection,
    TurnProjection,
    plain,
    typed,
)

COMPACTION = (
    "compaction_id",
    "summary_preview",
    "summary_full",
    "archived_count",
    "tokens_before",
    "tokens_after",
    "saved_ratio",
    "trigger",
)
_COUNTS = ("usage", "duration_ms", "context_window")


def _typed(value: Any, kind: type[T]) -> T:
    try:
        return typed(value, kind)
    except msgspec.ValidationError:
        raise LogFault(f"an entry holds no {kind.__name__} where it must") from None


def _session_created(state: Facts, shape: SessionCreated, at: str) -> None:
    if state.seq:
        raise LogFault("a session that is there already")
    state.session = _typed({"created_at": at, **shape.session, "id": state.session_id}, Session)


def _session_changed(state: Facts, shape: SessionChanged, at: str) -> None:
    state.session = _typed(
        {**plain(state.session), **shape.changes, "id": state.session_id}, Session
    )


def _run_started(state: Facts, shape: RunStarted, at: str) -> None:
    state.run = shape
    state.session.status = "running"


def _run_ended(state: Facts, shape: RunEnded, at: str) -> None:
    state.run = None
    waits = shape.status == "completed" and bool(_asked(state))
    state.session.status = "waiting_for_input" if waits else shape.status
    shape.session_status = state.session.status
    if shape.status != "completed" or shape.schema is not None:
        names = ("status", "finish_reason", "output", "error", "duration_ms")
        told = {name: getattr(shape, name) for name in names if getattr(shape, name) is not None}
        state.asides.append(Aside(state.head, len(state.turns), at, {"kind": "run", **told}))


def _message_queued(state: Facts, shape: MessageQueued, at: str) -> None:
    state.queue[shape.message_id] = shape.message


def _message_taken(state: Facts, shape: MessageTaken, at: str) -> None:
    if state.queue.pop(shape.message_id, None) is None:
        raise LogFault("a message that is not in the queue")


def _checkpoint_made(state: Facts, shape: CheckpointMade, at: str) -> None:
    if shape.checkpoint_id in state.marks:
        raise LogFault("a checkpoint that is there already")
    shape.parent_id = state.head
    state.marks[shape.checkpoint_id] = Mark(
        shape.checkpoint_id, shape.turn_id, state.head, shape.label, at
    )


def _branch_moved(state: Facts, shape: BranchMoved, at: str) -> None:
    way = state.way_to(shape.head)
    if shape.reason != "imported":
        told = {name: value for name, value in flat(shape).items() if name != "head"}
        shared = {turn.facts.id for turn in way}
        told["left"] = sum(turn.facts.id not in shared for turn in state.path)
        state.asides.append(
            Aside(shape.head, len(state.turns), at, {"kind": "branch_moved", **told})
        )
    state.path = way
    state.deprecated = tuple(shape.deprecated)
    if state.run is None and _asked(state):
        state.session.status = "waiting_for_input"
    elif state.session.status == "waiting_for_input":
        state.session.status = "completed"


def _asked(state: Facts) -> list[QuestionAsked]:
    """The questions of the current branch."""
    if not state.questions:
        return []
    active = {turn.facts.turn_id for turn in state.path}
    return [question for question in state.questions.values() if question.turn_id in active]


def _turn_opened(state: Facts, shape: TurnOpened, at: str) -> None:
    given = shape.turn
    name = given.get("turn_id")
    made: Json = {
        "id": f"entry_{str(name).removeprefix('turn_')}",
        "sequence": len(state.turns),
        "started_at": at,
    }
    facts = _typed(made | given, TurnProjection)
    if facts.turn_id in state.turns or facts.id in state.nodes:
        raise LogFault("a turn that is there already")
    if shape.parent_id is not UNSET and shape.parent_id != state.head:
        raise LogFault("a turn behind another node than the head")
    shape.parent_id = state.head
    shape.turn = made | given
    turn = Turn(facts, state.head, at, deprecated=state.deprecated, imported=shape.imported)
    turn.blocks = [Growing(block) for block in facts.blocks]
    turn.calls = {call.id: Calling(call) for call in facts.tool_calls}
    facts.blocks, facts.tool_calls = [], []
    state.deprecated = ()
    state.turns[facts.turn_id] = state.nodes[facts.id] = turn
    state.callers |= dict.fromkeys(turn.calls, facts.turn_id)
    last = next(reversed(state.marks.values()), None)
    if last is not None and last.turn_id == facts.turn_id:
        turn.checkpoint_id = last.checkpoint_id
    state.path.append(turn)
    if shape.client_message_id:
        state.sent[shape.client_message_id] = facts.turn_id


def _turn_status(state: Facts, shape: TurnStatusSet, at: str) -> None:
    turn = state.turn_of(shape)
    _stands(turn, shape)
    state.patched(turn, shape)


def _turn_ended(state: Facts, shape: TurnEnded, at: str) -> None:
    turn = state.turns.get(shape.turn_id)
    if turn is None:
        raise LogFault("the end of a turn that is not in the log")
    _count(turn, shape)
    _stands(turn, shape)


def _stands(turn: Turn, shape: TurnStatusSet | TurnEnded) -> None:
    turn.facts.status = shape.status
    if shape.failure_reason is not None:
        turn.facts.failure_reason = shape.failure_reason


def _count(turn: Turn, shape: TurnEnded | UsageCounted) -> None:
    for name in _COUNTS:
        if (value := getattr(shape, name)) is not None:
            setattr(turn.facts, name, value)


def _grows(state: Facts, shape: Delta, kind: str) -> None:
    turn = state.turn_of(shape)
    if turn.facts.status != "streaming":
        raise LogFault("words for a turn that is over")
    shape.block_index = turn.grow(kind, shape.text, shape.block_index)
    state.patched(turn, shape)


def _text(state: Facts, shape: Delta, at: str) -> None:
    _grows(state, shape, "text")


def _thinking(state: Facts, shape: Delta, at: str) -> None:
    _grows(state, shape, "thinking")


def _block_added(state: Facts, shape: BlockAdded, at: str) -> None:
    turn = state.turn_of(shape)
    shape.block_index = turn.add_block(_typed(shape.block, ContentBlock), shape.block_index)
    state.patched(turn, shape)


def _tool_called(state: Facts, shape: ToolCalled, at: str) -> None:
    turn = state.turn_of(shape)
    call = _typed(shape.call, ToolCallProjection)
    shape.block_index = turn.add_call(call, shape.block_index)
    state.callers[call.id] = shape.turn_id
    state.patched(turn, shape)


def _tool_arguments(state: Facts, shape: ToolArguments, at: str) -> None:
    turn = state.turn_of(shape)
    calling = turn.calling(shape.tool_call_id)
    if calling.call.status != "pending":
        raise LogFault("arguments for a call that is over")
    calling.pieces.append(shape.delta)
    state.patched(turn, shape)


def _tool_status(state: Facts, shape: ToolStatusSet, at: str) -> None:
    turn = state.turn_of(shape)
    changes: Json = {"status": shape.status}
    given = shape.pending_question_ref
    if given is not UNSET:
        changes["pending_question_ref"] = (
            _typed(given, PendingQuestionRef) if given is not None else None
        )
    turn.change_call(shape.tool_call_id, **changes)
    if shape.status != "awaiting_answer":
        state.questions.pop(shape.tool_call_id, None)
    state.patched(turn, shape)


def _tool_result(state: Facts, shape: ToolResulted, at: str) -> None:
    turn = state.turn_of(shape)
    changes: Json = {"result": shape.result, "status": shape.status}
    if shape.duration_ms is not None:
        changes["duration_ms"] = shape.duration_ms
    turn.change_call(shape.tool_call_id, **changes)
    turn.calls[shape.tool_call_id].ended_at = at
    state.questions.pop(shape.tool_call_id, None)
    state.patched(turn, shape)


def _question_asked(state: Facts, shape: QuestionAsked, at: str) -> None:
    turn = state.turn_of(shape)
    turn.change_call(shape.tool_call_id, status="awaiting_answer")
    state.questions[shape.tool_call_id] = shape
    state.patched(turn, shape)


def _question_answered(state: Facts, shape: QuestionAnswered, at: str) -> None:
    if shape.tool_call_id not in state.questions:
        raise LogFault("an answer to a question that is not open")
    turn = state.turn_of(shape)
    turn.change_call(shape.tool_call_id, status="pending")
    del state.questions[shape.tool_call_id]
    state.patched(turn, shape)


def _mode_changed(state: Facts, shape: ModeChanged, at: str) -> None:
    turn = state.turn_of(shape) if shape.turn_id else None
    if shape.before is None:
        shape.before = state.mode
    if turn is not None:
        block = ContentBlock(type="mode_change", content={"from": shape.before, "to": shape.to})
        shape.block_index = turn.add_block(block, shape.block_index)
        state.patched(turn, shape)
    state.mode = shape.to


def _memory_recalled(state: Facts, shape: MemoryRecalled, at: str) -> None:
    turn = state.turn_of(shape)
    turn.facts.memory_refs = [_typed(ref, MemoryRef) for ref in shape.refs]
    shape.loop_id = turn.facts.loop_id


def _usage_counted(state: Facts, shape: UsageCounted, at: str) -> None:
    turn = state.turn_of(shape)
    _count(turn, shape)
    shape.status = turn.facts.status
    state.patched(turn, shape)


def _compacted(state: Facts, shape: Compacted, at: str) -> None:
    turn = state.turn_of(shape)
    for name in COMPACTION:
        setattr(turn.facts, name, getattr(shape, name))
    turn.facts.kind = "compaction"
    shape.status = turn.facts.status
    state.patched(turn, shape)


def _replay_changed(state: Facts, shape: ReplayChanged, at: str) -> None:
    given = shape.replay_state
    state.session.replay_state = _typed(given, ReplayState) if given is not None else None


def _error_raised(state: Facts, shape: ErrorRaised, at: str) -> None:
    names = ("message", "code", "detail")
    told = {name: getattr(shape, name) for name in names if getattr(shape, name) is not None}
    state.asides.append(Aside(state.head, len(state.turns), at, {"kind": "error", **told}))


def _imported(state: Facts, shape: Imported, at: str) -> None:
    if state.document is not None or state.turns:
        raise LogFault("an import into a session that has begun")
    state.document = shape


def _event_kept(state: Facts, shape: EventKept, at: str) -> None:
    if shape.turn_id:
        _show(state, shape)
    if shape.anchor is UNSET:
        shape.anchor = state.turns[shape.turn_id].facts.id if shape.turn_id else state.head
    state.kept.append(Kept(shape.anchor, shape.event))


def _show(state: Facts, shape: EventKept) -> None:
    """An event in its turn, as far as turns can show it."""
    turn, event, name = state.turn_of(shape), shape.event, shape.tool_call_id
    if name and (call := call_of(event, name)) is not None:
        shape.block_index = turn.add_call(call, shape.block_index)
        state.callers[name] = shape.turn_id
    elif name and (result := result_of(event)) is not None:
        turn.change_call(name, result=result[0], status=result[1])
    elif (block := block_of(event)) is not None:
        shape.block_index = turn.add_block(block, shape.block_index)
    else:
        shape.loop_id = turn.facts.loop_id
        return
    state.patched(turn, shape)


def _nothing(state: Facts, shape: Any, at: str) -> None:
    """Of no consequence for the session."""


FOLDS: dict[str, Callable[[Any, Any, str], None]] = {
    "session.created": _session_created,
    "session.changed": _session_changed,
    "run.started": _run_started,
    "run.ended": _run_ended,
    "message.queued": _message_queued,
    "message.taken": _message_taken,
    "checkpoint.made": _checkpoint_made,
    "branch.moved": _branch_moved,
    "turn.opened": _turn_opened,
    "turn.status": _turn_status,
    "turn.ended": _turn_ended,
    "text.delta": _text,
    "thinking.delta": _thinking,
    "block.added": _block_added,
    "tool.called": _tool_called,
    "tool.arguments": _tool_arguments,
    "tool.status": _tool_status,
    "tool.result": _tool_result,
    "question.asked": _question_asked,
    "question.answered": _question_answered,
    "mode.changed": _mode_changed,
    "memory.recalled": _memory_recalled,
    "usage.counted": _usage_counted,
    "compacted": _compacted,
    "replay.changed": _replay_changed,
    "error.raised": _error_raised,
    "notice.given": _nothing,
    "signal.sent": _nothing,
    "imported": _imported,
    "event.kept": _event_kept,
}
